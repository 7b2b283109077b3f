//! What a node stores, and what it does when it is asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::entry::Entry;
use super::millis;
use super::record::Record;
use crate::node::hint::{HandedOver, Hint};
use crate::node::operation::{Name, Operation, Stance, Verb};
use crate::node::reply::{Inspection, Outcome, Queued};
use crate::quorum::handover::Stamp;

/// What a node stores. Its functions take the node's own time, so that a simulation can run it fast, slow or stepped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Store {
    entries: BTreeMap<Arc<str>, Entry>,
    record: Record,
    hints: Vec<Hint>,
    sweep_at: usize,
}

/// How many entries are kept at least before the expired ones are looked for.
const SWEEP: usize = 1_024;

impl Store {
    /// Carries out one operation at the node's time `now`, which is the time since any fixed origin.
    pub fn apply(&mut self, operation: &Operation, now: Duration) -> Outcome {
        // To the microsecond only where ballots are compared with the clock.
        let (precise, now) = (now, millis(now));
        self.expire(now);
        if matches!(operation.verb, Verb::Claim | Verb::Teach | Verb::Record | Verb::Revoke) {
            self.record.rotate(precise);
        }
        let mut work = Work { store: self, operation, now, precise };
        match operation.verb {
            Verb::Claim => work.claim(),
            Verb::Renew => work.renew(),
            Verb::Count => work.count(),
            Verb::Release => work.release(),
            Verb::Inspect => work.inspect(),
            Verb::Teach => work.teach(),
            Verb::Record => work.record(),
            Verb::Revoke => work.revoke(),
        }
    }

    /// Takes what was published since the last time.
    pub fn hints(&mut self) -> Vec<Hint> {
        std::mem::take(&mut self.hints)
    }

    /// The process ended, and the next one has what is stored: it must be taught like one that has nothing.
    pub const fn restarted(&mut self) {
        self.record.restarted();
    }

    /// Forgets who holds a name or held it, as a real node does whose keys are deleted by hand, and keeps its fence.
    pub fn forget(&mut self, name: &Name) {
        if let Some(entry) = self.entries.get_mut(name.key()) {
            entry.forget();
        }
    }

    /// The highest ballot granted here, of any name, and up to which ballots nothing is granted.
    #[must_use]
    pub const fn bounds(&self) -> (u64, u64) {
        (self.record.high(), self.record.floor())
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_free(&self, now: Duration) -> bool {
        self.entries.values().all(|entry| entry.holder(millis(now)).is_none())
    }

    /// Whether nobody waits in any queue.
    #[must_use]
    pub fn is_idle(&self, now: Duration) -> bool {
        self.entries.values().all(|entry| entry.line.len(now) == 0)
    }

    /// Whether an acquisition stands in the queue of a name.
    #[must_use]
    pub fn waits(&self, name: &Name, acquisition: &str, now: Duration) -> bool {
        self.entries.get(name.key()).is_some_and(|entry| entry.line.contains(acquisition, now))
    }

    /// Forgets what has expired, as a real node does from time to time whether it is asked or not.
    pub fn expire_all(&mut self, now: Duration) {
        self.entries.retain(|_, entry| !entry.expire(millis(now)));
    }

    /// Forgets what has expired, now and then.
    fn expire(&mut self, now: Duration) {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, entry| !entry.expire(now));
            self.sweep_at = SWEEP + 2 * self.entries.len();
        }
    }
}

/// What tells whoever is registered to register again: in a moment.
const REGISTER: Duration = Duration::from_millis(1);

/// When something happened, to the microsecond that a real node tells. There is one connection.
fn stamp(precise: Duration) -> Stamp {
    let micros = u64::try_from(precise.as_micros()).unwrap_or(u64::MAX);
    Stamp { generation: 0, time: Duration::from_micros(micros) }
}

/// One operation being carried out.
struct Work<'a> {
    store: &'a mut Store,
    operation: &'a Operation,
    now: Duration,
    precise: Duration,
}

impl Work<'_> {
    /// A name of the operation, without what has expired of it.
    fn entry(&mut self, name: &Name) -> &mut Entry {
        let now = self.now;
        let entry = self.store.entries.entry(name.key().clone()).or_default();
        entry.expire(now);
        entry
    }

    fn names(&self) -> Arc<[Name]> {
        self.operation.names.clone()
    }

    /// No ballot up to this one is granted for the name.
    fn bar(&mut self, name: &Name) -> u64 {
        let floor = self.store.record.floor();
        self.entry(name).fence.max(floor)
    }

    fn is_mine(&mut self, name: &Name) -> bool {
        self.is_of(name, &self.operation.owner.clone())
    }

    /// Whether it is, and was not taken away.
    fn is_kept(&mut self, name: &Name) -> bool {
        let (owner, now) = (self.operation.owner.clone(), self.now);
        self.entry(name).is_kept_by(&owner, now)
    }

    fn is_of(&mut self, name: &Name, owner: &str) -> bool {
        let now = self.now;
        self.entry(name).is_held_by(owner, now)
    }

    fn claim(&mut self) -> Outcome {
        let claim = self.operation;
        let bar = self.highest_bar(claim);
        let mut top = claim.ballot;
        for name in self.names().iter() {
            if let Some(refusal) = self.refusal(claim, name, bar) {
                return refusal;
            }
            if self.is_of(name, &claim.owner) {
                top = top.max(self.entry(name).fence);
            }
        }
        for name in self.names().iter() {
            self.take(claim, name, top);
        }
        Outcome::Granted { fence: top }
    }

    /// The highest bar of the names that are free.
    fn highest_bar(&mut self, claim: &Operation) -> u64 {
        let mut highest = 0;
        let now = self.now;
        for name in claim.names.iter() {
            if self.entry(name).holder(now).is_none() {
                highest = highest.max(self.bar(name));
            }
        }
        highest
    }

    /// Takes a name that nothing refuses: its queue is left, and the turn is over.
    fn take(&mut self, claim: &Operation, name: &Name, fence: u64) {
        self.hold(claim, name, fence);
        let entry = self.entry(name);
        entry.line.leave(Operation::acquisition(&claim.owner));
        entry.turn = None;
    }

    fn refusal(&mut self, claim: &Operation, name: &Name, highest: u64) -> Option<Outcome> {
        let (now, floor, bar) = (self.now, self.store.record.floor(), self.bar(name));
        let entry = self.entry(name);
        match entry.holder(now) {
            // Granted while the node was in doubt, and it was taught since.
            Some(hold) if hold.owner == claim.owner && !hold.revoked => {
                let ballot = entry.fence.max(claim.ballot);
                (ballot <= floor).then_some(Outcome::Stale { fence: floor })
            }
            Some(hold) => {
                let (holder, remaining) = (hold.owner.to_string(), Some(hold.until - now));
                self.join(claim, name);
                self.register(claim, name);
                Some(Outcome::Held { holder, remaining, fence: bar, queued: self.place(claim, name) })
            }
            None if claim.ballot <= bar => Some(Outcome::Stale { fence: highest }),
            None => {
                let (turn, left, due) = self.before(claim, name)?;
                self.join(claim, name);
                self.register(claim, name);
                if due {
                    self.give(name);
                }
                let queued = self.place(claim, name);
                Some(Outcome::Reserved { turn: turn.to_string(), left, fence: bar, queued })
            }
        }
    }

    /// Who comes before this claim to the free name, for how long, and whether the turn is still to be given.
    fn before(&mut self, claim: &Operation, name: &Name) -> Option<(Arc<str>, Duration, bool)> {
        if claim.stance == Stance::Barge {
            return None;
        }
        let (now, me) = (self.now, Operation::acquisition(&claim.owner));
        let entry = self.entry(name);
        if let Some((turn, until)) = &entry.turn {
            return (**turn != *me).then(|| (turn.clone(), until.saturating_sub(now), false));
        }
        let (ticket, first) = entry.line.first().filter(|(_, first)| ***first != *me)?;
        match claim.stance {
            Stance::Wait { ticket: mine, .. } if (mine, me) < (ticket, &**first) => None,
            _ => Some((first.clone(), millis(claim.grace), true)),
        }
    }

    fn renew(&mut self) -> Outcome {
        let renewal = self.operation;
        for name in renewal.names.iter() {
            if let Some(holder) = self.stranger(name) {
                return Outcome::Lost { holder };
            }
        }
        let mut outcome = Outcome::Extended;
        for name in renewal.names.iter() {
            let precise = self.precise;
            if self.is_mine(name) {
                self.entry(name).extend(renewal.ttl, precise);
                self.note_fence(name);
            } else {
                outcome = Outcome::Healed;
                self.store.record.rotate(self.precise);
                let fence = self.entry(name).fence.max(renewal.ballot);
                self.hold(renewal, name, fence);
            }
        }
        outcome
    }

    /// Because of whom a renewal does not renew; of nobody, where the owner was released.
    fn stranger(&mut self, name: &Name) -> Option<String> {
        let (owner, now) = (self.operation.owner.clone(), self.now);
        let entry = self.entry(name);
        match (entry.holder(now), &entry.turn) {
            (Some(hold), _) if hold.owner == owner => hold.revoked.then(String::new),
            (Some(hold), _) => Some(hold.owner.to_string()),
            (None, Some((turn, _))) => Some(turn.to_string()),
            (None, None) => entry.is_gone(&owner).then(String::new),
        }
    }

    fn count(&mut self) -> Outcome {
        for name in self.names().iter() {
            if !self.is_mine(name) {
                let now = self.now;
                let holder = self.entry(name).holder(now).map_or_else(String::new, |hold| hold.owner.to_string());
                return Outcome::Lost { holder };
            }
        }
        for name in self.names().iter() {
            let count = self.operation.count;
            self.entry(name).count(count);
        }
        Outcome::Counted
    }

    fn release(&mut self) -> Outcome {
        let (release, precise) = (self.operation, self.precise);
        if self.is_brief() {
            self.entry(&release.names[0]).free();
            return Outcome::Released { held: 1 };
        }
        self.store.record.rotate(precise);
        let mut held = 0;
        for name in release.names.iter() {
            let entry = self.entry(name);
            let freed = entry.release(&release.owner, release.ballot, precise);
            let fence = entry.fence;
            self.store.record.heard(fence, precise);
            self.queue_after_release(release, name, freed);
            held += u32::from(freed);
        }
        Outcome::Released { held }
    }

    /// Whether the script frees the name without a look at the record: nobody waits, and the fence is known. (In a call with other
    /// operations, or where a queue has just expired, it may look all the same. Nothing rests on it.)
    fn is_brief(&mut self) -> bool {
        let release = self.operation;
        let [name] = &*release.names else { return false };
        let mine = self.is_kept(name);
        let now = self.now;
        let entry = self.entry(name);
        let alone = entry.turn.is_none() && entry.line.len(now) == 0;
        mine && alone && release.ballot <= entry.fence && !matches!(release.stance, Stance::Wait { .. })
    }

    /// Leaves the queue or stays in it. If the name is free now, it is handed over to the first, where it was `freed` by
    /// this, or the first is given its turn.
    fn queue_after_release(&mut self, release: &Operation, name: &Name, freed: bool) {
        let (me, now) = (Operation::acquisition(&release.owner), self.now);
        if release.stance == Stance::Once {
            self.entry(name).line.leave(me);
        } else {
            self.join(release, name);
            self.entry(name).line.withdraw(&release.owner);
        }
        let entry = self.entry(name);
        entry.turn.take_if(|(turn, _)| **turn == *me);
        if entry.holder(now).is_none() && entry.turn.is_none() && !(freed && self.hand_over(name)) {
            self.give(name);
        }
    }

    /// Grants the name to the first in the queue, if that is registered lately enough and the ballot may be granted. Whether
    /// it did. The next two are told to register again, if that is long ago.
    fn hand_over(&mut self, name: &Name) -> bool {
        let (ballot, now, precise) = (self.operation.next, self.now, self.precise);
        if ballot <= self.bar(name) {
            return false;
        }
        let line = &mut self.entry(name).line;
        let Some((_, first)) = line.first() else { return false };
        let Some(to) = line.registered(first).filter(|known| known.is_fresh(now)).cloned() else { return false };
        // A release or a revocation of it must not be undone by what another's release carries.
        if self.entry(name).is_gone(&to.owner) {
            return false;
        }
        let line = &mut self.entry(name).line;
        let Some(first) = line.pop() else { return false };
        let late: Vec<_> = line.stale(now).collect();
        let granted =
            HandedOver { owner: to.owner.clone(), ballot, name: name.clone(), stamp: stamp(precise), counts: true };
        let claim = Operation { owner: to.owner, ttl: to.lasts, count: 1, ..self.operation.clone() };
        self.hold(&claim, name, ballot);
        self.store.hints.push(Hint { granted: Some(granted), ..Hint::new(first, Duration::ZERO) });
        self.store.hints.extend(late.into_iter().map(|late| Hint::new(late, REGISTER)));
        true
    }

    /// A claim that was refused one name, and waits for it, is who it may be handed over to.
    fn register(&mut self, claim: &Operation, name: &Name) {
        if claim.registers() {
            let (lasts, now) = (millis(claim.handover), self.now);
            self.entry(name).line.register(claim.owner.clone(), lasts, now);
        }
    }

    /// Where a claim stands in the queue, if it waits.
    fn place(&mut self, claim: &Operation, name: &Name) -> Option<Queued> {
        let waits = matches!(claim.stance, Stance::Wait { .. });
        let rank = if waits { self.entry(name).line.rank(Operation::acquisition(&claim.owner)) } else { 0 };
        let queued = Queued::of(rank)?;
        Some(Queued { stamp: stamp(self.precise), ..queued })
    }

    fn revoke(&mut self) -> Outcome {
        let (revoke, precise) = (self.operation, self.precise);
        let (mut held, mut longest) = (0, Duration::ZERO);
        for name in revoke.names.iter() {
            let left = self.entry(name).revoke(&revoke.owner, revoke.ballot, precise);
            let fence = self.entry(name).fence;
            self.store.record.heard(fence, precise);
            held += u32::from(left.is_some());
            longest = longest.max(left.unwrap_or_default());
        }
        Outcome::Revoked { held, left: longest }
    }

    fn inspect(&mut self) -> Outcome {
        Outcome::Inspected(self.operation.names.iter().map(|name| self.look(name)).collect())
    }

    fn look(&mut self, name: &Name) -> Inspection {
        // To look at a name makes no entry of it.
        let mut entry = self.store.entries.get(name.key()).cloned().unwrap_or_default();
        let now = self.now;
        entry.expire(now);
        let seen = entry.holder(now).map_or_else(
            || Inspection::free(entry.fence),
            |hold| {
                Inspection::held(hold.owner.to_string(), hold.count, Some(hold.until - now), entry.fence)
                    .with_revoked(hold.revoked)
            },
        );
        let turn = entry.turn.as_ref().map(|(who, until)| (who.to_string(), until.saturating_sub(now)));
        seen.with_line(entry.line.len(now), turn)
    }

    fn teach(&mut self) -> Outcome {
        self.store.record.teach(self.operation.ballot, self.precise);
        Outcome::Taught
    }

    const fn record(&self) -> Outcome {
        let record = &self.store.record;
        Outcome::Record { high: record.high(), floor: record.floor(), taught: record.taught() }
    }

    fn hold(&mut self, operation: &Operation, name: &Name, fence: u64) {
        let precise = self.precise;
        self.store.record.heard(fence, precise);
        self.entry(name).hold(operation, fence, precise);
    }

    /// The record knows the fence of what is kept, unless that is too far ahead still.
    fn note_fence(&mut self, name: &Name) {
        let (now, precise) = (self.now, self.precise);
        let entry = self.entry(name);
        if entry.is_ahead(now) {
            let fence = entry.fence;
            self.store.record.rotate(precise);
            self.store.record.heard(fence, precise);
        }
    }

    fn join(&mut self, operation: &Operation, name: &Name) {
        if let Stance::Wait { ticket, patience } = operation.stance {
            let (now, precise) = (self.now, self.precise);
            let until = now + millis(patience.max(Duration::from_millis(1)));
            let entry = self.entry(name);
            entry.line.join(ticket, Operation::acquisition(&operation.owner).into(), until);
            entry.keep(precise);
            self.note_fence(name);
        }
    }

    /// Gives the first in the queue its turn, which takes it out of the queue, and tells the one behind it when to ask.
    fn give(&mut self, name: &Name) {
        let (grace, now, precise) = (millis(self.operation.grace), self.now, self.precise);
        let entry = self.entry(name);
        let Some(first) = entry.line.pop() else { return };
        entry.turn = Some((first.clone(), now + grace)).filter(|_| !grace.is_zero());
        let behind = entry.line.first().map(|(_, behind)| behind.clone());
        entry.keep(precise);
        self.note_fence(name);
        self.store.hints.push(Hint::new(first, Duration::ZERO));
        self.store.hints.extend(behind.map(|behind| Hint::new(behind, grace)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::far;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn names(name: &str) -> Arc<[Name]> {
        [Name::new("p:", name).unwrap()].into()
    }

    /// A claim for two seconds of an acquisition that waits for ten.
    fn claim(name: &str, acquisition: &str, ballot: u64) -> Operation {
        let owner = format!("{acquisition}.1").into();
        let stance = Stance::Wait { ticket: ballot, patience: 10 * SECOND };
        let (verb, ttl) = (Verb::Claim, 2 * SECOND);
        Operation { verb, owner, ttl, ballot, count: 1, stance, grace: SECOND, ..Operation::inspect(names(name)) }
    }

    #[test]
    fn names_that_have_ended_are_forgotten_now_and_then_and_others_never() {
        let mut store = Store::default();
        for round in 0..4u32 {
            let now = 1_000 * SECOND * (round + 1);
            for number in 0..1_000 {
                store.apply(&claim(&format!("{round}/{number}"), "me", u64::from(round) + 1), now);
            }
            assert!((1_000..1_100).contains(&store.entries.len()), "{}", store.entries.len());
        }
        for number in 0..5_000 {
            store.apply(&claim(&format!("held/{number}"), "me", 9), 9_000 * SECOND);
        }
        let held = store.entries.values().filter(|entry| entry.holder(9_000 * SECOND).is_some());
        assert_eq!(held.count(), 5_000);
    }

    #[test]
    fn a_queue_outlives_the_fence_of_its_name() {
        let (mut store, name) = (Store::default(), Name::new("p:", "a").unwrap());
        store.apply(&claim("a", "one", 7), SECOND);
        let stance = Stance::Wait { ticket: 8, patience: 1_000 * SECOND };
        store.apply(&Operation { stance, ..claim("a", "two", 8) }, SECOND);
        // So many that what has ended is forgotten.
        for number in 0..2_000 {
            store.apply(&claim(&format!("other/{number}"), "me", 9), 500 * SECOND);
        }
        assert!(store.waits(&name, "two", 500 * SECOND));
        store.apply(&Operation::inspect(names("a")), 500 * SECOND);
        assert!(store.waits(&name, "two", 500 * SECOND), "nor does it end when it is looked at");
    }

    #[test]
    fn ballots_grow_old_with_what_is_carried_out_and_not_with_questions() {
        let mut store = Store::default();
        store.apply(&claim("a", "me", 7), 1_000 * SECOND);
        for now in [1_100, 1_300, 1_500] {
            store.apply(&Operation::inspect(names("a")), SECOND * now);
            assert_eq!(store.bounds(), (7, 0), "a question writes nothing");
        }
        store.apply(&claim("b", "me", 6), 1_500 * SECOND);
        assert_eq!(store.bounds(), (7, 7));
    }

    /// Later it is not too far any more, and would be forgotten with the turn.
    #[test]
    fn a_fence_that_was_too_far_ahead_is_known_to_the_record_once_a_turn_is_given() {
        let (mut store, began) = (Store::default(), 1_000 * SECOND);
        let far = far(began) + 5_000_000;
        store.apply(&claim("a", "one", far), began);
        store.apply(&claim("a", "two", far + 1), began + SECOND);
        let once = Operation { stance: Stance::Once, ..claim("a", "three", far + 2) };
        assert!(matches!(store.apply(&once, began + 6 * SECOND), Outcome::Reserved { .. }));
        assert_eq!(store.bounds().0, far);
    }

    #[test]
    fn a_free_name_is_granted_to_who_came_first_though_another_stands_in_the_queue_already() {
        for (acquisition, ballot, granted) in [("early", 8, true), ("late", 9, true), ("later", 10, false)] {
            let mut store = Store::default();
            store.apply(&claim("a", "one", 7), SECOND);
            store.apply(&claim("a", "late", 9), SECOND);
            let outcome = store.apply(&claim("a", acquisition, ballot), 4 * SECOND);
            assert_eq!(matches!(outcome, Outcome::Granted { .. }), granted, "{acquisition}: {outcome}");
            assert_eq!(matches!(outcome, Outcome::Reserved { .. }), !granted, "{acquisition}: {outcome}");
        }
    }

    #[test]
    fn what_a_simulation_asks_is_answered_from_what_is_stored() {
        let (mut store, name) = (Store::default(), Name::new("p:", "a").unwrap());
        assert!(store.is_free(SECOND) && store.is_idle(SECOND) && !store.waits(&name, "two", SECOND));
        store.apply(&claim("a", "one", 7), SECOND);
        assert!(!store.is_free(SECOND) && store.is_free(3 * SECOND) && store.is_idle(SECOND));
        store.apply(&claim("a", "two", 8), 2 * SECOND);
        assert!(!store.is_idle(2 * SECOND) && !store.is_idle(12 * SECOND - SECOND / 1_000));
        assert!(store.is_idle(12 * SECOND), "its patience is over");
        for (acquisition, now, waits) in [("one", 2, false), ("two", 2, true), ("two", 11, true), ("two", 12, false)] {
            assert_eq!(store.waits(&name, acquisition, SECOND * now), waits, "{acquisition} at {now}");
        }
        assert_eq!(store.bounds(), (7, 0));
        store.apply(&Operation::teach(9, 1), 2 * SECOND);
        assert_eq!(store.bounds(), (9, 9));
        let record = |store: &mut Store| store.apply(&Operation::record(), 2 * SECOND);
        assert_eq!(record(&mut store), Outcome::Record { high: 9, floor: 9, taught: true });
        store.restarted();
        assert_eq!(record(&mut store), Outcome::Record { high: 9, floor: 9, taught: false });
        store.forget(&name);
        assert!(store.is_free(2 * SECOND));
    }
}
