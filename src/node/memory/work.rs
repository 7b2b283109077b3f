//! Carries out one operation as a node does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::entry::{Entry, Hold, Kept, Noted};
use super::millis;
use super::record::Record;
use super::store::Store;
use crate::node::inspection::Inspection;
use crate::node::operation::{Claim, Kind, Name, Operation, Release, Renew, Revoke, Scan, Verb};
use crate::node::reply::Outcome;
use crate::rules::list::InForce;

impl Store {
    /// Carries out one operation when the node's clock shows `now`. Without a record, the node
    /// carries out only hello and scan.
    pub fn apply(&mut self, operation: &Operation, now: Duration) -> Outcome {
        self.apply_heard(operation, now, &|_| true)
    }

    /// Like [`apply`](Self::apply). `hears` says whether a client receives the messages on its
    /// channel.
    pub fn apply_heard(&mut self, operation: &Operation, now: Duration, hears: &dyn Fn(&str) -> bool) -> Outcome {
        // Only stamps, and comparisons of ballots with the clock, need microseconds.
        let (precise, now) = (now, millis(now));
        // A scan is no script, so it needs no record.
        if self.record.is_none() && !matches!(operation.verb(), Verb::Hello | Verb::Scan) {
            return Outcome::Forgot;
        }
        self.expire(now);
        let owner = operation.owner();
        let mut work = Work { store: self, now, precise, owner, hears, moved_up: BTreeMap::new() };
        match operation {
            Operation::Claim(claim) => work.claim(claim),
            Operation::Renew(renewal) => work.renew(renewal),
            Operation::Release(release) => work.release(release),
            Operation::Withdraw(withdraw) => work.withdraw(withdraw),
            Operation::Inspect(names) => work.inspect(names),
            Operation::Revoke(revoke) => work.revoke(revoke),
            Operation::Hello(hello) => work.store.hello(hello, precise),
            Operation::Scan(_) => Outcome::Scanned {
                next: Scan::FIRST.to_owned(),
                names: work.store.entries.keys().filter_map(|key| Name::of_key(key)).collect(),
            },
        }
    }
}

pub(super) struct Work<'a> {
    pub(super) store: &'a mut Store,
    pub(super) now: Duration,
    pub(super) precise: Duration,
    /// The owner of the operation.
    pub(super) owner: Option<&'a Arc<str>>,
    /// Whether a client receives the messages on its channel.
    pub(super) hears: &'a dyn Fn(&str) -> bool,
    /// For each name: how many waiters have left one of the first two places of its queue during
    /// this operation.
    pub(super) moved_up: BTreeMap<Arc<str>, usize>,
}

impl Work<'_> {
    pub(super) fn entry(&mut self, name: &Name) -> &mut Entry {
        let now = self.now;
        let entry = self.store.entries.entry(name.key().clone()).or_default();
        entry.expire(now);
        entry
    }

    /// The bar of a name for this owner: a new ballot is granted only if it is higher.
    pub(super) fn bar(&mut self, name: &Name, owner: &str) -> u64 {
        let floor = self.floor();
        self.entry(name).fence_of(owner).max(floor)
    }

    fn floor(&self) -> u64 {
        self.store.record.as_ref().map_or(0, Record::floor)
    }

    fn rotate(&mut self) {
        let precise = self.precise;
        self.store.record.iter_mut().for_each(|record| record.rotate(precise));
    }

    fn is_of(&mut self, name: &Name, owner: &str) -> bool {
        let now = self.now;
        self.entry(name).is_held_by(owner, now)
    }

    fn claim(&mut self, claim: &Claim) -> Outcome {
        if let Some(refusal) = self.refusal_of_list(&claim.list) {
            return refusal;
        }
        self.rotate();
        let bar = self.highest_bar(claim);
        if let Some(refusal) = self.refusal_at_gate(claim) {
            return refusal;
        }
        for number in 0..claim.names.len() {
            if let Some(refusal) = self.refusal(claim, number, bar) {
                return refusal;
            }
        }
        claim.names.iter().for_each(|name| self.take(claim, name));
        Outcome::Granted { fence: claim.ballot }
    }

    /// The refusal of a claim if its client's list is not in force on this node.
    fn refusal_of_list(&self, list: &str) -> Option<Outcome> {
        let in_force = self.store.record.as_ref().and_then(|record| record.in_force(self.now));
        match in_force {
            _ if list.is_empty() => None,
            Some(listed) if listed.is(list) => None,
            Some(listed) => {
                let InForce { says, left, .. } = listed.told(self.now);
                Some(Outcome::OtherList { says: says.to_string(), left })
            }
            None => Some(Outcome::NoList),
        }
    }

    /// The highest bar of those names of the claim that no other owner holds.
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

    /// Grants a name, and removes the owner from the name's queue.
    fn take(&mut self, claim: &Claim, name: &Name) {
        if let Some(lock) = &claim.follows {
            // Late renewals of the lock's owner must not bring its hold back.
            let entry = self.entry(name);
            entry.over = entry.over.max(lock.token);
        }
        if Operation::is_shared(&claim.owner) {
            return self.admit(claim, name);
        }
        let now = self.now;
        self.hold(name, Hold::new(&claim.owner, claim.kind, claim.ballot, 1, now, claim.ttl));
        self.leave(name, &claim.owner);
    }

    /// The refusal of a claim of permits because of the semaphore's gate. The reason is that an
    /// owner holds the gate or waits for it, or that the gate's name is held as another kind.
    fn refusal_at_gate(&mut self, claim: &Claim) -> Option<Outcome> {
        let (gate, now) = (claim.gate.as_ref()?, self.now);
        let (fence, entry) = (self.bar(gate, &claim.owner), self.entry(gate));
        if entry.is_misused(true, &claim.owner, now) {
            return Some(Outcome::Misused { name: claim.names.len() });
        }
        let held = entry.kept(&claim.owner, now).map(|kept| (kept.owner, kept.kind, Some(kept.left)));
        let soon = |waits: &Arc<str>| (waits.clone(), Kind::Gate, Some(Duration::ZERO));
        let waits = held.is_none() && self.hand_over(gate, 0);
        let first = self.entry(gate).line.at(0).filter(|_| waits);
        let (holder, kind, remaining) = held.or_else(|| first.as_ref().map(soon))?;
        Some(Outcome::Held { holder: holder.to_string(), kind, remaining, fence, queued: None })
    }

    fn refusal(&mut self, claim: &Claim, number: usize, highest: u64) -> Option<Outcome> {
        let name = &claim.names[number];
        let (now, floor, bar) = (self.now, self.floor(), self.bar(name, &claim.owner));
        let entry = self.entry(name);
        let kept = entry.kept(&claim.owner, now);
        if let Some(lock) = &claim.follows {
            // The claimer may have taken over the lock before: this has raised `over` to its token.
            let mine = kept.as_ref().filter(|kept| kept.owner == claim.owner).map(|kept| kept.ballot);
            if kept.is_none() || mine.unwrap_or(lock.token) <= entry.over {
                return Some(Outcome::Lost { holder: String::new() });
            }
        }
        if entry.is_misused(claim.kind == Kind::Gate, &claim.owner, now) {
            return Some(Outcome::Misused { name: number });
        }
        let takes_over =
            claim.follows.as_ref().is_some_and(|lock| entry.holder(now).is_some_and(|hold| hold.owner == lock.owner));
        match kept.filter(|_| !takes_over) {
            // The floor can be above the hold's ballot: a sync may have raised the floor after the
            // grant. A ballot up to the fence may have been withdrawn, unless it is the hold's own
            // ballot.
            Some(Kept { owner, ballot, .. }) if owner == claim.owner => {
                let late = claim.ballot < ballot || claim.ballot <= floor.max(entry.over);
                let stale = late || claim.ballot <= entry.fence && claim.ballot != ballot;
                // `ballot` may be above `bar`, because a reader's ballot does not raise the fence.
                stale.then_some(Outcome::Stale { fence: highest.max(bar).max(ballot) })
            }
            Some(_) => Some(self.held(claim, name, bar)),
            None if claim.ballot <= bar => Some(Outcome::Stale { fence: highest.max(bar) }),
            None if takes_over => None,
            None => self.gives_way(claim, name).then(|| self.held(claim, name, bar)),
        }
    }

    /// The refusal if another owner holds the name, or comes first in the queue. The owner of a
    /// claim that waits joins the queue.
    fn held(&mut self, claim: &Claim, name: &Name, bar: u64) -> Outcome {
        self.queue_up(claim);
        let (now, queued) = (self.now, self.place(claim, name));
        // A hand-over during this claim may have raised the fence.
        let fence = bar.max(self.entry(name).highest());
        // A reader that claims may have to wait behind a writer that itself waits for other
        // readers. So return the hold that keeps writers out.
        let (holder, kind, left) = match self.entry(name).kept("", now) {
            Some(Kept { owner, kind, left, .. }) => (owner.to_string(), kind, left),
            None => (String::new(), Kind::Lock, Duration::ZERO),
        };
        Outcome::Held { holder, kind, remaining: Some(left), fence, queued }
    }

    fn renew(&mut self, renewal: &Renew) -> Outcome {
        self.rotate();
        for name in renewal.names.iter() {
            if let Some(holder) = self.stranger(renewal, name) {
                return Outcome::Lost { holder };
            }
        }
        let mut outcome = Outcome::Extended;
        for name in renewal.names.iter() {
            if !self.is_of(name, &renewal.owner) {
                outcome = Outcome::Healed;
            }
            self.renew_one(renewal, name);
            self.describe(renewal, name);
        }
        outcome
    }

    /// Extends the owner's hold. If the owner has no hold, gives it a new one.
    fn renew_one(&mut self, renewal: &Renew, name: &Name) {
        let (precise, mine) = (self.precise, self.is_of(name, &renewal.owner));
        let Renew { ref owner, kind, ttl, ballot, count, .. } = *renewal;
        if Operation::is_shared(owner) {
            self.read(name, owner, ttl, ballot);
        } else if mine {
            self.entry(name).extend(renewal, precise);
            self.note_fence(name);
        } else {
            self.hold(name, Hold::new(owner, kind, ballot, count, self.now, ttl));
        }
        if !mine {
            self.leave(name, owner);
        }
    }

    /// The holder that makes a renewal fail; empty if the lock is over; `None` for no failure.
    fn stranger(&mut self, renewal: &Renew, name: &Name) -> Option<String> {
        let (owner, now) = (&renewal.owner, self.now);
        let entry = self.entry(name);
        match entry.kept(owner, now) {
            _ if renewal.token <= entry.over => Some(String::new()),
            kept => Some(kept?.owner).filter(|kept| kept != owner).map(|kept| kept.to_string()),
        }
    }

    /// Stores the holder's note. Readers have no notes.
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
        let Release { ref names, ref owner, token, ballot, next, .. } = *release;
        let precise = self.precise;
        self.rotate();
        let mut held = 0;
        for name in names.iter() {
            let (described, known) = (self.entry(name).is_described_by(owner), self.entry(name).highest());
            let freed = self.entry(name).release(owner, token, ballot, precise);
            if !freed || ballot > known {
                self.note_fence(name);
            }
            let left = self.leave(name, owner);
            if freed || left {
                self.hand_over(name, next);
            }
            if freed && described {
                self.store.news.push(name.clone());
            }
            held += u32::from(freed);
        }
        Outcome::Released { held }
    }

    fn withdraw(&mut self, withdraw: &Release) -> Outcome {
        let Release { ref names, ref owner, ballot, next, place, .. } = *withdraw;
        let precise = self.precise;
        self.rotate();
        let mut held = 0;
        for name in names.iter() {
            let known = self.entry(name).highest();
            let freed = self.entry(name).withdraw(owner, ballot, precise);
            if !freed || ballot > known {
                self.note_fence(name);
            }
            if freed {
                if let Some((kind, waiter)) = place {
                    let now = self.now;
                    self.entry(name).line.join(owner, kind, &waiter, now);
                }
                self.hand_over(name, next);
            }
            held += u32::from(freed);
        }
        Outcome::Released { held }
    }

    fn revoke(&mut self, revoke: &Revoke) -> Outcome {
        let (precise, now) = (self.precise, self.now);
        let mut longest: Option<Kept> = None;
        self.rotate();
        for name in revoke.names.iter() {
            self.entry(name).revoke(revoke.ballot, precise);
            self.note_fence(name);
            // No owner is called "". So `kept` is the writer's hold, or else the reader's hold that
            // ends last.
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
        // Copy the entry, because an inspection must not create or change an entry.
        let mut entry = self.store.entries.get(name.key()).cloned().unwrap_or_default();
        let now = self.now;
        entry.expire(now);
        let bar = entry.highest().max(self.floor());
        let seen = entry.holder(now).map_or_else(
            || Self::look_at_readers(&entry, bar, now),
            |hold| {
                Inspection::held(hold.owner.to_string(), hold.count, Some(hold.until - now), bar)
                    .with_kind(hold.kind)
                    .with_ballots(hold.ballot, entry.over)
            },
        );
        let seen = seen.with_line(entry.line.len(now));
        match entry.description(now) {
            Some(description) => seen.with_description(description),
            None => seen,
        }
    }

    /// The report on a name that no writer holds. If readers hold the name, the report prefers a
    /// reader that was not revoked.
    fn look_at_readers(entry: &Entry, bar: u64, now: Duration) -> Inspection {
        let named = entry.readers.last_above(entry.over, now).or_else(|| entry.readers.last(now));
        let Some(holder) = named else { return Inspection::free(bar).with_ballots(0, entry.over) };
        let (left, ballot) = (entry.readers.ends() - now, entry.readers.of(holder, now).map_or(0, |it| it.ballot));
        Inspection::held(holder.to_owned(), entry.readers.len(now), Some(left), bar).with_ballots(ballot, entry.over)
    }

    /// Grants the name to a reader, and hands the name to readers that are first in the queue now.
    fn admit(&mut self, claim: &Claim, name: &Name) {
        self.read(name, &claim.owner, claim.ttl, claim.ballot);
        self.leave(name, &claim.owner);
        self.hand_over(name, claim.next);
    }

    pub(super) fn read(&mut self, name: &Name, owner: &Arc<str>, ttl: Duration, ballot: u64) {
        let precise = self.precise;
        self.entry(name).read(owner, ttl, ballot, precise);
        self.note_fence(name);
    }

    pub(super) fn hold(&mut self, name: &Name, hold: Hold) {
        let precise = self.precise;
        let fence = self.entry(name).highest().max(hold.ballot);
        self.entry(name).hold(hold, fence, precise);
        self.note_fence(name);
    }

    /// Raises the record's `high` to at least the name's fence, unless the fence is too far ahead
    /// of the clock.
    fn note_fence(&mut self, name: &Name) {
        let (precise, fence) = (self.precise, self.entry(name).highest());
        self.store.record.iter_mut().for_each(|record| record.heard(fence, precise));
    }
}
