//! The leases of one session, which are called the session's parts. All parts are lost together,
//! and usually renewed together.
//!
//! This is a pure state machine, like [`LeaseState`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::combination::Won;
use super::lease::{Expiry, Heard, LeaseState, Phase, Renewed};
use super::lost_reason::LostReason;
use super::node_set::NodeSet;
use super::pace::{Due, EARLY, Pace};
use super::renewal::Renewal;
use super::tick::Tick;
use super::validity::Validity;

/// The leases of one session: if one is lost, all are lost.
#[derive(Clone, Debug)]
pub struct SessionState {
    validity: Validity,
    phase: Phase,
    parts: BTreeMap<u64, Part>,
    /// The deadline of each part, with the part's number.
    ends: BTreeSet<(Tick, u64)>,
    /// For each part that has no renewal under way: when to renew it, with the part's number.
    dues: BTreeSet<(Tick, u64)>,
    count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    tenure: LeaseState,
    due: Option<Due>,
    /// How many times some names of this part were released, while others stayed.
    narrowed: u32,
}

/// A renewal of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The number of the part.
    pub part: u64,
    /// The time just before the renewal was sent.
    pub t0: Tick,
    /// The value of the part's `narrowed` when the renewal was sent.
    narrowed: u32,
}

/// The moments for which the two timers of a session are set, or must be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timers {
    /// The next renewal.
    pub renew: Option<Tick>,
    /// The first deadline.
    pub expire: Option<Tick>,
}

impl SessionState {
    /// A session without locks. Each of its locks will have this validity.
    #[must_use]
    pub const fn new(validity: Validity) -> Self {
        Self {
            validity,
            phase: Phase::Held,
            parts: BTreeMap::new(),
            ends: BTreeSet::new(),
            dues: BTreeSet::new(),
            count: 0,
        }
    }

    /// The state. After a deadline, the state stays `Held` until `deadline_reached`, `renewed` or
    /// `lose` runs.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// The first deadline; [`Tick::NEVER`] without locks.
    #[must_use]
    pub fn deadline(&self) -> Tick {
        self.ends.first().map_or(Tick::NEVER, |(end, _)| *end)
    }

    /// When the next renewal is due; [`Tick::NEVER`] if no renewal is planned.
    #[must_use]
    pub fn next_renewal(&self) -> Tick {
        self.dues.first().map_or(Tick::NEVER, |(due, _)| *due)
    }

    /// When the timer of the first deadline must fire; [`Tick::NEVER`] without locks.
    #[must_use]
    pub fn expires(&self) -> Tick {
        self.first().map_or(Tick::NEVER, |part| match self.phase {
            Phase::Held => part.tenure.deadline().minus(EARLY),
            Phase::Released | Phase::Lost(_) => part.tenure.deadline(),
        })
    }

    /// The timers that must fire earlier than at the moments in `set`, each with its new moment.
    #[must_use]
    pub fn timers(&self, set: Timers) -> Timers {
        let sooner = |due: Tick, set: Option<Tick>| {
            Some(due).filter(|due| self.phase == Phase::Held && *due < set.unwrap_or(Tick::NEVER))
        };
        Timers { renew: sooner(self.next_renewal(), set.renew), expire: sooner(self.expires(), set.expire) }
    }

    /// Decides what to do when a deadline's timer fires.
    pub fn deadline_reached(&mut self, now: Tick) -> Expiry {
        if now < self.expires() && self.phase != Phase::Released {
            return Expiry::Later(self.expires());
        }
        if self.phase != Phase::Held {
            return Expiry::Over;
        }
        let reason = self.first().map_or(LostReason::Expired, |part| part.tenure.expired(now));
        self.phase = Phase::Lost(reason);
        Expiry::Lost(reason)
    }

    /// The numbers of the locks whose deadline has passed at `now`. A lost session keeps other
    /// owners out of each lock until the lock's own deadline, unless the holder releases the lock.
    #[must_use]
    pub fn expired(&self, now: Tick) -> Vec<u64> {
        self.ends.range(..=(now, u64::MAX)).map(|(_, part)| *part).collect()
    }

    /// Until when to wait for the answers to renewals that began at `t0`.
    #[must_use]
    pub fn waits(&self, t0: Tick, timeout: Duration) -> Tick {
        self.deadline().min(t0 + timeout)
    }

    /// For how long all locks stay held if none is renewed. In a session without locks: the
    /// validity of a new lock.
    #[must_use]
    pub fn remaining(&self, now: Tick) -> Duration {
        match self.phase {
            Phase::Held if self.ends.is_empty() => self.validity.length(),
            Phase::Held => self.deadline().since(now),
            Phase::Released | Phase::Lost(_) => Duration::ZERO,
        }
    }

    /// Whether the session has lost no lock at `now`, and was not released.
    #[must_use]
    pub fn is_alive(&self, now: Tick) -> bool {
        self.phase == Phase::Held && now < self.deadline()
    }

    /// Why the session is lost at `now`, even if no timer has fired yet; `None` if it is not lost.
    #[must_use]
    pub fn lost(&self, now: Tick) -> Option<LostReason> {
        match self.phase {
            Phase::Lost(reason) => Some(reason),
            Phase::Held => self.first().and_then(|part| part.tenure.lost(now)),
            Phase::Released => None,
        }
    }

    fn first(&self) -> Option<&Part> {
        self.ends.first().and_then(|(_, part)| self.parts.get(part))
    }

    /// Adds a lock, and returns its number. `doubted` are the nodes that came into doubt while the
    /// lock was acquired.
    pub fn add(
        &mut self,
        mut tenure: LeaseState,
        won: &Won,
        doubted: NodeSet,
        pace: Pace<impl FnOnce() -> u64>,
    ) -> u64 {
        self.count += 1;
        let number = self.count;
        let (auto_renew, from) = (pace.auto_renew, pace.from);
        let first = tenure.joins(won, pace);
        let due = tenure.doubted(doubted, auto_renew, from).or(first);
        self.parts.insert(number, Part { tenure, due: None, narrowed: 0 });
        self.ends.insert((tenure.deadline(), number));
        self.set(number, due);
        number
    }

    /// One of the locks.
    #[must_use]
    pub fn tenure(&self, part: u64) -> Option<&LeaseState> {
        self.parts.get(&part).map(|part| &part.tenure)
    }

    /// Removes a lock that was released.
    pub fn remove(&mut self, part: u64) {
        self.set(part, None);
        if let Some(gone) = self.parts.remove(&part) {
            self.ends.remove(&(gone.tenure.deadline(), part));
        }
    }

    /// Notes that some names of a lock are released, while others stay. A renewal that is under way
    /// still contains the released names.
    pub fn narrow(&mut self, part: u64) {
        if let Some(part) = self.parts.get_mut(&part) {
            part.narrowed = part.narrowed.saturating_add(1);
        }
    }

    /// Takes the renewals to send at `now`: the renewals of the parts that are due. But if one of
    /// these parts is due with [`Due::Together`], takes all planned renewals, to send them at one
    /// moment. Leaves out parts that may no longer be renewed.
    pub fn renew(&mut self, now: Tick) -> Vec<Sent> {
        let parts: Vec<_> = self.goes(now).collect();
        parts.iter().for_each(|&part| self.set(part, None));
        let may = |number: &u64| self.parts.get(number).filter(|part| self.may_renew(part, now));
        let sent = |number| may(&number).map(|part| Sent { part: number, t0: now, narrowed: part.narrowed });
        parts.into_iter().filter_map(sent).collect()
    }

    /// The parts whose renewals are to be sent at `now`. Some of these parts may no longer be
    /// renewed.
    pub fn goes(&self, now: Tick) -> impl Iterator<Item = u64> {
        let due = self.dues.range(..=(now, u64::MAX));
        let together = |part| self.parts.get(part).is_some_and(|part| matches!(part.due, Some(Due::Together(_))));
        let until = if due.clone().any(|(_, part)| together(part)) { Tick::NEVER } else { now };
        self.dues.range(..=(until, u64::MAX)).map(|(_, part)| *part)
    }

    fn may_renew(&self, part: &Part, now: Tick) -> bool {
        self.phase == Phase::Held && part.tenure.may_renew(now)
    }

    /// Notes that a renewal for a part's owner was sent to `nodes`. From now on, these nodes may
    /// hold the names of the part.
    pub fn sent(&mut self, part: u64, nodes: NodeSet) {
        if let Some(part) = self.parts.get_mut(&part) {
            part.tenure.sent(nodes);
        }
    }

    /// Counts the answers to a renewal. Sets the next renewal, and returns what changed.
    ///
    /// The renewal may contain names that were released after it was sent. Nodes rightly no longer
    /// hold such names. So if the part was narrowed after the renewal was sent, the result `Lost`
    /// counts as unclear.
    pub fn renewed(&mut self, sent: Sent, heard: Heard<'_>, pace: Pace<impl FnOnce() -> u64>, now: Tick) -> Renewed {
        if self.phase != Phase::Held {
            return Renewed::Over;
        }
        let Some(part) = self.parts.get_mut(&sent.part) else { return Renewed::Over };
        let outdated = heard.renewal == Renewal::Lost && part.narrowed != sent.narrowed;
        let renewal = if outdated { Renewal::Unclear } else { heard.renewal };
        let before = part.tenure.deadline();
        let (renewed, due) = part.tenure.renewed(Heard { renewal, ..heard }, pace, now);
        let after = part.tenure.deadline();
        self.ends.remove(&(before, sent.part));
        self.ends.insert((after, sent.part));
        self.set(sent.part, due);
        if let Renewed::Lost(reason) = renewed {
            self.phase = Phase::Lost(reason);
        }
        renewed
    }

    /// Sets when to renew a part next; `None` means never.
    fn set(&mut self, part: u64, due: Option<Due>) {
        let Some(known) = self.parts.get_mut(&part) else { return };
        if let Some(before) = std::mem::replace(&mut known.due, due) {
            self.dues.remove(&(before.at(), part));
        }
        self.dues.extend(due.map(|due| (due.at(), part)));
    }

    /// Notes that these nodes are in doubt. If a lease has votes of these nodes, and its other
    /// votes are no quorum, the lease becomes due now.
    pub fn doubted(&mut self, nodes: NodeSet, auto_renew: bool, now: Tick) {
        let doubted = |(&number, part): (&u64, &mut Part)| Some((number, part.tenure.doubted(nodes, auto_renew, now)?));
        let dues: Vec<_> = self.parts.iter_mut().filter_map(doubted).collect();
        dues.into_iter().for_each(|(part, due)| self.set(part, Some(due)));
    }

    /// Ends the session as lost, if it is held. Returns whether it was held.
    pub fn lose(&mut self, reason: LostReason) -> bool {
        let held = self.phase == Phase::Held;
        if held {
            self.phase = Phase::Lost(reason);
        }
        held
    }

    /// Ends the session as released, if all its locks are held at `now`. Returns whether they were
    /// held.
    pub fn release(&mut self, now: Tick) -> bool {
        let alive = self.is_alive(now);
        if alive {
            self.phase = Phase::Released;
        }
        alive
    }
}

#[cfg(test)]
mod tests;
