//! Those who wait for a name, oldest first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::node::operation::Operation;
use crate::rules::handover::granted;

/// How far from the head of the line a reader looks for a writer, and how many readers are told at
/// once that they may enter.
const HEAD: usize = 128;
/// Whoever waits asks again before that has passed twice.
const SILENT: Duration = Duration::from_secs(10);

/// Owners by ticket, then by their own order: what a sorted set is on a real node. It expires
/// as a whole, with the longest wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Line {
    waiting: BTreeSet<(u64, Arc<str>)>,
    /// Who of them may be handed the name.
    registered: BTreeMap<Arc<str>, Registered>,
    /// How long turns of the others must last at least, and when they asked.
    needs: BTreeMap<Arc<str>, (Duration, Duration)>,
    until: Duration,
}

/// To whom a name may be handed over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Registered {
    /// For how long it asked, and for how long it may be at most.
    lasts: (Duration, Duration),
    at: Duration,
}

impl Registered {
    /// How long a hand-over would last; `None` where it is too long ago for one.
    pub(super) fn lasts(&self, now: Duration) -> Option<Duration> {
        let (asked, most) = self.lasts;
        granted(asked, most, now.checked_sub(self.at))
    }

    /// Whether it should be made again: it will soon be too long ago.
    fn is_stale(&self, now: Duration) -> bool {
        let (asked, most) = self.lasts;
        now.checked_sub(self.at).is_none_or(|age| age * 8 + asked * 5 > most * 8)
    }
}

impl Line {
    pub(super) fn join(&mut self, ticket: u64, owner: Arc<str>, until: Duration) {
        let until = if self.waiting.is_empty() { until } else { self.until.max(until) };
        self.waiting.retain(|(_, known)| *known != owner);
        self.waiting.insert((ticket, owner));
        self.until = until;
    }

    /// Who waits may be handed the name.
    pub(super) fn register(&mut self, owner: &Arc<str>, lasts: (Duration, Duration), at: Duration) {
        self.needs.remove(owner);
        self.registered.insert(owner.clone(), Registered { lasts, at });
    }

    /// Who waits is given a turn, for so long at least.
    pub(super) fn needs(&mut self, owner: &Arc<str>, turn: Duration, at: Duration) {
        self.registered.remove(owner);
        self.needs.insert(owner.clone(), (turn, at));
    }

    /// For how long the turn of those who enter must last at least.
    pub(super) fn needed(&self) -> Duration {
        let needed = |who: &Arc<str>| self.needs.get(who).map(|&(turn, _)| turn);
        self.entering().filter_map(needed).max().unwrap_or_default()
    }

    /// Those whose turn it is when the first has one: it, and where it is a reader those behind it,
    /// up to the first other.
    fn entering(&self) -> impl Iterator<Item = &Arc<str>> {
        let first = self.waiting.first().map(|(_, who)| who);
        let reads = first.is_some_and(|who| Operation::is_shared(who));
        let behind = self.waiting.iter().map(|(_, who)| who).take(HEAD).skip(1);
        first.into_iter().chain(behind.take_while(move |who| reads && Operation::is_shared(who)))
    }

    /// Takes out those whose turn it is.
    pub(super) fn enter(&mut self) -> Vec<Arc<str>> {
        let entering: Vec<_> = self.entering().cloned().collect();
        entering.iter().for_each(|_| drop(self.pop()));
        entering
    }

    /// Nobody may be, before it asks again.
    pub(super) fn withdraw_all(&mut self) {
        self.registered.clear();
        self.needs.clear();
    }

    pub(super) fn registered(&self, owner: &str) -> Option<&Registered> {
        self.registered.get(owner)
    }

    /// Of the first two, those who should register again.
    pub(super) fn stale(&self, now: Duration) -> impl Iterator<Item = Arc<str>> {
        let stale = move |who: &&Arc<str>| self.registered.get(&**who).is_some_and(|known| known.is_stale(now));
        self.waiting.iter().take(2).map(|(_, who)| who).filter(stale).cloned()
    }

    /// The place of an owner, from 1; 0 if it has none.
    pub(super) fn rank(&self, owner: &str) -> u32 {
        let found = self.waiting.iter().position(|(_, known)| **known == *owner);
        found.and_then(|index| u32::try_from(index + 1).ok()).unwrap_or(0)
    }

    pub(super) fn leave(&mut self, owner: &str) {
        self.waiting.retain(|(_, known)| **known != *owner);
        self.registered.remove(owner);
        self.needs.remove(owner);
        self.forget_when_empty();
    }

    pub(super) fn pop(&mut self) -> Option<Arc<str>> {
        let (_, first) = self.waiting.pop_first()?;
        self.registered.remove(&first);
        self.needs.remove(&first);
        self.forget_when_empty();
        Some(first)
    }

    pub(super) fn first(&self) -> Option<(u64, &Arc<str>)> {
        self.waiting.first().map(|(ticket, first)| (*ticket, first))
    }

    /// The first that is no reader, if it is not far behind, and has not asked so long ago that it
    /// has died: while others read, nobody gives it a turn that would end.
    pub(super) fn first_writer(&self, now: Duration) -> Option<(u64, &Arc<str>)> {
        let asked = |who: &str| {
            let registered = self.registered.get(who).map(|known| known.at);
            registered.or_else(|| self.needs.get(who).map(|&(_, at)| at))
        };
        let silent = |who: &str| asked(who).and_then(|at| now.checked_sub(at)).is_some_and(|age| age >= SILENT);
        let mut near = self.waiting.iter().take(HEAD);
        near.find(|(_, who)| !Operation::is_shared(who) && !silent(who)).map(|(ticket, who)| (*ticket, who))
    }

    pub(super) fn len(&self, now: Duration) -> u32 {
        if now < self.until { u32::try_from(self.waiting.len()).unwrap_or(u32::MAX) } else { 0 }
    }

    pub(super) fn contains(&self, owner: &str, now: Duration) -> bool {
        now < self.until && self.waiting.iter().any(|(_, known)| **known == *owner)
    }

    pub(super) fn expire(&mut self, now: Duration) {
        if self.until <= now {
            self.waiting.clear();
            self.registered.clear();
            self.needs.clear();
            self.until = Duration::ZERO;
        }
    }

    /// An empty sorted set is no key, and has no expiry.
    fn forget_when_empty(&mut self) {
        if self.waiting.is_empty() {
            self.until = Duration::ZERO;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_queue_that_was_empty_is_kept_for_no_longer_than_who_joined_since() {
        for leave in [|line: &mut Line| line.leave("long"), |line: &mut Line| drop(line.pop())] {
            let mut line = Line::default();
            line.join(1, "long".into(), 100 * SECOND);
            leave(&mut line);
            line.join(2, "short".into(), 5 * SECOND);
            assert!(line.contains("short", 4 * SECOND) && !line.contains("short", 5 * SECOND));
            line.expire(4 * SECOND);
            assert_eq!(line.first().map(|(ticket, _)| ticket), Some(2));
            line.expire(5 * SECOND);
            assert_eq!(line.first(), None);
        }
    }
}
