//! The queue of a name: waiters, oldest first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::millis;
use crate::node::hint::Hint;
use crate::node::operation::{Kind, Waiter};

/// The waiting owners, by arrival and then by id. A real node keeps the owners in a sorted set, and
/// the data of each waiter's last ask in a hash. Each of these two keys expires as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Line {
    order: BTreeSet<(u64, Arc<str>)>,
    waiting: BTreeMap<Arc<str>, Waiting>,
    until: Duration,
}

/// One waiter, as of its last ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiting {
    /// The kind of the hold that the waiter wants.
    pub(super) kind: Kind,
    pub(super) arrival: u64,
    /// How long a hand-over to this waiter lasts.
    pub(super) lasts: Duration,
    /// The longest time from one ask to the next, as the waiter announced it.
    again: Duration,
    /// The time of the last ask.
    asked: Duration,
}

impl Waiting {
    /// How long ago the last ask was; zero if the node's clock was set back to before the ask.
    const fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.asked)
    }

    /// Whether the last ask is older than twice `again`.
    fn is_silent(&self, now: Duration) -> bool {
        self.age(now) > self.again * 2
    }

    /// The time until the last ask is `lasts / 2` old. A waiter that moved up asks after this time.
    fn is_old_in(&self, now: Duration) -> Duration {
        millis((self.lasts / 2).saturating_sub(self.age(now)))
    }
}

impl Line {
    /// Gives the owner a place, or renews the owner's place.
    pub(super) fn join(&mut self, owner: &Arc<str>, kind: Kind, waiter: &Waiter, now: Duration) {
        let Waiter { arrival, lasts, again } = *waiter;
        let (lasts, again) = (millis(lasts), millis(again).max(Duration::from_millis(1)));
        let known = self.waiting.insert(owner.clone(), Waiting { kind, arrival, lasts, again, asked: now });
        if let Some(known) = known {
            self.order.remove(&(known.arrival, owner.clone()));
        }
        let until = now + again * 2 + Duration::from_millis(1);
        self.until = if self.order.is_empty() { until } else { self.until.max(until) };
        self.order.insert((arrival, owner.clone()));
    }

    pub(super) fn at(&self, place: usize) -> Option<Arc<str>> {
        self.order.iter().nth(place).map(|(_, owner)| owner.clone())
    }

    /// The waiter's last ask; `None` if the waiter is silent. If an ask is ahead of the clock, the
    /// clock was set back: the ask counts as made now.
    pub(super) fn get(&mut self, owner: &str, now: Duration) -> Option<Waiting> {
        let waiting = self.waiting.get_mut(owner)?;
        waiting.asked = waiting.asked.min(now);
        Some(*waiting).filter(|waiting| !waiting.is_silent(now))
    }

    /// The waiters that are not silent, in order.
    pub(super) fn live(&self, now: Duration) -> impl Iterator<Item = &Arc<str>> {
        let live = move |owner: &&Arc<str>| self.waiting.get(&**owner).is_some_and(|known| !known.is_silent(now));
        self.order.iter().map(|(_, owner)| owner).filter(live)
    }

    /// The time after which a waiter that moved up should ask again.
    pub(super) fn is_old_in(&mut self, owner: &str, now: Duration) -> Duration {
        let Some(waiting) = self.waiting.get_mut(owner) else { return Duration::ZERO };
        waiting.asked = waiting.asked.min(now);
        waiting.is_old_in(now)
    }

    /// The place of an owner, counted from 1; 0 if the owner has no place.
    pub(super) fn rank(&self, owner: &str) -> u32 {
        let found = self.order.iter().position(|(_, known)| **known == *owner);
        found.and_then(|index| u32::try_from(index + 1).ok()).unwrap_or(0)
    }

    /// Removes the owner. Returns whether the owner had a place.
    pub(super) fn leave(&mut self, owner: &str) -> bool {
        let Some((owner, waiting)) = self.waiting.remove_entry(owner) else { return false };
        self.order.remove(&(waiting.arrival, owner));
        // Redis deletes an empty sorted set, together with its expiry.
        if self.order.is_empty() {
            self.until = Duration::ZERO;
        }
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn len(&self, now: Duration) -> u32 {
        if now < self.until { u32::try_from(self.order.len()).unwrap_or(u32::MAX) } else { 0 }
    }

    pub(super) fn contains(&self, owner: &str, now: Duration) -> bool {
        now < self.until && self.waiting.contains_key(owner)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn expire(&mut self, now: Duration) {
        if self.until <= now {
            self.clear();
        }
    }
}

/// Whether the client of an owner receives the messages on its channel.
pub(super) fn is_heard_by(owner: &str, hears: &dyn Fn(&str) -> bool) -> bool {
    let hint = Hint::ask_again(owner.into(), Duration::ZERO);
    hint.address().is_some_and(|(client, _)| hears(client))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn waiter(arrival: u64, again: Duration) -> Waiter {
        Waiter { arrival, lasts: 3 * SECOND, again }
    }

    #[test]
    fn queue_that_was_empty_is_kept_as_long_as_its_waiters_say() {
        let mut line = Line::default();
        line.join(&"long".into(), Kind::Lock, &waiter(1, 100 * SECOND), SECOND);
        assert!(line.leave("long") && !line.leave("long"));
        line.join(&"short".into(), Kind::Lock, &waiter(2, 2 * SECOND), SECOND);
        assert!(line.contains("short", 5 * SECOND) && !line.contains("short", 6 * SECOND));
        line.expire(5 * SECOND);
        assert!(!line.is_empty());
        line.expire(6 * SECOND);
        assert!(line.is_empty());
    }

    #[test]
    fn waiter_that_asks_again_keeps_its_place_and_no_other() {
        let mut line = Line::default();
        for (owner, arrival) in [("a", 3), ("b", 2), ("a", 1)] {
            line.join(&owner.into(), Kind::Lock, &waiter(arrival, SECOND), SECOND);
        }
        let order = [0, 1, 2].map(|place| line.at(place));
        assert_eq!(order, [Some("a".into()), Some("b".into()), None]);
        assert_eq!((line.rank("a"), line.rank("b"), line.rank("c")), (1, 2, 0));
    }

    #[test]
    fn waiter_is_silent_after_twice_the_time_it_said() {
        let mut line = Line::default();
        line.join(&"a".into(), Kind::Lock, &waiter(1, SECOND), 10 * SECOND);
        assert!(line.get("a", 12 * SECOND).is_some());
        assert!(line.get("a", 12 * SECOND + Duration::from_millis(1)).is_none());
    }

    #[test]
    fn waiter_that_asked_before_the_clock_was_set_back_asked_now() {
        let mut line = Line::default();
        line.join(&"a".into(), Kind::Lock, &waiter(1, SECOND), 1_000 * SECOND);
        assert!(line.get("a", 10 * SECOND).is_some());
        assert!(line.get("a", 12 * SECOND).is_some() && line.get("a", 13 * SECOND).is_none());
    }

    #[test]
    fn waiter_is_old_when_half_of_a_hand_over_is_gone() {
        let mut line = Line::default();
        line.join(&"a".into(), Kind::Lock, &waiter(1, 9 * SECOND), 10 * SECOND);
        for (asked, due) in [(10_000, 1_500), (10_700, 800), (11_500, 0), (13_000, 0), (9_000, 1_500)] {
            let (now, due) = (Duration::from_millis(asked), Duration::from_millis(due));
            assert_eq!(line.is_old_in("a", now), due, "at {asked}");
        }
    }
}
