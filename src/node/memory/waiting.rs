//! The queue of a name, and the hand-over to its waiters.

use std::sync::Arc;
use std::time::Duration;

use super::entry::Hold;
use super::line::Waiting;
use super::work::Work;
use crate::node::hint::{HandedOver, Hint};
use crate::node::operation::{Claim, Name, Operation};
use crate::node::reply::Queued;
use crate::rules::handover::Stamp;

/// When something happened, to the microsecond that a real node returns. There is one connection.
fn stamp(precise: Duration) -> Stamp {
    let micros = u64::try_from(precise.as_micros()).unwrap_or(u64::MAX);
    Stamp { generation: 0, time: Duration::from_micros(micros) }
}

impl Work<'_> {
    /// A claim of one name that must wait joins its queue, or renews its place. One that came after
    /// its owner has ended waits too: what it is handed is given back.
    pub(super) fn queue_up(&mut self, claim: &Claim) {
        let (Some(waiter), Some(name)) = (claim.place(), claim.names.first()) else { return };
        let now = self.now;
        let entry = self.entry(name);
        if !entry.is_held_by(&claim.owner, now) {
            entry.line.join(&claim.owner, claim.kind, &waiter, now);
        }
    }

    /// Where a claim stands in the queue, if it waits.
    pub(super) fn place(&mut self, claim: &Claim, name: &Name) -> Option<Queued> {
        let rank = if claim.place().is_some() { self.entry(name).line.rank(&claim.owner) } else { 0 };
        let queued = Queued::of(rank)?;
        Some(Queued { stamp: stamp(self.precise), ..queued })
    }

    /// Hands a name that is free for this claim to those that come before it. Whether there are any:
    /// then the claim is refused.
    pub(super) fn gives_way(&mut self, claim: &Claim, name: &Name) -> bool {
        let waits = claim.next > claim.ballot && self.has_others_before(claim, name);
        if waits {
            self.hand_over(name, claim.next);
        }
        waits
    }

    /// Whether a live waiter with an older ticket comes before the claim: for a reader, a writer.
    /// Those that are dead are dropped.
    fn has_others_before(&mut self, claim: &Claim, name: &Name) -> bool {
        let (me, shared) = (&claim.owner, Operation::is_shared(&claim.owner));
        let mine = claim.place().map(|waiter| waiter.ticket);
        for other in self.entry(name).line.head() {
            if other == *me {
                return false;
            }
            if shared && Operation::is_shared(&other) {
                continue;
            }
            let Some(waiting) = self.living(name, &other) else { continue };
            return mine.is_none_or(|mine| (waiting.ticket, &*other) < (mine, &**me));
        }
        false
    }

    /// Hands a name that no writer holds to the first waiter that lives; to all readers at the head
    /// together. Those that are dead are dropped. The next two are asked to ask again: when that
    /// hand-over ends, or at once if their places are getting old.
    ///
    /// Never to the owner whose call it is: whoever holds a name, or comes before others, has no place
    /// at their head.
    pub(super) fn hand_over(&mut self, name: &Name, next: u64) {
        let now = self.now;
        if self.entry(name).holder(now).is_some() {
            return;
        }
        let mut handed = None;
        for waiter in self.entry(name).line.head() {
            let Some(waiting) = self.living(name, &waiter) else { continue };
            let writes = !Operation::is_shared(&waiter);
            let reads = self.entry(name).readers.last(now).is_some();
            if writes && reads || next <= self.bar(name, &waiter) {
                break;
            }
            self.hand(name, &waiter, waiting, next);
            handed = handed.max(Some(waiting.lasts));
            if writes {
                break;
            }
        }
        if let Some(lasts) = handed {
            let next = self.entry(name).line.next(now, lasts);
            self.store.hints.extend(next.into_iter().map(|(owner, after)| Hint::ask_again(owner, after)));
        }
    }

    /// Grants the name to a waiter, which leaves the queue, and tells it.
    fn hand(&mut self, name: &Name, owner: &Arc<str>, waiting: Waiting, ballot: u64) {
        let (now, precise, Waiting { kind, lasts, .. }) = (self.now, self.precise, waiting);
        self.entry(name).line.leave(owner);
        if Operation::is_shared(owner) {
            self.read(name, owner, lasts, ballot);
        } else {
            self.hold(name, Hold::new(owner, kind, ballot, 1, now, lasts));
        }
        let (owner, name) = (owner.clone(), name.clone());
        let granted = HandedOver { owner, ballot, lasts, name, stamp: stamp(precise), counts: true };
        self.store.hints.push(Hint::granted(granted));
    }

    /// What a waiter said. If it has not asked again in time, or nobody hears what is published to its
    /// client, it is dropped.
    pub(super) fn living(&mut self, name: &Name, owner: &Arc<str>) -> Option<Waiting> {
        let now = self.now;
        let heard = is_heard_by(owner, self.hears);
        let line = &mut self.entry(name).line;
        let living = line.get(owner, now).filter(|_| heard);
        if living.is_none() {
            line.leave(owner);
        }
        living
    }
}

/// Whether what is published to the client of an owner reaches anybody.
pub(super) fn is_heard_by(owner: &str, hears: &dyn Fn(&str) -> bool) -> bool {
    let hint = Hint::ask_again(owner.into(), Duration::ZERO);
    hint.address().is_some_and(|(client, _)| hears(client))
}
