//! What a node does when it is asked: one operation being carried out on what it stores.

use std::sync::Arc;
use std::time::Duration;

use super::entry::{Entry, Hold, Kept, Noted};
use super::millis;
use super::store::Store;
use crate::node::inspection::Inspection;
use crate::node::operation::{Claim, Name, Operation, Release, Renew, Revoke, Scan, Seat, Teach, Verb, Withdraw};
use crate::node::reply::Outcome;

impl Store {
    /// Carries out one operation at the node's time `now`, which is the time since any fixed
    /// origin.
    pub fn apply(&mut self, operation: &Operation, now: Duration) -> Outcome {
        self.apply_heard(operation, now, &|_| true)
    }

    /// The same where `hears` says which clients hear what is published to them.
    pub fn apply_heard(&mut self, operation: &Operation, now: Duration, hears: &dyn Fn(&str) -> bool) -> Outcome {
        // To the microsecond only where ballots are compared with the clock.
        let (precise, now) = (now, millis(now));
        self.expire(now);
        if matches!(operation.verb(), Verb::Claim | Verb::Teach | Verb::Record | Verb::Revoke) {
            self.record.rotate(precise);
        }
        let mut work = Work { store: self, now, precise, hears };
        match operation {
            Operation::Claim(claim) => work.claim(claim),
            Operation::Renew(renewal) => work.renew(renewal),
            Operation::Release(release) => work.release(release),
            Operation::Withdraw(withdraw) => work.withdraw(withdraw),
            Operation::Inspect(names) => work.inspect(names),
            Operation::Teach(lesson) => work.teach(*lesson),
            Operation::Record => work.record(),
            Operation::Revoke(revoke) => work.revoke(revoke),
            Operation::Enrol(enrol) => work.store.roster.enrol(enrol, now),
            Operation::Retire => work.store.roster.retire(now),
            Operation::Reset => work.store.roster.reset(now),
            // All names that it knows, in one page.
            Operation::Scan(_) => Outcome::Scanned {
                next: Scan::FIRST.to_owned(),
                names: work.store.entries.keys().filter_map(|key| Name::of_key(key)).collect(),
            },
        }
    }
}

/// Of how many permits the operation's name of that number is the gate, if of any.
pub(super) const fn gate(count: u32, number: usize) -> Option<u32> {
    match Seat::of(count) {
        Some(Seat::Gate(permits)) if number == 0 => Some(permits),
        _ => None,
    }
}

/// One operation being carried out.
pub(super) struct Work<'a> {
    pub(super) store: &'a mut Store,
    pub(super) now: Duration,
    pub(super) precise: Duration,
    /// Which clients hear what is published to them.
    pub(super) hears: &'a dyn Fn(&str) -> bool,
}

impl Work<'_> {
    /// A name of the operation, without what has expired of it.
    pub(super) fn entry(&mut self, name: &Name) -> &mut Entry {
        let now = self.now;
        let entry = self.store.entries.entry(name.key().clone()).or_default();
        entry.expire(now);
        entry
    }

    /// No ballot of this owner up to this one is granted for the name.
    pub(super) fn bar(&mut self, name: &Name, owner: &str) -> u64 {
        let floor = self.store.record.floor();
        self.entry(name).fence_of(owner).max(floor)
    }

    fn is_of(&mut self, name: &Name, owner: &str) -> bool {
        let now = self.now;
        self.entry(name).is_held_by(owner, now)
    }

    fn claim(&mut self, claim: &Claim) -> Outcome {
        let bar = self.highest_bar(claim);
        for number in 0..claim.names.len() {
            if let Some(refusal) = self.refusal(claim, number, bar) {
                return refusal;
            }
        }
        for (number, name) in claim.names.iter().enumerate() {
            self.take(claim, name);
            self.seat(name, gate(claim.count, number));
        }
        Outcome::Granted { fence: claim.ballot }
    }

    /// The highest bar of the names that nobody else holds.
    fn highest_bar(&mut self, claim: &Claim) -> u64 {
        let mut highest = 0;
        let now = self.now;
        for name in claim.names.iter() {
            if self.entry(name).kept(&claim.owner, now).is_none_or(|kept| kept.owner == claim.owner) {
                highest = highest.max(self.bar(name, &claim.owner));
            }
        }
        highest
    }

    /// Takes a name that nothing refuses: its queue is left, and the turn is over.
    fn take(&mut self, claim: &Claim, name: &Name) {
        if Operation::is_shared(&claim.owner) {
            return self.admit(claim, name);
        }
        let until = self.now + millis(claim.ttl);
        self.hold(name, Hold::new(&claim.owner, claim.kind, claim.ballot, Seat::holds(claim.count), until));
        let entry = self.entry(name);
        entry.line.leave(&claim.owner);
        entry.turn = None;
    }

    fn refusal(&mut self, claim: &Claim, number: usize, highest: u64) -> Option<Outcome> {
        let name = &claim.names[number];
        let (now, floor, bar) = (self.now, self.store.record.floor(), self.bar(name, &claim.owner));
        let shared = Operation::is_shared(&claim.owner);
        let entry = self.entry(name);
        // The writer that it was may hold the name elsewhere, and that is over.
        if claim.follows > 0 && claim.follows <= entry.over {
            return Some(Outcome::Lost { holder: String::new() });
        }
        if let Some(permits) = entry.misused(gate(claim.count, number), &claim.owner, now) {
            return Some(Outcome::Misused { name: number, permits });
        }
        let follows = shared && entry.is_followed_by(&claim.owner, now);
        match entry.kept(&claim.owner, now).filter(|_| !follows) {
            // A floor is above it where it was granted while the node was in doubt, and was taught
            // since. What was withdrawn is below the fence.
            Some(Kept { owner, ballot, .. }) if owner == claim.owner => {
                let late = claim.ballot < ballot || claim.ballot <= floor.max(entry.over);
                let stale = late || claim.ballot <= entry.fence && claim.ballot != ballot;
                stale.then_some(Outcome::Stale { fence: highest.max(bar) })
            }
            Some(Kept { owner, kind, left, .. }) => {
                self.queue_up(claim);
                let (holder, remaining) = (owner.to_string(), Some(left));
                Some(Outcome::Held { holder, kind, remaining, fence: bar, queued: self.place(claim, name) })
            }
            None if claim.ballot <= bar => Some(Outcome::Stale { fence: highest.max(bar) }),
            None if follows => None,
            None => {
                let (turn, mut left, due) = self.before(claim, name)?;
                self.queue_up(claim);
                if due {
                    self.give(name, claim.grace);
                    left = self.turn_left(name);
                }
                let queued = self.place(claim, name);
                Some(Outcome::Reserved { turn: turn.to_string(), left, fence: bar, queued })
            }
        }
    }

    /// How much is left of a turn that was given.
    fn turn_left(&mut self, name: &Name) -> Duration {
        let now = self.now;
        self.entry(name).turn.as_ref().map_or(Duration::ZERO, |(_, until)| until.saturating_sub(now))
    }

    fn renew(&mut self, renewal: &Renew) -> Outcome {
        for name in renewal.names.iter() {
            if let Some(holder) = self.stranger(renewal, name) {
                return Outcome::Lost { holder };
            }
        }
        let mut outcome = Outcome::Extended;
        for (number, name) in renewal.names.iter().enumerate() {
            if !self.is_of(name, &renewal.owner) {
                outcome = Outcome::Healed;
                self.store.record.rotate(self.precise);
            }
            self.renew_one(renewal, name);
            self.seat(name, gate(renewal.count, number));
            self.describe(renewal, name);
        }
        self.remember(renewal);
        outcome
    }

    /// Holds a name for longer, or again.
    fn renew_one(&mut self, renewal: &Renew, name: &Name) {
        let (precise, mine) = (self.precise, self.is_of(name, &renewal.owner));
        let Renew { ref owner, kind, ttl, ballot, count, .. } = *renewal;
        if Operation::is_shared(owner) {
            self.read(name, owner, ttl, ballot);
        } else if mine {
            let raised = ballot > self.entry(name).fence;
            self.entry(name).extend(renewal, precise);
            if raised {
                self.store.record.rotate(precise);
                self.store.record.heard(ballot, precise);
            }
            self.note_fence(name);
        } else {
            self.hold(name, Hold::new(owner, kind, ballot, Seat::holds(count), self.now + millis(ttl)));
        }
        if !mine {
            let entry = self.entry(name);
            entry.line.leave(owner);
            entry.turn.take_if(|(turn, _)| turn == owner);
        }
    }

    /// What was taken or renewed is the gate of a semaphore with so many permits, if of any.
    fn seat(&mut self, name: &Name, permits: Option<u32>) {
        let precise = self.precise;
        if let Some(permits) = permits {
            let entry = self.entry(name);
            entry.seat(permits);
            entry.keep(precise);
        }
    }

    /// How many permits there are is remembered with the gate for as long as permits are renewed.
    fn remember(&mut self, renewal: &Renew) {
        let Some(Seat::Permit(permits)) = Seat::of(renewal.count) else { return };
        let ends = self.now + millis(renewal.ttl);
        if let Some(gate) = renewal.names.first().and_then(Name::gate) {
            self.entry(&gate).remember(permits, ends);
        }
    }

    /// Because of whom a renewal does not renew; of nobody, where its lock is over.
    fn stranger(&mut self, renewal: &Renew, name: &Name) -> Option<String> {
        let (owner, now) = (&renewal.owner, self.now);
        let entry = self.entry(name);
        let shared = Operation::is_shared(owner);
        match (entry.kept(owner, now), &entry.turn) {
            _ if renewal.ballot <= entry.over => Some(String::new()),
            (Some(kept), _) => Some(kept.owner).filter(|kept| kept != owner).map(|kept| kept.to_string()),
            (None, Some((turn, _))) if turn != owner && !(shared && Operation::is_shared(turn)) => {
                Some(turn.to_string())
            }
            (None, _) => None,
        }
    }

    /// Stores what the holder says of itself. No reader has a note.
    fn describe(&mut self, renewal: &Renew, name: &Name) {
        let (owner, token, at) = (renewal.owner.clone(), renewal.ballot, self.now);
        if Operation::is_shared(&owner) {
            return;
        }
        let Some(note) = renewal.note.clone().filter(|_| renewal.kind.may_have_note()) else { return };
        if self.entry(name).describe(Noted { owner, token, note, at }) {
            self.store.news.push(name.clone());
        }
    }

    fn release(&mut self, release: &Release) -> Outcome {
        let Release { ref names, ref owner, token, ballot, grace, next, .. } = *release;
        let precise = self.precise;
        self.store.record.rotate(precise);
        let mut held = 0;
        for name in names.iter() {
            let described = self.entry(name).is_described_by(owner);
            self.heard_of(name, ballot);
            let freed = self.entry(name).release(owner, token, ballot, precise);
            self.after_release(name, (owner, true), freed, grace, next);
            if freed && described {
                self.store.news.push(name.clone());
            }
            held += u32::from(freed);
        }
        Outcome::Released { held }
    }

    fn withdraw(&mut self, withdraw: &Withdraw) -> Outcome {
        let Withdraw { ref names, ref owner, ballot, grace, next, .. } = *withdraw;
        let precise = self.precise;
        self.store.record.rotate(precise);
        let mut held = 0;
        for name in names.iter() {
            self.heard_of(name, ballot);
            let freed = self.entry(name).withdraw(owner, ballot, precise);
            self.after_release(name, (owner, false), freed, grace, next);
            held += u32::from(freed);
        }
        Outcome::Released { held }
    }

    /// A ballot up to the name's fence is known already.
    fn heard_of(&mut self, name: &Name, ballot: u64) {
        if ballot > self.entry(name).highest() {
            self.store.record.heard(ballot, self.precise);
        }
    }

    fn revoke(&mut self, revoke: &Revoke) -> Outcome {
        let (precise, now) = (self.precise, self.now);
        let mut longest: Option<Kept> = None;
        for name in revoke.names.iter() {
            self.entry(name).revoke(revoke.ballot, precise);
            self.store.record.heard(revoke.ballot, precise);
            // As one who reads nothing sees it.
            let kept = self.entry(name).kept("", now);
            longest = [longest, kept].into_iter().flatten().max_by_key(|kept| kept.left);
        }
        let (holder, ballot, left) =
            longest.map_or_else(Default::default, |kept| (Some(kept.owner.to_string()), kept.ballot, kept.left));
        Outcome::Revoked { holder, ballot, left }
    }

    fn inspect(&self, names: &[Name]) -> Outcome {
        Outcome::Inspected(names.iter().map(|name| self.look(name)).collect())
    }

    pub(super) fn look(&self, name: &Name) -> Inspection {
        // To look at a name makes no entry of it.
        let mut entry = self.store.entries.get(name.key()).cloned().unwrap_or_default();
        let now = self.now;
        entry.expire(now);
        let seen = entry.holder(now).map_or_else(
            || Self::look_at_readers(&entry, now),
            |hold| {
                Inspection::held(hold.owner.to_string(), hold.count, Some(hold.until - now), entry.highest())
                    .with_kind(hold.kind)
                    .with_ballots(hold.ballot, entry.over)
            },
        );
        let turn = entry.turn.as_ref().map(|(who, until)| (who.to_string(), until.saturating_sub(now)));
        let seen = seen.with_permits(entry.permits()).with_line(entry.line.len(now), turn);
        match entry.description(now) {
            Some(description) => seen.with_description(description),
            None => seen,
        }
    }

    /// Of the readers one is named that was not revoked, if there is one.
    fn look_at_readers(entry: &Entry, now: Duration) -> Inspection {
        let named = entry.readers.last_above(entry.over, now).or_else(|| entry.readers.last(now));
        let Some(holder) = named else { return Inspection::free(entry.highest()).with_ballots(0, entry.over) };
        let (left, ballot) = (entry.readers.ends() - now, entry.readers.of(holder, now).map_or(0, |it| it.ballot));
        Inspection::held(holder.to_owned(), entry.readers.len(now), Some(left), entry.highest())
            .with_ballots(ballot, entry.over)
    }

    /// One more reads the name, whose turn is over with that; others that read may follow.
    fn admit(&mut self, claim: &Claim, name: &Name) {
        let me = &claim.owner;
        let entry = self.entry(name);
        entry.turn.take_if(|(turn, _)| turn == me || !Operation::is_shared(turn));
        self.read(name, me, claim.ttl, claim.ballot);
        self.entry(name).line.leave(me);
        if self.is_open(name) {
            self.give(name, claim.grace);
        }
    }

    fn read(&mut self, name: &Name, owner: &Arc<str>, ttl: Duration, ballot: u64) {
        let precise = self.precise;
        self.entry(name).read(owner, ttl, ballot, precise);
        self.store.record.heard(ballot, precise);
        self.note_fence(name);
    }

    fn teach(&mut self, lesson: Teach) -> Outcome {
        self.store.record.teach(lesson.high, lesson.by_hand, self.precise);
        Outcome::Taught
    }

    const fn record(&self) -> Outcome {
        let record = &self.store.record;
        Outcome::Record { high: record.high(), floor: record.floor(), taught: record.taught() }
    }

    pub(super) fn hold(&mut self, name: &Name, hold: Hold) {
        let precise = self.precise;
        let fence = self.entry(name).highest().max(hold.ballot);
        self.store.record.heard(fence, precise);
        self.entry(name).hold(hold, fence, precise);
    }

    /// The record knows the fence of what is kept, unless that is too far ahead still.
    pub(super) fn note_fence(&mut self, name: &Name) {
        let (now, precise) = (self.now, self.precise);
        let entry = self.entry(name);
        if entry.is_ahead(now) {
            let fence = entry.highest();
            self.store.record.rotate(precise);
            self.store.record.heard(fence, precise);
        }
    }
}
