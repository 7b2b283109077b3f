//! Who waits for a name, and what becomes of it when it is free: a hand-over or a turn.

use std::sync::Arc;
use std::time::Duration;

use super::entry::Hold;
use super::millis;
use super::work::{Work, gate};
use crate::node::hint::{HandedOver, Hint};
use crate::node::operation::{Claim, Kind, Name, Operation, Stance};
use crate::node::reply::Queued;
use crate::rules::handover::Stamp;
use crate::rules::validity::MAX_ROUND;

/// No turn need be longer than that for whoever has it.
const LONGEST_NEED: Duration = Duration::from_secs(2);

/// When something happened, to the microsecond that a real node tells. There is one connection.
fn stamp(precise: Duration) -> Stamp {
    let micros = u64::try_from(precise.as_micros()).unwrap_or(u64::MAX);
    Stamp { generation: 0, time: Duration::from_micros(micros) }
}

impl Work<'_> {
    /// Of a claim that joins for its gate, with how many permits it is one.
    fn join(&mut self, owner: &Arc<str>, stance: Stance, name: &Name, gate: Option<u32>) {
        if let Stance::Wait { ticket, patience } = stance {
            let (now, precise) = (self.now, self.precise);
            let until = now + millis(patience.max(Duration::from_millis(1)));
            let entry = self.entry(name);
            gate.into_iter().for_each(|permits| entry.seat(permits));
            entry.line.join(ticket, owner.clone(), until);
            entry.keep(precise);
            self.note_fence(name);
        }
    }

    /// A claim that was refused waits, for each of its names: while those are not all free, whoever
    /// comes later to one of them does not get that one first, again and again. One that came after
    /// its owner has ended waits too: what it is handed is given back.
    pub(super) fn queue_up(&mut self, claim: &Claim) {
        let now = self.now;
        for (number, name) in claim.names.iter().enumerate() {
            let entry = self.entry(name);
            if !entry.is_held_by(&claim.owner, now) {
                self.join(&claim.owner, claim.stance, name, gate(claim.count, number));
                self.register(claim, name);
            }
        }
    }

    /// A claim that was refused one name, and waits for it, is who it may be handed over to. Of
    /// others it is kept how long their turns must last: whoever frees the name may be nearer.
    fn register(&mut self, claim: &Claim, name: &Name) {
        if claim.registers() {
            let (lasts, now) = (millis(claim.handover), self.now);
            let most = lasts.max(millis(claim.ttl).min(MAX_ROUND));
            self.entry(name).line.register(&claim.owner, (lasts, most), now);
        } else if matches!(claim.stance, Stance::Wait { .. }) {
            let now = self.now;
            self.entry(name).line.needs(&claim.owner, millis(claim.grace), now);
        }
    }

    /// Where a claim stands in the queue, if it waits.
    pub(super) fn place(&mut self, claim: &Claim, name: &Name) -> Option<Queued> {
        let waits = matches!(claim.stance, Stance::Wait { .. });
        let rank = if waits { self.entry(name).line.rank(&claim.owner) } else { 0 };
        let queued = Queued::of(rank)?;
        Some(Queued { stamp: stamp(self.precise), ..queued })
    }

    /// Who comes before this claim to the name, which nobody keeps from it, for how long, and
    /// whether the turn is still to be given.
    pub(super) fn before(&mut self, claim: &Claim, name: &Name) -> Option<(Arc<str>, Duration, bool)> {
        if claim.stance == Stance::Barge {
            return None;
        }
        let (now, me) = (self.now, &*claim.owner);
        let (open, shared) = (self.is_open(name), Operation::is_shared(me));
        let entry = self.entry(name);
        match &entry.turn {
            Some((turn, _)) if **turn == *me => return None,
            // Readers enter together.
            Some((turn, until)) if !shared || !Operation::is_shared(turn) => {
                return Some((turn.clone(), until.saturating_sub(now), false));
            }
            _ => {}
        }
        let first = if shared { entry.line.first_writer(now) } else { entry.line.first() };
        let (ticket, first) = first.filter(|(_, first)| ***first != *me)?;
        match claim.stance {
            Stance::Wait { ticket: mine, .. } if (mine, me) < (ticket, &**first) => None,
            _ => Some((first.clone(), millis(claim.grace), open)),
        }
    }

    /// Whether whoever is first in the queue may have the name, as it is.
    pub(super) fn is_open(&mut self, name: &Name) -> bool {
        let now = self.now;
        let entry = self.entry(name);
        let free = entry.holder(now).is_none() && entry.turn.is_none();
        let first = entry.line.first().map(|(_, first)| Operation::is_shared(first));
        free && first.is_some_and(|shared| shared || entry.readers.last(now).is_none())
    }

    /// An owner that has ended leaves the queue; one that goes on keeps its place, and is not handed
    /// what it gives up. If the name is free now, it is handed over to the first, where it was
    /// `freed` by this, or the first is given its turn.
    pub(super) fn after_release(
        &mut self,
        name: &Name,
        (owner, ended): (&Arc<str>, bool),
        freed: bool,
        grace: Duration,
        next: u64,
    ) {
        let entry = self.entry(name);
        if ended {
            entry.line.leave(owner);
        }
        entry.turn.take_if(|(turn, _)| turn == owner);
        if entry.line.first().is_some_and(|(_, first)| first == owner) {
            return;
        }
        if self.is_open(name) && !(freed && self.hand_over(name, next)) {
            self.give(name, grace);
        }
    }

    /// Grants the name to the first in the queue, if that is registered lately enough and hears of
    /// it, and the ballot may be granted. Whether it did. The next two are told to register again,
    /// if that is long ago.
    fn hand_over(&mut self, name: &Name, ballot: u64) -> bool {
        let (now, precise) = (self.now, self.precise);
        let floor = self.store.record.floor();
        if ballot <= self.entry(name).highest().max(floor) {
            return false;
        }
        let line = &mut self.entry(name).line;
        let Some((_, first)) = line.first().map(|(ticket, first)| (ticket, first.clone())) else { return false };
        let Some(lasts) = line.registered(&first).and_then(|to| to.lasts(now)) else { return false };
        self.store.record.heard(ballot, precise);
        if !self.is_heard_by(&first) {
            return false;
        }
        let line = &mut self.entry(name).line;
        line.leave(&first);
        let late: Vec<_> = line.stale(now).collect();
        let (owner, name_of) = (first.clone(), name.clone());
        let granted = HandedOver { owner, ballot, lasts, name: name_of, stamp: stamp(precise), counts: true };
        self.hold(name, Hold::new(&first, Kind::Lock, ballot, 1, now + millis(lasts)));
        self.store.hints.push(Hint { granted: Some(granted), ..Hint::new(first, Duration::ZERO) });
        self.store.hints.extend(late.into_iter().map(Hint::register));
        true
    }

    /// Whether what is published to the client of an owner reaches anybody.
    fn is_heard_by(&self, owner: &str) -> bool {
        let hint = Hint::new(owner.into(), Duration::ZERO);
        hint.address().is_some_and(|(client, _)| (self.hears)(client))
    }

    /// Gives the first in the queue its turn, which takes it out of the queue, and tells the one
    /// behind it when to ask. It lasts for this long, or for as long as the first needs. Where that
    /// is a reader, it is also the turn of those behind it, up to the first writer.
    pub(super) fn give(&mut self, name: &Name, grace: Duration) {
        let (now, precise) = (self.now, self.precise);
        let entry = self.entry(name);
        let grace = millis(grace).max(entry.line.needed().min(LONGEST_NEED));
        let enter = entry.line.enter();
        let Some(first) = enter.first() else { return };
        entry.turn = Some((first.clone(), now + grace)).filter(|_| !grace.is_zero());
        let behind = entry.line.first().map(|(_, behind)| Hint::new(behind.clone(), grace));
        entry.keep(precise);
        self.note_fence(name);
        self.store.hints.extend(enter.into_iter().map(|who| Hint::new(who, Duration::ZERO)).chain(behind));
    }
}
