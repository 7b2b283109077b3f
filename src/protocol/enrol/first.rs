//! For whom a client waits that has nothing enrolled.

use std::time::Duration;

use crate::rules::{NodeSet, Tick};

/// For how long a node is waited for that was not heard lately; nodes that come and go, altogether;
/// and where another client of the same list is enrolled, those that are being connected to for the
/// first time.
const TRIED: Duration = Duration::from_secs(5);
const TRIED_ALL: Duration = Duration::from_secs(15);
const TRIED_BRIEFLY: Duration = Duration::from_millis(500);
/// How much later than it was due a client looks again that did not stand still.
const LATE: Duration = Duration::from_millis(1_250);

/// What it has waited, and written, since it had something enrolled last. (The model checker has
/// this file as it is.)
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct First {
    /// Since when it waits for nodes that it has not heard, with a quorum that answers.
    tries: Option<Tick>,
    /// When it looks again at the latest, unless it stands still.
    due: Tick,
    /// The nodes that answered when it looked and not when it wrote.
    went: NodeSet,
    /// Until when nodes may have entries that it wrote itself, and was not enrolled by.
    wrote: Option<Tick>,
    /// Since when it waits for young servers.
    waits: Option<Tick>,
}

impl First {
    /// It waits for everybody again. What it has written is where it was.
    pub(super) fn begin_anew(&mut self) {
        (self.tries, self.went) = (None, NodeSet::default());
    }

    /// It looks, for so long at most. Who stood still since it looked last has not waited.
    pub(super) fn looks(&mut self, now: Tick, patience: Duration) {
        if is_late(now, self.due) {
            (self.tries, self.waits) = (None, None);
        }
        self.due = now + patience;
    }

    /// Until when to wait for the nodes that did not answer, by when each of them was heard last.
    pub(super) fn tries(&mut self, now: Tick, missing: impl Iterator<Item = Option<Tick>>) -> Option<Tick> {
        let since = self.tries.unwrap_or(now);
        let last = missing.map(|heard| since.max(heard.unwrap_or(since)) + TRIED).max();
        self.tries = last.map(|_| since);
        Some(last?.min(since + TRIED_ALL))
    }

    /// The same where somebody vouches for its list, and other nodes are being connected to or not.
    pub(super) fn tries_briefly(&mut self, now: Tick, others_come: bool) -> Option<Tick> {
        let since = *self.tries.get_or_insert(now);
        others_come.then_some(since + TRIED_BRIEFLY)
    }

    /// Whether one of the nodes that went since it looked is not waited for yet: clients of another
    /// list may have been enrolled there meanwhile. It is waited for as others are, once.
    pub(super) fn one_went(&mut self, gone: NodeSet) -> bool {
        let gone = gone.without(self.went);
        self.went = self.went.or(gone);
        self.tries = self.tries.filter(|_| gone.is_empty());
        !gone.is_empty()
    }

    /// Until when to wait for servers that are young for `left` more. One that restarts again and
    /// again delays a start by `most` once, where that is given.
    pub(super) fn young(&mut self, now: Tick, left: Option<Duration>, most: Option<Duration>) -> Option<Tick> {
        let Some(left) = left else {
            self.waits = None;
            return None;
        };
        let waits = *self.waits.get_or_insert(now);
        let until = (now + left).min(most.map_or(Tick::NEVER, |most| waits + most));
        (now < until).then_some(until)
    }

    /// It writes entries that last until then at most: where others have told a ttl, or it tells
    /// one itself, they vouch for its list.
    pub(super) fn writes(&mut self, until: Tick) {
        self.wrote = self.wrote.max(Some(until));
    }

    /// Whether what vouches for its list may be its own, and nobody else's.
    pub(super) fn has_written(&self, now: Tick) -> bool {
        self.wrote.is_some_and(|until| now < until)
    }
}

/// Whether a process that was to go on by then must have stood still.
pub(super) fn is_late(now: Tick, due: Tick) -> bool {
    now > due + LATE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Tick {
        Tick::new(Duration::from_millis(millis))
    }

    #[test]
    fn who_does_not_answer_is_waited_for_since_it_was_heard_and_all_together_for_a_while() {
        let mut first = First::default();
        assert_eq!(first.tries(at(1_000), [None, Some(at(500))].into_iter()), Some(at(6_000)));
        assert_eq!(first.tries(at(3_000), [Some(at(2_500))].into_iter()), Some(at(7_500)));
        assert_eq!(first.tries(at(12_000), [Some(at(11_500)), None].into_iter()), Some(at(16_000)));
        assert_eq!(first.tries(at(12_100), std::iter::empty()), None);
        assert_eq!(first.tries(at(12_200), [Some(at(11_500))].into_iter()), Some(at(17_200)), "the wait begins anew");
    }

    #[test]
    fn who_stood_still_has_not_waited() {
        let patience = Duration::from_secs(2);
        let mut first = First::default();
        first.looks(at(0), patience);
        assert_eq!(first.tries(at(0), [None].into_iter()), Some(at(5_000)));
        first.looks(at(3_250), patience);
        assert_eq!(first.tries(at(3_250), [None].into_iter()), Some(at(5_000)));
        assert_eq!(first.young(at(3_250), Some(patience), Some(patience)), Some(at(5_250)));
        first.looks(at(6_501), patience);
        assert_eq!(first.tries(at(6_501), [None].into_iter()), Some(at(11_501)));
        assert_eq!(first.young(at(6_501), Some(patience), Some(patience)), Some(at(8_501)));
    }

    #[test]
    fn a_server_that_restarts_again_and_again_delays_a_start_once_but_for_who_was_refused() {
        let (left, most) = (Duration::from_secs(3), Some(Duration::from_secs(3)));
        let mut first = First::default();
        assert_eq!(first.young(at(0), Some(left), most), Some(at(3_000)));
        assert_eq!(first.young(at(2_000), Some(left), most), Some(at(3_000)));
        assert_eq!(first.young(at(3_000), Some(left), most), None);
        assert_eq!(first.young(at(3_000), Some(left), None), Some(at(6_000)));
        assert_eq!(first.young(at(3_100), None, most), None);
        assert_eq!(first.young(at(4_000), Some(left), most), Some(at(7_000)));
    }

    #[test]
    fn who_went_is_waited_for_once_and_again_where_all_begins_anew() {
        let mut first = First::default();
        assert_eq!(first.tries(at(0), [None].into_iter()), Some(at(5_000)));
        assert!(first.one_went(NodeSet::of(1)) && !first.one_went(NodeSet::of(1)));
        assert_eq!(first.tries(at(4_000), [None].into_iter()), Some(at(9_000)));
        first.writes(at(60_000));
        first.writes(at(50_000));
        first.begin_anew();
        assert!(first.one_went(NodeSet::of(1)) && first.has_written(at(59_999)) && !first.has_written(at(60_000)));
    }
}
