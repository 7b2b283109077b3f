//! A node's hand-over of a name to its waiters.

use std::sync::Arc;
use std::time::Duration;

use super::entry::Hold;
use super::line::{Waiting, is_heard_by};
use super::record::Record;
use super::work::Work;
use crate::node::hint::{HandedOver, Hint};
use crate::node::operation::{Claim, Name, Operation};
use crate::node::reply::Queued;
use crate::rules::handover::Stamp;

/// The stamp of a message that is sent now. A memory node has only one connection. Its stamps have
/// whole microseconds, as on a real node.
fn stamp(precise: Duration) -> Stamp {
    let micros = u64::try_from(precise.as_micros()).unwrap_or(u64::MAX);
    Stamp { generation: 0, time: Duration::from_micros(micros) }
}

impl Work<'_> {
    /// Gives the owner of a waiting claim a place in the queue, or renews the place. The node
    /// cannot know whether this owner has ended. If the node hands the name to an owner that has
    /// ended, the owner's client releases the name.
    pub(super) fn queue_up(&mut self, claim: &Claim) {
        let (Some(waiter), Some(name)) = (claim.place(), claim.names.first()) else { return };
        let now = self.now;
        let entry = self.entry(name);
        if !entry.is_held_by(&claim.owner, now) {
            entry.line.join(&claim.owner, claim.kind, &waiter, now);
        }
    }

    /// The claim's place in the queue, if the claim waits.
    pub(super) fn place(&mut self, claim: &Claim, name: &Name) -> Option<Queued> {
        let rank = if claim.place().is_some() { self.entry(name).line.rank(&claim.owner) } else { 0 };
        let queued = Queued::of(rank)?;
        Some(Queued { stamp: stamp(self.precise), ..queued })
    }

    /// If a waiter comes before this claim of a free name, hands the name over, and returns true:
    /// the claim must be refused.
    pub(super) fn gives_way(&mut self, claim: &Claim, name: &Name) -> bool {
        let waits = claim.next > claim.ballot && self.has_others_before(claim, name);
        if waits {
            self.hand_over(name, claim.next);
        }
        waits
    }

    /// Whether a live waiter comes before the claim. For a reader's claim, only writers count.
    fn has_others_before(&mut self, claim: &Claim, name: &Name) -> bool {
        let mine = claim.place().map(|waiter| waiter.arrival);
        let other = self.first(name, Some(claim));
        other.is_some_and(|(_, waiting)| mine.is_none_or(|mine| waiting.arrival <= mine))
    }

    /// The first live waiter; `None` if there is none. Drops the dead waiters before it. The search
    /// stops before the place of this operation's owner. The search for a reader's claim skips
    /// waiting readers.
    fn first(&mut self, name: &Name, by: Option<&Claim>) -> Option<(Arc<str>, Waiting)> {
        let passes =
            |waiter: &str| by.is_some_and(|claim| [&*claim.owner, waiter].into_iter().all(Operation::is_shared));
        let mut place = 0;
        loop {
            let waiter = self.entry(name).line.at(place)?;
            if self.owner == Some(&waiter) {
                return None;
            }
            if passes(&waiter) {
                place += 1;
            } else if let Some(waiting) = self.living(name, &waiter) {
                return Some((waiter, waiting));
            } else {
                self.drop(name, &waiter);
            }
        }
    }

    /// Hands the name over, if no writer holds it. If the first live waiter is a writer, this
    /// writer gets the name, but only if no reader holds it. If the first live waiter is a reader,
    /// all readers before the first live writer get the name. Returns true if `next` was too low,
    /// so that the name stayed free for the first live waiter.
    ///
    /// Only waiters before the place of the operation's owner get the name. Otherwise, an owner
    /// that withdraws could get back the name that it gives up.
    pub(super) fn hand_over(&mut self, name: &Name, next: u64) -> bool {
        let (now, mut is_free) = (self.now, false);
        while !is_free && self.entry(name).holder(now).is_none() {
            let Some((waiter, waiting)) = self.first(name, None) else { break };
            let reads = self.entry(name).readers.last(now).is_some();
            if reads && !Operation::is_shared(&waiter) {
                break;
            }
            is_free = next <= self.bar(name, &waiter);
            if !is_free {
                self.hand(name, &waiter, waiting, next);
            }
        }
        self.tell(name, is_free);
        is_free
    }

    /// Sends a hint to each waiter that became first or second. The waiter asks again when its last
    /// ask is `lasts / 2` old, or at once if the ask is older. If `is_free` (the name could not be
    /// handed over), the first two waiters ask at once.
    fn tell(&mut self, name: &Name, is_free: bool) {
        let (now, moved_up) = (self.now, self.moved_up.remove(name.key()).unwrap_or_default());
        let knows = if is_free { 0 } else { 2usize.saturating_sub(moved_up) };
        for place in knows..2 {
            let line = &mut self.entry(name).line;
            let Some(waiter) = line.at(place) else { return };
            let after = if is_free { Duration::ZERO } else { line.is_old_in(&waiter, now) };
            self.store.hints.push(Hint::ask_again(waiter, after));
        }
    }

    /// Removes the owner from the queue. Returns whether the owner had a place.
    pub(super) fn leave(&mut self, name: &Name, owner: &str) -> bool {
        let had = self.drop(name, owner);
        self.tell(name, false);
        had
    }

    fn drop(&mut self, name: &Name, owner: &str) -> bool {
        let line = &mut self.entry(name).line;
        let (rank, had) = (line.rank(owner), line.leave(owner));
        if had && rank <= 2 {
            *self.moved_up.entry(name.key().clone()).or_default() += 1;
        }
        had
    }

    /// Removes a waiter from the queue, grants it the name, and sends it the push.
    fn hand(&mut self, name: &Name, owner: &Arc<str>, waiting: Waiting, ballot: u64) {
        let (now, precise, Waiting { kind, lasts, .. }) = (self.now, self.precise, waiting);
        self.drop(name, owner);
        if Operation::is_shared(owner) {
            self.read(name, owner, lasts, ballot);
        } else {
            self.hold(name, Hold::new(owner, kind, ballot, 1, now, lasts));
        }
        let (owner, name) = (owner.clone(), name.clone());
        let record = self.store.record.as_ref().map_or_else(Default::default, Record::id);
        let granted = HandedOver { owner, ballot, lasts, name, record, stamp: stamp(precise), counts: true };
        self.store.hints.push(Hint::granted(granted));
    }

    /// The waiter's last ask; `None` if the waiter is dead: silent, or its client is gone.
    fn living(&mut self, name: &Name, owner: &str) -> Option<Waiting> {
        let (now, heard) = (self.now, is_heard_by(owner, self.hears));
        self.entry(name).line.get(owner, now).filter(|_| heard)
    }
}
