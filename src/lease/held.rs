//! A lock that is held, was released, or was lost. Lost is final.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};

use super::guard::LostReason;
use super::schedule::{Event, Key, Schedule};
use crate::config::Rules;
use crate::error::{Error, ErrorKind, Result};
use crate::node::{Operation, Verb};
use crate::protocol::{Baton, Cleanup, Listening, NodeSet, Place, Renewing, Voters, Whom, Won};
use crate::quorum::renewal::{due, within};
use crate::quorum::{Renewal, Tick};

/// Timers may fire a little late: the deadline's is set this much earlier, so that loss is told by the deadline.
const TIMER: Duration = Duration::from_millis(2);

/// The leases of one quorum.
#[derive(Debug)]
pub(crate) struct Leases {
    pub(crate) voters: Arc<Voters>,
    pub(super) schedule: Arc<Schedule>,
    /// Ends the loop with the last handle and guard.
    pub(super) _closing: DropGuard,
}

/// One acquired lock.
#[derive(Debug)]
pub(super) struct Held {
    leases: Arc<Leases>,
    rules: Arc<Rules>,
    pub(super) claim: Arc<Operation>,
    since: Tick,
    passes: u32,
    others_wait: bool,
    state: Mutex<State>,
    pub(super) ended: CancellationToken,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    deadline: Tick,
    holds: u32,
    failures: u32,
    timers: [Option<Key>; 2],
    /// The place in the process's queue, kept as long as the lock is.
    place: Option<Place>,
    /// The ear for nodes that offer a turn after all.
    listening: Option<Listening>,
    /// The nodes that may hold it.
    may_hold: NodeSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Held,
    Released,
    Lost(LostReason),
}

const RENEW: usize = 0;
const EXPIRE: usize = 1;

impl Held {
    /// Begins the lease of a round that was won.
    pub(super) fn begin(leases: &Arc<Leases>, rules: &Arc<Rules>, won: Won) -> Arc<Self> {
        let Won { claim, t0, place, listening, may_hold, passes, others_wait } = won;
        let deadline = rules.validity.deadline(t0);
        let state = State {
            phase: Phase::Held,
            deadline,
            holds: 1,
            failures: 0,
            timers: [None; 2],
            place: Some(place),
            listening,
            may_hold,
        };
        let held = Arc::new(Self {
            leases: leases.clone(),
            rules: rules.clone(),
            claim,
            since: leases.voters.host.now(),
            passes,
            others_wait,
            state: Mutex::new(state),
            ended: CancellationToken::new(),
        });
        leases.voters.meters.held();
        let mut state = held.state();
        held.set(&mut state, EXPIRE, deadline.minus(TIMER), Event::Expire(Arc::downgrade(&held)));
        if rules.auto_renew {
            held.set(&mut state, RENEW, due(t0, rules.validity), Event::Renew(Arc::downgrade(&held)));
        }
        drop(state);
        held
    }

    /// What is left of the validity; zero once it is over, released or lost.
    pub(super) fn remaining(&self) -> Duration {
        let state = self.state();
        match state.phase {
            Phase::Held => state.deadline.since(self.now()),
            Phase::Released | Phase::Lost(_) => Duration::ZERO,
        }
    }

    /// Why a lock was lost of which nothing remains, unless it was released.
    pub(super) fn lost(&self) -> Option<LostReason> {
        match self.state().phase {
            Phase::Lost(reason) => Some(reason),
            // Its time is over, and no timer has said so yet.
            Phase::Held => Some(self.expired()),
            Phase::Released => None,
        }
    }

    /// Adds a hold and sends its count, or says that the lock is lost.
    pub(super) fn add_hold<T>(&self, send: impl FnOnce(&Arc<Voters>, Operation) -> T) -> Result<T> {
        let mut state = self.state();
        if state.phase != Phase::Held || self.now() >= state.deadline {
            // The error looks at the state again.
            drop(state);
            return Err(self.lost_error());
        }
        state.holds = state.holds.saturating_add(1);
        // So may a claim that sets the count.
        state.may_hold = self.leases.voters.everyone();
        // Sent under the lock: nodes see counts in the order in which they were set.
        Ok(send(&self.leases.voters, self.counted(&state)))
    }

    /// Gives one hold up; with the last, the lock is released. The release that was sent, if it was.
    pub(super) fn drop_hold(&self, send: impl FnOnce(&Arc<Voters>, Operation)) -> Dropped {
        let mut state = self.state();
        state.holds = state.holds.saturating_sub(1);
        match state.phase {
            Phase::Held if state.holds > 0 => {
                send(&self.leases.voters, self.counted(&state));
                Dropped::StillHeld
            }
            Phase::Held => {
                if self.now() < state.deadline {
                    return self.release(state);
                }
                drop(state);
                self.lose(self.expired());
                Dropped::Expired
            }
            Phase::Released | Phase::Lost(_) => Dropped::Expired,
        }
    }

    /// The lock is lost, once and for all: its users are told, it is released everywhere, and nothing renews it again.
    pub(super) fn lose(&self, reason: LostReason) {
        let state = self.state();
        if state.phase == Phase::Held {
            self.leases.voters.meters.lost(reason.as_str());
            tracing::warn!(name = ?self.claim.names, token = self.claim.ballot, reason = reason.as_str(), "lock lost");
            self.end(state, Phase::Lost(reason));
        }
    }

    /// The deadline's timer fired: the lock is lost, unless a renewal has moved the deadline.
    pub(super) fn deadline_reached(self: &Arc<Self>) {
        let mut state = self.state();
        if state.phase != Phase::Held {
            return;
        }
        let timer = state.deadline.minus(TIMER);
        if self.now() < timer {
            self.set(&mut state, EXPIRE, timer, Event::Expire(Arc::downgrade(self)));
        } else {
            drop(state);
            self.lose(self.expired());
        }
    }

    /// Sends a renewal, if the lock may be renewed; with the moment until which to wait for it.
    pub(super) fn send_renewal(&self) -> Option<(Renewing, Tick)> {
        let mut state = self.state();
        state.timers[RENEW] = None;
        let now = self.now();
        if state.phase != Phase::Held || now >= state.deadline || !within(self.rules.max_hold, self.since, now) {
            return None;
        }
        // A renewal heals nodes that knew nothing of the claim.
        state.may_hold = self.leases.voters.everyone();
        // Sent under the lock: no renewal follows a release.
        let renewing = Renewing::start(&self.leases.voters, &self.claim, state.holds);
        let until = state.deadline.min(renewing.t0() + self.rules.round_timeout);
        Some((renewing, until))
    }

    /// Takes note of what a renewal sent at `t0` came to.
    pub(super) fn renewed(self: &Arc<Self>, t0: Tick, renewal: Renewal) {
        let mut state = self.state();
        let now = self.now();
        if state.phase != Phase::Held {
            return;
        }
        if now >= state.deadline {
            drop(state);
            return self.lose(self.expired());
        }
        match renewal {
            Renewal::Extended => {
                self.leases.voters.meters.renewal("extended");
                self.leases.voters.meters.margin(state.deadline.since(now));
                state.deadline = self.rules.validity.deadline(t0).max(state.deadline);
                state.failures = 0;
                self.set(&mut state, RENEW, due(t0, self.rules.validity), Event::Renew(Arc::downgrade(self)));
            }
            Renewal::Lost => {
                self.leases.voters.meters.renewal("lost");
                drop(state);
                self.lose(LostReason::Refused);
            }
            Renewal::Unclear => {
                self.leases.voters.meters.renewal("unclear");
                let voters = &self.leases.voters;
                let pause = self.rules.backoff.pause(state.failures, voters.round_trip(), voters.host.random());
                state.failures = state.failures.saturating_add(1);
                self.set(&mut state, RENEW, now + pause, Event::Renew(Arc::downgrade(self)));
            }
        }
    }

    pub(super) fn lost_error(&self) -> Error {
        let reason = self.lost().map_or("it was released", LostReason::explanation);
        Error::new(ErrorKind::Lost, format!("the lock on {:?} is not held any more: {reason}", self.claim.names[0]))
    }

    pub(super) fn round_timeout(&self) -> Tick {
        self.now() + self.rules.round_timeout
    }

    pub(super) fn voters(&self) -> &Arc<Voters> {
        &self.leases.voters
    }

    /// Hands the lock to the next caller in this process, or releases it.
    fn release(&self, mut state: MutexGuard<'_, State>) -> Dropped {
        let may_pass = self.passes < self.rules.max_passes || !self.others_wait;
        match state.place.take_if(|place| may_pass && place.is_followed()) {
            Some(place) => {
                self.stop(&mut state, Phase::Released);
                let may_hold = state.may_hold;
                drop(state);
                place.hand_over(Baton::new(self.leases.voters.clone(), self.claim.clone(), may_hold, self.passes));
                self.leases.voters.meters.freed(self.now().since(self.since));
                Dropped::Passed
            }
            None => Dropped::Released(self.end(state, Phase::Released)),
        }
    }

    /// No timer and no hint does anything from now on.
    fn stop(&self, state: &mut State, phase: Phase) {
        state.phase = phase;
        state.listening = None;
        for key in std::mem::take(&mut state.timers).into_iter().flatten() {
            self.leases.schedule.remove(key);
        }
    }

    /// Ends the lease, and releases it on every node.
    fn end(&self, mut state: MutexGuard<'_, State>, phase: Phase) -> Arc<Cleanup> {
        self.stop(&mut state, phase);
        let voters = &self.leases.voters;
        let whom = Whom { ask: voters.everyone(), insist: state.may_hold, unheard: NodeSet::default() };
        // Sent before the place is given up: the next in this process asks behind this release, on the same connections.
        let cleanup = Cleanup::start(voters, self.claim.with_verb(Verb::Release), whom);
        let place = state.place.take();
        drop(state);
        drop(place);
        voters.meters.freed(self.now().since(self.since));
        if phase != Phase::Released {
            self.ended.cancel();
        }
        cleanup
    }

    fn set(&self, state: &mut State, timer: usize, at: Tick, event: Event) {
        if let Some(key) = state.timers[timer].replace(self.leases.schedule.add(at, event)) {
            self.leases.schedule.remove(key);
        }
    }

    fn counted(&self, state: &State) -> Operation {
        Operation { count: state.holds, ..self.claim.with_verb(Verb::Claim) }
    }

    fn expired(&self) -> LostReason {
        if within(self.rules.max_hold, self.since, self.now()) { LostReason::Expired } else { LostReason::MaxHold }
    }

    fn now(&self) -> Tick {
        self.leases.voters.host.now()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What giving one hold up came to.
#[derive(Debug)]
pub(super) enum Dropped {
    /// Others hold it still.
    StillHeld,
    /// That was the last hold: the next caller in this process takes over.
    Passed,
    /// That was the last hold: the release is under way.
    Released(Arc<Cleanup>),
    /// It had ended before.
    Expired,
}
