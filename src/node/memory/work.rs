//! What a node does when it is asked: one operation being carried out on what it stores.

use std::sync::Arc;
use std::time::Duration;

use super::entry::{Entry, Hold, Kept, Noted};
use super::millis;
use super::store::Store;
use crate::node::inspection::Inspection;
use crate::node::operation::{Claim, Name, Operation, Release, Renew, Revoke, Scan, Seat, Stance, Teach, Verb};
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
        let mut top = claim.ballot;
        for (number, name) in claim.names.iter().enumerate() {
            if let Some(refusal) = self.refusal(claim, number, bar) {
                return refusal;
            }
            if self.is_of(name, &claim.owner) && !Operation::is_shared(&claim.owner) {
                top = top.max(self.entry(name).fence);
            }
        }
        for (number, name) in claim.names.iter().enumerate() {
            self.take(claim, name, top);
            self.seat(name, gate(claim.count, number));
        }
        Outcome::Granted { fence: top }
    }

    /// The highest bar of the names that are free.
    fn highest_bar(&mut self, claim: &Claim) -> u64 {
        let mut highest = 0;
        let now = self.now;
        for name in claim.names.iter() {
            if self.entry(name).kept(&claim.owner, now).is_none() {
                highest = highest.max(self.bar(name, &claim.owner));
            }
        }
        highest
    }

    /// Takes a name that nothing refuses: its queue is left, and the turn is over.
    fn take(&mut self, claim: &Claim, name: &Name, fence: u64) {
        if Operation::is_shared(&claim.owner) {
            return self.admit(claim, name, fence);
        }
        self.hold(name, Hold::new(&claim.owner, Seat::holds(claim.count), self.now + millis(claim.ttl)), fence);
        let entry = self.entry(name);
        entry.line.leave(Operation::acquisition(&claim.owner));
        entry.turn = None;
    }

    fn refusal(&mut self, claim: &Claim, number: usize, highest: u64) -> Option<Outcome> {
        let name = &claim.names[number];
        let (now, floor, bar) = (self.now, self.store.record.floor(), self.bar(name, &claim.owner));
        let shared = Operation::is_shared(&claim.owner);
        let entry = self.entry(name);
        // Who waited for a name that most nodes have taken away would have it when they are free.
        if entry.is_revoked(&claim.owner, now) || shared && entry.was_revoked(&claim.owner) {
            return Some(Outcome::Lost { holder: String::new() });
        }
        if let Some(permits) = entry.misused(gate(claim.count, number), &claim.owner, now) {
            return Some(Outcome::Misused { name: number, permits });
        }
        let follows = shared && entry.is_followed_by(&claim.owner, now);
        match entry.kept(&claim.owner, now).filter(|_| !follows) {
            // Granted while the node was in doubt, and it was taught since.
            Some(kept) if kept.owner == claim.owner => {
                let fence = if shared { 0 } else { entry.fence };
                (fence.max(claim.ballot) <= floor).then_some(Outcome::Stale { fence: floor })
            }
            Some(Kept { owner, left, .. }) => {
                self.queue_up(claim);
                let (holder, remaining) = (owner.to_string(), Some(left));
                Some(Outcome::Held { holder, remaining, fence: bar, queued: self.place(claim, name) })
            }
            // A reader's release raises no fence that other readers' ballots must be above.
            None if claim.ballot <= bar || shared && entry.is_gone(&claim.owner, now) => {
                Some(Outcome::Stale { fence: highest.max(bar) })
            }
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
            let precise = self.precise;
            let (mine, shared) = (self.is_of(name, &renewal.owner), Operation::is_shared(&renewal.owner));
            if !mine {
                outcome = Outcome::Healed;
                self.store.record.rotate(precise);
            }
            if shared {
                let ballot = if mine { 0 } else { renewal.ballot };
                self.read(name, &renewal.owner, renewal.ttl, ballot);
            } else if mine {
                self.entry(name).extend(renewal.ttl, Seat::holds(renewal.count), precise);
                self.note_fence(name);
            } else {
                let fence = self.entry(name).fence_of(&renewal.owner).max(renewal.ballot);
                let hold = Hold::new(&renewal.owner, Seat::holds(renewal.count), self.now + millis(renewal.ttl));
                self.hold(name, hold, fence);
            }
            self.seat(name, gate(renewal.count, number));
            self.describe(renewal, name);
        }
        self.remember(renewal);
        outcome
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

    /// Because of whom a renewal does not renew; of nobody, where the owner was released.
    fn stranger(&mut self, renewal: &Renew, name: &Name) -> Option<String> {
        let (owner, now) = (&renewal.owner, self.now);
        let entry = self.entry(name);
        let shared = Operation::is_shared(owner);
        match (entry.kept(owner, now), &entry.turn) {
            (Some(kept), _) if kept.owner == *owner => kept.revoked.then(String::new),
            (Some(kept), _) => Some(kept.owner.to_string()),
            (None, Some((turn, _))) if !shared || !Operation::is_shared(turn) => Some(turn.to_string()),
            (None, _) => {
                let revoked = shared && entry.is_revoked_with_all(renewal.ballot);
                (revoked || entry.is_gone(owner, now)).then(String::new)
            }
        }
    }

    /// Stores what the holder says of itself. No reader has a note.
    fn describe(&mut self, renewal: &Renew, name: &Name) {
        let (owner, token, at) = (renewal.owner.clone(), renewal.ballot, self.now);
        let Some(note) = renewal.note.clone().filter(|_| !Operation::is_shared(&owner)) else { return };
        if self.entry(name).describe(Noted { owner, token, note, at }) {
            self.news(name, &renewal.owner);
        }
    }

    /// What `owner` says of itself was stored, or went with its hold. Nobody sees a note of an owner
    /// that may have none.
    fn news(&mut self, name: &Name, owner: &str) {
        if Operation::may_have_note(owner) {
            self.store.news.push(name.clone());
        }
    }

    fn release(&mut self, release: &Release) -> Outcome {
        let precise = self.precise;
        if self.is_brief(release) {
            self.entry(&release.names[0]).free();
            return Outcome::Released { held: 1 };
        }
        self.store.record.rotate(precise);
        let mut held = 0;
        for name in release.names.iter() {
            let entry = self.entry(name);
            let described = entry.is_described_by(&release.owner);
            let freed = entry.release(&release.owner, release.ballot, precise);
            let shared = Operation::is_shared(&release.owner);
            let fence = if shared { entry.readers.fence } else { entry.fence };
            self.store.record.heard(fence, precise);
            self.queue_after_release(release, name, freed);
            if freed && described {
                self.news(name, &release.owner);
            }
            held += u32::from(freed);
        }
        Outcome::Released { held }
    }

    /// Whether the script frees the name without a look at the record: nobody waits, and the fence
    /// is known. (In a call with other operations, or where a queue has just expired, it may look
    /// all the same. Nothing rests on it.)
    fn is_brief(&mut self, release: &Release) -> bool {
        let [name] = &*release.names else { return false };
        let now = self.now;
        let entry = self.entry(name);
        let mine = entry.is_kept_by(&release.owner, now) && entry.readers.is_empty();
        let alone = entry.turn.is_none() && entry.line.len(now) == 0 && !Operation::may_have_note(&release.owner);
        mine && alone
            && entry.permits().is_none()
            && release.ballot <= entry.fence
            && !matches!(release.stance, Stance::Wait { .. })
    }

    fn revoke(&mut self, revoke: &Revoke) -> Outcome {
        let precise = self.precise;
        let (mut held, mut longest, mut other) = (0, Duration::ZERO, None);
        for name in revoke.names.iter() {
            other = self.other_than(revoke, name).or(other);
            let left = self.entry(name).revoke(&revoke.owner, revoke.ballot, precise);
            let fence = self.entry(name).fence;
            self.store.record.heard(fence, precise);
            held += u32::from(left.is_some());
            longest = longest.max(left.unwrap_or_default());
        }
        Outcome::Revoked { held, left: longest, other }
    }

    /// Who else holds it: it may have come after the nodes were asked who does. The fence does not
    /// tell: others raise it.
    fn other_than(&mut self, revoke: &Revoke, name: &Name) -> Option<String> {
        let now = self.now;
        let entry = self.entry(name);
        if entry.readers.last(now).is_some() {
            // One that was revoked holds it still.
            let any = entry.readers.another(now).or_else(|| entry.readers.last(now));
            return any.filter(|_| !Operation::is_shared(&revoke.owner)).map(str::to_owned);
        }
        let another = |hold: &&Hold| hold.owner != revoke.owner;
        entry.holder(now).filter(another).map(|hold| hold.owner.to_string())
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
                    .with_revoked(hold.revoked)
            },
        );
        let turn = entry.turn.as_ref().map(|(who, until)| (who.to_string(), until.saturating_sub(now)));
        let seen = seen.with_permits(entry.permits()).with_line(entry.line.len(now), turn);
        match entry.description(now) {
            Some(description) => seen.with_description(description),
            None => seen,
        }
    }

    fn look_at_readers(entry: &Entry, now: Duration) -> Inspection {
        let Some(last) = entry.readers.last(now) else { return Inspection::free(entry.highest()) };
        let unmarked = entry.readers.another(now);
        let (holder, left) = (unmarked.unwrap_or(last).to_owned(), entry.readers.ends() - now);
        Inspection::held(holder, entry.readers.len(now), Some(left), entry.highest()).with_revoked(unmarked.is_none())
    }

    /// One more reads the name, whose turn is over with that; others that read may follow.
    fn admit(&mut self, claim: &Claim, name: &Name, ballot: u64) {
        let me = Operation::acquisition(&claim.owner);
        let entry = self.entry(name);
        entry.turn.take_if(|(turn, _)| **turn == *me || !Operation::is_shared(turn));
        self.read(name, &claim.owner, claim.ttl, ballot);
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

    pub(super) fn hold(&mut self, name: &Name, hold: Hold, fence: u64) {
        let precise = self.precise;
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
