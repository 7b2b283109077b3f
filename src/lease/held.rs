//! One lock that is held, was released, or was lost. Its [`LeaseState`] decides what happens to the
//! lock. This code carries the decisions out, and sets the timers.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::note::HolderNote;
use super::runtime::RuntimeHandle;
use super::schedule::{Event, Key, Schedule, Timed};
use super::watch::Watched;
use crate::config::Rules;
use crate::error::{Error, ErrorKind, NodeReport, Result};
use crate::host::Host;
use crate::node::Name;
use crate::protocol::{Grant, Open, ReleaseSet, Renewing, Voters};
use crate::rules::{Due, Expiry, Heard, LeaseState, LostReason, NodeSet, Pace, Phase, Renewal, Renewed, Tick};
use crate::words::listed;

/// The leases of one `Quorum`.
#[derive(Debug)]
pub(crate) struct Leases {
    pub(crate) voters: Arc<Voters>,
    pub(crate) home: Arc<RuntimeHandle>,
    pub(super) schedule: Arc<Schedule<dyn Timed>>,
    /// Whether the `Quorum` was shut down. If so, all leases are lost, even those that begin later.
    pub(super) closed: AtomicBool,
    /// When all leases were last lost because of another list, as a `moment`; 0 if this never
    /// happened.
    pub(super) others: AtomicU64,
    /// Shifts this process's renewals in time, so that processes do not all renew at once.
    pub(super) phase: u64,
    /// Dropped with the last handle and the last guard of the `Quorum`. This drop ends the
    /// monitor's loop.
    pub(super) _closing: DropGuard,
}

/// A renewal that was sent, and a receiver that gets `true` if a quorum has extended the lock.
pub(super) type Sent = (Renewing, oneshot::Receiver<bool>);

/// One acquired lock.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) leases: Arc<Leases>,
    rules: Arc<Rules>,
    pub(super) grant: Grant,
    state: Mutex<State>,
    /// Cancelled when the lock is lost. Made on first use.
    ended: OnceLock<CancellationToken>,
}

#[derive(Debug)]
struct State {
    tenure: LeaseState,
    holds: u32,
    /// Whether the release was sent, or the lock was left to the nodes for the rest of its period.
    gone: bool,
    /// The timer of the next renewal.
    renew: Option<Key>,
    /// The timer of the deadline.
    expire: Option<Key>,
    /// Cancelled when the lock has ended, whether lost or released. Made on first use.
    over: Option<CancellationToken>,
    /// The nodes' replies to the last renewal, if that renewal failed.
    failed: Vec<NodeReport>,
    /// The holder's note, if it has one.
    spoken: Option<HolderNote>,
}

impl Leases {
    /// The pace of renewals under these rules. Pauses begin at `from`.
    pub(super) fn pace<R: FnOnce() -> u64>(&self, rules: &Rules, from: Tick, random: R) -> Pace<R> {
        let (auto_renew, backoff, round_trip) = (rules.auto_renew, rules.backoff, self.voters.round_trip());
        Pace { auto_renew, backoff, round_trip, phase: self.phase, from, random }
    }

    /// Records in the metrics that a lock, which was acquired at `since`, has ended.
    pub(super) fn freed(&self, rules: &Rules, since: Tick) {
        self.voters.meters.freed(rules.class, self.voters.host.now().since(since));
    }
}

impl Held {
    /// Begins the lease of a round that was won.
    pub(super) fn begin(leases: &Arc<Leases>, rules: &Arc<Rules>, grant: Grant, says: Option<&Arc<str>>) -> Arc<Self> {
        let (voters, won, now) = (&leases.voters, *grant.won(), leases.voters.host.now());
        let tenure = LeaseState::new(voters.size, rules.validity, rules.max_hold, won, now);
        let (renew, expire, failed) = (None, None, Vec::new());
        let state = State { tenure, holds: 1, gone: false, renew, expire, over: None, failed, spoken: None };
        let held = Arc::new(Self {
            leases: leases.clone(),
            rules: rules.clone(),
            grant,
            state: Mutex::new(state),
            ended: OnceLock::new(),
        });
        voters.meters.held(rules.class);
        let mut state = held.state();
        // Set the timers first: doubts and a shutdown find leases through their timers.
        held.expire_at(&mut state, tenure.expires());
        held.renew_at(&mut state, tenure.first_renewal(&won, held.pace(now)));
        // A doubt that began after t0, but before the timers were set, has not found this lease.
        let doubted = voters.wakeups.doubts.since(won.t0);
        let due = state.tenure.doubted(doubted, rules.auto_renew, now);
        held.renew_at(&mut state, due);
        if let Some(says) = says {
            state.spoken = Some(HolderNote::new(says.clone(), now));
            held.renew_now(&mut state);
        }
        drop(state);
        held.lose_late(won.t0);
        held
    }

    /// Loses the lock if all leases were lost at or after `t0`: `lose_all` may have missed this
    /// lock.
    fn lose_late(&self, t0: Tick) {
        if let Some(reason) = self.leases.lost_since(t0) {
            self.lose(reason);
        }
    }

    /// The remaining validity; zero once the lock is lost or released.
    pub(super) fn remaining(&self) -> Duration {
        self.state().tenure.remaining(self.now())
    }

    /// Adds a guard; fails if the lock is lost. Nodes get the number of guards with the next
    /// renewal.
    pub(super) fn add_hold(&self) -> Result<()> {
        let mut state = self.state();
        if !state.tenure.is_held(self.now()) {
            // `lost_error` locks the state again.
            drop(state);
            return Err(self.lost_error());
        }
        state.holds = state.holds.saturating_add(1);
        Ok(())
    }

    /// Stops the renewals of a writer that becomes a reader: nodes would reply `lost`, because the
    /// reader has the name. The writer's lock ends at its deadline at the latest.
    pub(super) fn hold_still(&self) {
        self.state().tenure.hold_still();
    }

    /// Changes the holder's note; fails if the lock is lost. Returns the renewal that carries the
    /// note, and a receiver that gets `true` if a quorum has stored the note. `None` if the lock
    /// may not be renewed any more.
    pub(super) fn say(self: &Arc<Self>, says: Arc<str>) -> Result<Option<Sent>> {
        let mut state = self.state();
        let held = state.tenure.is_held(self.now());
        if let Some(spoken) = state.spoken.as_mut().filter(|_| held) {
            spoken.change(says);
            return Ok(self.renew_now(&mut state));
        }
        drop(state);
        Err(self.lost_error())
    }

    /// Renews the lock now. `None` if it may not be renewed any more.
    pub(super) fn extend(self: &Arc<Self>) -> Option<Sent> {
        self.renew_now(&mut self.state())
    }

    /// Returns an error if another owner could not take over this lock.
    pub(super) fn may_hand_on(&self) -> Result<()> {
        let names = self.grant.names();
        if names.len() > 1 {
            return Err(Error::config(format!(
                "the lock has {} names; only a lock on one name can become a ticket",
                names.len()
            )));
        }
        alone(&self.state())
    }

    /// Ends the lease without a release. Returns the validity that is left.
    pub(super) fn hand_on(&self) -> Result<Duration> {
        let mut state = self.state();
        alone(&state)?;
        let (remaining, until) = (state.tenure.remaining(self.now()), state.tenure.deadline());
        if state.tenure.release(self.now()) {
            let since = state.tenure.since();
            let stopped = self.stop(&mut state);
            drop(state);
            self.grant.hand_on(until);
            drop(stopped);
            self.leases.freed(&self.rules, since);
            return Ok(remaining);
        }
        // `lost_error` locks the state again.
        drop(state);
        Err(self.lost_error())
    }

    /// Gives up one guard. If this was the last guard, releases the lock, or leaves it to the nodes
    /// for the rest of its period.
    pub(super) fn drop_hold(&self) -> Dropped {
        let mut state = self.state();
        state.holds = state.holds.saturating_sub(1);
        match state.tenure.phase() {
            Phase::Held if state.holds > 0 && state.tenure.is_held(self.now()) => Dropped::Kept,
            Phase::Held if state.tenure.release(self.now()) => {
                self.release(state, self.grant.kept_for()).map_or(Dropped::Kept, Dropped::Released)
            }
            Phase::Held => {
                drop(state);
                self.time_is_over();
                Dropped::Expired
            }
            Phase::Released | Phase::Lost(_) => {
                self.let_go(state);
                Dropped::Expired
            }
        }
    }

    /// Releases the lock on every node, even if it was lost or nodes would hold it for the rest of
    /// a period. `None` if the release was sent already.
    pub(super) fn undo(&self) -> Option<ReleaseSet> {
        let mut state = self.state();
        if state.tenure.release(self.now()) {
            return self.release(state, None);
        }
        // With `gone` set, `time_is_over` sends no release. So the only release is the one below.
        let was_gone = std::mem::replace(&mut state.gone, true);
        drop(state);
        self.time_is_over();
        let kept = !was_gone || self.grant.kept_for().is_some();
        if kept { self.give_back(self.state(), None) } else { None }
    }

    fn ended_by(&self, mut state: MutexGuard<'_, State>, reason: LostReason) {
        let since = state.tenure.since();
        self.leases.schedule.clear(&mut state.renew);
        let over = state.over.take().map(CancellationToken::drop_guard);
        self.let_go(state);
        drop(over);
        if let Some(ended) = self.ended.get() {
            ended.cancel();
        }
        // Log last, and outside of the mutex: a recorder or a logger may block or panic.
        self.leases.freed(&self.rules, since);
        self.leases.voters.meters.lost(self.rules.class, reason);
        let names = self.grant.names().iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
        tracing::warn!(name = names, token = self.grant.token(), reason = reason.as_str(), "lock lost");
    }

    /// Sends a renewal now, even if none is due. When the lease has recorded the result, the
    /// receiver gets `true` if a quorum has extended the lock, else `false`.
    fn renew_now(self: &Arc<Self>, state: &mut State) -> Option<Sent> {
        let (renewing, until) = self.send_renewal(state)?;
        let (tell, told) = oneshot::channel();
        let heard = Self::heard(Arc::downgrade(self), renewing.clone(), until);
        // The receiver may have been dropped.
        self.host().spawn(heard.map(|renewal| tell.send(renewal == Renewal::Extended).unwrap_or(())).boxed());
        Some((renewing, told))
    }

    /// Waits for the result of a renewal, and records it.
    async fn heard(held: Weak<Self>, renewing: Renewing, until: Tick) -> Renewal {
        let renewal = renewing.verdict(until).await;
        if let Some(held) = held.upgrade() {
            renewing.span.end(held.renewed(&renewing, renewal).as_str());
        }
        renewal
    }

    /// Sends a renewal if the lock may be renewed. Also returns until when to wait for replies.
    fn send_renewal(&self, state: &mut State) -> Option<(Renewing, Tick)> {
        // This renewal replaces the planned renewal, even one that is due because of a doubt.
        self.leases.schedule.clear(&mut state.renew);
        let now = self.now();
        if !state.tenure.may_renew(now) {
            return None;
        }
        // Send under the mutex, so that no renewal follows a release, and none carries an older
        // note or number of guards than an earlier renewal.
        let renewing = self.grant.renew(state.holds, state.spoken.as_ref().map(|spoken| spoken.note(now)));
        // A renewal can make a node hold the name without a claim. So record all nodes that get it.
        state.tenure.sent(renewing.votes().sent());
        let until = state.tenure.waits(renewing.t0, self.rules.round_timeout);
        Some((renewing, until))
    }

    /// Records the result of a renewal, and returns its effect on the lease.
    fn renewed(self: &Arc<Self>, renewing: &Renewing, renewal: Renewal) -> Renewed {
        let mut state = self.state();
        let (t0, now) = (renewing.t0, self.now());
        let votes = renewing.votes();
        let doubted = self.leases.voters.wakeups.doubts.since(t0);
        let heard = Heard { t0, renewal, votes: &votes, doubted };
        let (renewed, due) = state.tenure.renewed(heard, self.pace(now), now);
        match renewed {
            Renewed::Extended { .. } => state.failed.clear(),
            Renewed::Unclear { .. } | Renewed::Lost(_) => state.failed = renewing.reports(),
            Renewed::Over => {}
        }
        self.renew_at(&mut state, due);
        match renewed {
            Renewed::Lost(reason) => self.ended_by(state, reason),
            Renewed::Extended { .. } | Renewed::Unclear { .. } | Renewed::Over => drop(state),
        }
        // Record metrics last, and outside of the mutex: a recorder may block or panic.
        self.leases.voters.meters.renewed(renewed);
        renewed
    }

    /// The error for a lock that has ended. If the lock's time is over, ends it now, even if its
    /// timer has not fired: a caller that gets this error must find the lock released.
    pub(super) fn lost_error(&self) -> Error {
        let reason = self.time_is_over().map_or("it was released", LostReason::explanation);
        let message = format!("the lock on {} is not held any more: {reason}", listed(self.grant.names()));
        Error::new(ErrorKind::Lost, message).with_nodes(self.failed_renewal())
    }

    pub(super) fn failed_renewal(&self) -> Vec<NodeReport> {
        self.state().failed.clone()
    }

    pub(super) fn round_timeout(&self) -> Tick {
        self.now() + self.rules.round_timeout
    }

    fn release(&self, state: MutexGuard<'_, State>, kept: Option<Duration>) -> Option<ReleaseSet> {
        let since = state.tenure.since();
        let freeing = self.give_back(state, kept);
        self.leases.freed(&self.rules, since);
        freeing
    }

    /// Removes both timers. Drop the result outside of the mutex, because this drop wakes other
    /// tasks.
    fn stop(&self, state: &mut State) -> (Open, Option<DropGuard>) {
        // Begin `open` before the timers are cleared: a shutdown finds the lease by its timers, and
        // then waits until `open` is dropped.
        let open = self.leases.voters.release_tasks.begin();
        state.gone = true;
        self.leases.schedule.clear(&mut state.renew);
        self.leases.schedule.clear(&mut state.expire);
        (open, state.over.take().map(CancellationToken::drop_guard))
    }

    /// Releases a lost lock, unless a guard still keeps it. A guard keeps a lost lock until the
    /// lock's deadline at most, so that work under the lock can end.
    fn let_go(&self, state: MutexGuard<'_, State>) {
        let kept = state.holds > 0 && state.tenure.lingers(self.now());
        if !state.gone && !kept {
            drop(self.give_back(state, self.grant.kept_for()));
        }
    }

    /// Sends releases to every node for a lock that has ended. If `kept` is given, nodes must hold
    /// the names for this rest of a period, so this sends no release and returns `None`.
    fn give_back(&self, mut state: MutexGuard<'_, State>, kept: Option<Duration>) -> Option<ReleaseSet> {
        let stopped = self.stop(&mut state);
        let (returned, line) = match kept {
            None => (Some(self.grant.give_back(state.tenure.may_hold())), None),
            Some(left) => (None, self.grant.leave(left)),
        };
        drop(state);
        let freeing = returned.as_ref().map(|returned| returned.freeing.clone());
        drop((returned, line, stopped));
        freeing
    }

    fn renew_at(self: &Arc<Self>, state: &mut State, due: Option<Due>) {
        if let Some(due) = due {
            let this: Weak<Self> = Arc::downgrade(self);
            self.leases.schedule.set(&mut state.renew, due.at(), Event::Renew(this));
        }
    }

    fn expire_at(self: &Arc<Self>, state: &mut State, at: Tick) {
        let this: Weak<Self> = Arc::downgrade(self);
        self.leases.schedule.set(&mut state.expire, at, Event::Expire(this));
    }

    fn pace(&self, from: Tick) -> Pace<impl FnOnce() -> u64> {
        self.leases.pace(&self.rules, from, || self.leases.voters.host.random())
    }

    pub(super) fn name(&self) -> &Name {
        &self.grant.names()[0]
    }

    fn now(&self) -> Tick {
        self.leases.voters.host.now()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns an error if the lock has several guards.
fn alone(state: &State) -> Result<()> {
    match state.holds {
        0 | 1 => Ok(()),
        _ => Err(Error::config("the lock has other guards; drop them before you make a ticket")),
    }
}

impl Watched for Held {
    fn lost(&self) -> Option<LostReason> {
        self.state().tenure.lost(self.now())
    }

    fn over(&self) -> Option<CancellationToken> {
        let mut state = self.state();
        let held = state.tenure.phase() == Phase::Held;
        held.then(|| state.over.get_or_insert_default().clone())
    }

    fn host(&self) -> &Arc<dyn Host> {
        &self.leases.voters.host
    }

    fn ended(&self) -> &CancellationToken {
        let ended = self.ended.get_or_init(CancellationToken::new);
        // If the lock was lost before the first call, the loss found no `CancellationToken` to
        // cancel.
        if self.lost().is_some() {
            ended.cancel();
        }
        ended
    }
}

impl Timed for Held {
    #[cfg(feature = "testing")]
    fn holds(&self, name: &Name) -> bool {
        self.grant.names().contains(name) && !self.remaining().is_zero()
    }

    fn deadline(&self) -> Option<Tick> {
        let state = self.state();
        matches!(state.tenure.phase(), Phase::Held).then(|| state.tenure.deadline())
    }

    fn sends(&self) -> usize {
        self.grant.weight()
    }

    fn renewal(self: Arc<Self>) -> BoxFuture<'static, ()> {
        let held = Arc::downgrade(&self);
        async move {
            let sent = held.upgrade().and_then(|held| held.send_renewal(&mut held.state()));
            if let Some((renewing, until)) = sent {
                Self::heard(held, renewing, until).await;
            }
        }
        .boxed()
    }

    /// Handles the deadline's timer: the lock is lost, unless a renewal has moved the deadline.
    fn deadline_reached(self: Arc<Self>) {
        let mut state = self.state();
        let expiry = state.tenure.deadline_reached(self.now());
        let (again, since) = (state.tenure.expires(), state.tenure.since());
        match expiry {
            Expiry::Over => return self.let_go(state),
            Expiry::Later(_) => {
                self.expire_at(&mut state, again);
                drop(state);
            }
            Expiry::Lost(reason) => {
                self.expire_at(&mut state, again);
                self.ended_by(state, reason);
            }
        }
        // Until its timer was set again, `lose_all` could not find this lease. So check for a loss
        // here.
        self.lose_late(since);
    }

    fn doubted(self: Arc<Self>, nodes: NodeSet) {
        let mut state = self.state();
        let due = state.tenure.doubted(nodes, self.rules.auto_renew, self.now());
        self.renew_at(&mut state, due);
    }

    /// Loses the lock for good: its users are notified, and it is never renewed again. The release
    /// is sent as soon as no guard keeps the lock. If the reason is a shutdown, guards do not keep
    /// the lock, so the release is sent at once.
    fn lose(&self, reason: LostReason) {
        let mut state = self.state();
        if reason == LostReason::Closed {
            state.holds = 0;
        }
        match state.tenure.lose(reason) {
            true => self.ended_by(state, reason),
            false => self.let_go(state),
        }
    }
}

/// The result of giving up one guard.
#[derive(Debug)]
pub(super) enum Dropped {
    /// The lock has other guards, or nodes hold the name for the rest of a period. Nothing is
    /// released.
    Kept,
    /// This was the last guard, and the release is under way.
    Released(ReleaseSet),
    /// The lock had already ended.
    Expired,
}
