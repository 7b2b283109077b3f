//! What each node was, and what it said last of its roster.

use std::time::Duration;

use crate::node::Member;
use crate::rules::Tick;
use crate::rules::roster::{Roster, Server};

/// How many servers are remembered at most that one node was before.
const GONE: usize = 16;

/// A roster that was told, until its entries have expired.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Told {
    roster: Roster,
    until: Tick,
    /// Whether it had no room for this client's servers.
    refused: bool,
}

/// One node. (The model checker has this file as it is: what is remembered is part of its states.)
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct History {
    /// Which server it is or was, and when it answered last.
    last: Option<(String, Tick)>,
    /// Those before it, and from when on they have certainly gone.
    gone: Vec<(String, Tick)>,
    /// Since when it is another one than before.
    since: Option<Tick>,
    told: Option<Told>,
    /// For how long it had been retired when it answered last, and when that was.
    retired: Option<(Duration, Tick)>,
}

impl History {
    /// It is that server at `now`. Where that is another one than before, and was running already
    /// when the one before still was, that one may be so still: what it holds is over after the
    /// longest ttl.
    pub(super) fn meet(&mut self, member: &Member, longest: Duration, now: Tick) {
        if self.last.as_ref().is_some_and(|(last, _)| *last == member.run) {
            return;
        }
        self.retired = None;
        let Some((before, seen)) = self.last.replace((member.run.clone(), now)) else { return };
        let successor = now.since(seen) >= member.age;
        self.gone.push((before, if successor { now } else { now + longest }));
        self.since = Some(now);
        let too_many = self.gone.len().saturating_sub(GONE);
        self.gone.drain(..too_many);
    }

    /// The server, with those that have gone and of which `lives` does not know better.
    pub(super) fn server(&self, member: &Member, now: Tick, lives: impl Fn(&str) -> bool) -> Server {
        let gone = self.gone.iter().filter(|(run, from)| *from <= now && !lives(run));
        Server { run: member.run.clone(), before: gone.map(|(run, _)| run.clone()).collect() }
    }

    /// For how long it is the same process at least. One that loads its data for long is old when
    /// it answers.
    pub(super) fn age(&self, member: &Member, now: Tick) -> Duration {
        member.age.min(self.since.map_or(Duration::MAX, |since| now.since(since)))
    }

    /// It told its roster, and whether it takes this client's servers. What it refused stands,
    /// unless that is `forgiven`: a node that has restarted takes everybody, and so does one that
    /// is asked for less.
    pub(super) fn hear(&mut self, (took, roster): &(bool, Roster), now: Tick, forgiven: bool) {
        if let Some((_, answered)) = &mut self.last {
            *answered = now;
        }
        self.retired = roster.retired.map(|age| (age, now));
        if *took && !forgiven && self.refused(now).is_some() {
            return;
        }
        let until = now + roster.binds();
        self.told = Some(Told { roster: roster.clone(), until, refused: !took });
    }

    /// When it was asked what it answered last, or was connected to for the first time.
    pub(super) fn heard(&self) -> Option<Tick> {
        self.last.as_ref().map(|(_, heard)| *heard)
    }

    /// Whether it was retired, when it answered last.
    pub(super) const fn is_retired(&self) -> bool {
        self.retired.is_some()
    }

    /// For how long it has been retired, as far as it told.
    pub(super) fn retired(&self, now: Tick) -> Option<Duration> {
        self.retired.map(|(age, told)| age + now.since(told))
    }

    /// What it told, while that may be so still.
    pub(super) fn told(&self, now: Tick) -> Option<&Roster> {
        self.told.as_ref().filter(|told| now < told.until).map(|told| &told.roster)
    }

    /// The roster by which it refused lately, and until when that binds.
    pub(super) fn refused(&self, now: Tick) -> Option<(&Roster, Tick)> {
        self.told.as_ref().filter(|told| told.refused && now < told.until).map(|told| (&told.roster, told.until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::new(Duration::from_secs(seconds))
    }

    fn met(run: &str, age: u64) -> Member {
        Member { run: run.to_owned(), age: Duration::from_secs(age) }
    }

    #[test]
    fn a_successor_has_its_predecessors_room_at_once_where_it_is_younger_and_else_after_the_longest_ttl() {
        let before = |age, now| {
            let (mut history, longest) = (History::default(), Duration::from_secs(60));
            history.meet(&met("a", 990), longest, at(90));
            history.hear(&(true, Roster::default()), at(100), true);
            history.meet(&met("a", 1_005), longest, at(105));
            history.meet(&met("b", age), longest, at(110));
            history.server(&met("b", age), at(now), |_| false).before
        };
        assert_eq!(before(8, 110), ["a"]);
        assert!(before(11, 169).is_empty(), "b ran while a did");
        assert_eq!(before(11, 170), ["a"]);
    }

    #[test]
    fn what_was_refused_stands_until_it_is_forgiven_or_expires() {
        let roster = |seconds| Roster { max_ttl: Duration::from_secs(seconds), ..Roster::default() };
        let mut history = History::default();
        history.hear(&(true, roster(30)), at(0), false);
        assert!(history.refused(at(1)).is_none() && history.told(at(49)).is_some() && history.told(at(50)).is_none());
        history.hear(&(false, roster(30)), at(10), false);
        history.hear(&(true, roster(0)), at(11), false);
        assert_eq!(history.refused(at(12)).map(|(_, until)| until), Some(at(60)));
        history.hear(&(true, roster(0)), at(12), true);
        assert!(history.refused(at(13)).is_none());
    }
}
