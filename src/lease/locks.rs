//! The locks of a session: many grants, which are renewed and lost together. Their [`SessionState`]
//! decides what happens to these locks. This code carries the decisions out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::batch::{Again, Batch};
use super::held::Leases;
use super::schedule::{Event, Key, Timed};
use super::session_grants::SessionGrants;
use super::watch::Watched;
use crate::config::Rules;
use crate::error::{Error, ErrorKind, NodeReport, Result};
use crate::host::{Host, sleep_until};
use crate::node::Name;
use crate::protocol::{Grant, Open, ReleaseSet, Renewing, Returned};
use crate::rules::session_state::{Sent, Timers};
use crate::rules::{
    Expiry, Heard, LeaseState, LostReason, NodeSet, Phase, Renewal, RenewalTally, Renewed, SessionState, Tick, Won,
};
use crate::words::listed;

/// The locks of one session, or the permits of one acquisition.
pub(crate) struct Locks {
    /// The word for these locks in errors and logs, such as "session".
    what: &'static str,
    leases: Arc<Leases>,
    rules: Arc<Rules>,
    /// When the session began.
    since: Tick,
    state: Mutex<State>,
    /// Cancelled when the locks are lost.
    ended: CancellationToken,
    /// Cancelled when the locks have ended, whether lost or released.
    over: CancellationToken,
    /// Notified when a lock is added whose deadline comes before those of all other locks.
    sooner: Notify,
}

struct State {
    kept: SessionGrants,
    /// The timer of the next renewal.
    renew: Option<Key>,
    /// The timer of the first deadline.
    expire: Option<Key>,
    failed: Vec<NodeReport>,
}

impl Locks {
    /// Begins without locks.
    pub(crate) fn begin(what: &'static str, leases: &Arc<Leases>, rules: &Arc<Rules>) -> Arc<Self> {
        let kept = SessionGrants::new(SessionState::new(rules.validity));
        let state = State { kept, renew: None, expire: None, failed: Vec::new() };
        let locks = Arc::new(Self {
            what,
            leases: leases.clone(),
            rules: rules.clone(),
            since: leases.voters.host.now(),
            state: Mutex::new(state),
            ended: CancellationToken::new(),
            over: CancellationToken::new(),
            sooner: Notify::new(),
        });
        // Set this timer even without locks: a shutdown finds the session through this timer.
        locks.expire_at(&mut locks.state(), Tick::NEVER);
        locks.lose_late(leases.lost_after(locks.since));
        locks
    }

    /// Loses these locks if there is a reason.
    fn lose_late(&self, reason: Option<LostReason>) {
        reason.into_iter().for_each(|reason| self.lose(reason));
    }

    /// Adds a lock. If these locks or the new lock have ended, releases the new lock and fails.
    pub(crate) fn add(self: &Arc<Self>, grant: Grant) -> Result<()> {
        let (voters, won, now) = (&self.leases.voters, *grant.won(), self.now());
        let tenure = LeaseState::new(voters.size, self.rules.validity, self.rules.max_hold, won, now);
        let mut state = self.state();
        if !state.kept.tenancy.is_alive(now) {
            drop(state);
            grant.give_back(won.may_hold);
            return Err(self.lost_error());
        }
        if !tenure.is_held(now) {
            // The new lock has expired. If it were added, all other locks would be lost.
            drop(state);
            grant.give_back(won.may_hold);
            return Err(too_late(grant.names()));
        }
        let before = state.kept.tenancy.deadline();
        // Doubts that began after t0, but before the lock was added, have not found this lock.
        let doubted = voters.wakeups.doubts.since(won.t0);
        let pace = self.leases.pace(&self.rules, now, || voters.host.random());
        state.kept.add(grant, tenure, doubted, pace);
        self.arm(&mut state);
        // A renewal may already wait in the monitor's queue, at the place of the old deadline. The
        // new deadline is earlier, so queue the renewal again, at the place of the new one.
        if won.deadline < before && state.renew.is_some_and(|(at, _)| at <= now) {
            self.renew_at(&mut state, now);
        }
        drop(state);
        voters.meters.held(self.rules.class);
        if won.deadline < before {
            self.sooner.notify_waiters();
        }
        self.lose_late(self.leases.lost_since(won.t0));
        Ok(())
    }

    /// Those of `names` that are not held. `None` if these locks have ended.
    pub(crate) fn missing(&self, names: &[Name]) -> Option<Vec<Name>> {
        let state = self.state();
        state.kept.tenancy.is_alive(self.now()).then(|| state.kept.missing(names))
    }

    /// The last of the held names in sorted order.
    pub(crate) fn last(&self) -> Option<Name> {
        self.state().kept.names.last_key_value().map(|(name, _)| name.clone())
    }

    pub(crate) fn len(&self) -> usize {
        self.state().kept.names.len()
    }

    /// The token of each held name.
    pub(crate) fn tokens<T: FromIterator<(Arc<str>, u64)>>(&self) -> T {
        self.state().kept.tokens().collect()
    }

    pub(crate) fn token(&self, name: &Name) -> Option<u64> {
        self.state().kept.token(name)
    }

    /// The owner that nodes store for this name; `None` if the name is not held.
    #[cfg(feature = "unstable")]
    pub(crate) fn owner(&self, name: &Name) -> Option<String> {
        self.state().kept.grant_of(name).map(|grant| grant.owner_of(name.text()).to_owned())
    }

    /// The shortest remaining validity of the locks.
    pub(crate) fn remaining(&self) -> Duration {
        self.state().kept.tenancy.remaining(self.now())
    }

    /// Releases these names, all of which must be held.
    pub(crate) fn free(&self, names: &[Name]) -> Result<ReleaseSet> {
        let mut state = self.state();
        if !state.kept.tenancy.is_alive(self.now()) {
            drop(state);
            return Err(self.lost_error());
        }
        let missing = state.kept.missing(names);
        if !missing.is_empty() {
            let missing = listed(&missing);
            return Err(Error::config(format!(
                "this {} does not hold {missing}, so nothing was unlocked; unlock only names that held() returns",
                self.what
            )));
        }
        let taken = state.kept.take_out(names);
        let returned = Grant::give_back_all(&self.leases.voters, &taken.grants);
        drop(state);
        self.all_freed(&taken.since);
        Ok(freeing(&returned))
    }

    /// Releases all locks if they are held. If they were lost, sends those releases that were not
    /// sent yet, and returns `None`.
    pub(crate) fn release(&self) -> Option<ReleaseSet> {
        let mut state = self.state();
        if state.kept.tenancy.release(self.now()) {
            return Some(self.end(state));
        }
        drop(state);
        self.time_is_over();
        self.let_go(self.state(), true);
        None
    }

    /// Makes one grant of all locks. The token of this grant is the highest token of the locks. A
    /// quorum must extend each lock with this token. If one lock cannot be extended in time, fails
    /// with `Lost`.
    ///
    /// For each name, tokens of earlier holders are below the token that won the name, and so below
    /// the new token. Tokens of later holders are above the new token: after the renewals, a quorum
    /// of nodes has a fence of at least the new token for each name.
    pub(crate) async fn unite(&self) -> Result<(Grant, Open)> {
        let mut tries = 0;
        loop {
            let Some((t0, (token, renewals))) = self.send_all() else { return Err(self.lost_error()) };
            let until = (t0 + self.rules.round_timeout).min(self.deadline().unwrap_or(t0));
            let mut sum = (Renewal::Extended, RenewalTally::new(self.leases.voters.size));
            for (number, renewing) in renewals.iter().enumerate() {
                let (renewal, votes) = (renewing.verdict(until).await, renewing.votes());
                sum = (sum.0.with(renewal), if number == 0 { votes } else { sum.1.with(votes) });
                renewing.span.end(if renewal == Renewal::Extended { "extended" } else { "unclear" });
            }
            match sum {
                (Renewal::Extended, votes) => match self.taken_out(token, t0, &votes) {
                    Some(united) => return Ok(united),
                    None => return Err(self.lost_error()),
                },
                (Renewal::Lost, votes) => self.lose(votes.why_lost()),
                (Renewal::Unclear, _) => {
                    let (round_trip, random) = (self.leases.voters.round_trip(), self.leases.voters.host.random());
                    let pause = self.rules.backoff.pause(tries, round_trip, random);
                    sleep_until(&self.leases.voters.host, self.now() + pause).await;
                    tries += 1;
                }
            }
        }
    }

    /// Sends renewals of all locks with one ballot; `None` if the locks have ended.
    fn send_all(&self) -> Option<(Tick, (u64, Vec<Renewing>))> {
        let mut state = self.state();
        // Read the clock before the first send: each node's ttl must begin later than `t0`.
        let t0 = self.now();
        let alive = state.kept.tenancy.is_alive(t0);
        // Send under the mutex, so that no renewal follows a release.
        alive.then(|| (t0, state.kept.renew_as_one(&self.leases.voters)))
    }

    /// Removes all locks, which renewals at `t0` have extended, and returns them as one grant.
    /// `None` if the locks have ended, or have less than `min_validity` left.
    fn taken_out(&self, token: u64, t0: Tick, votes: &RenewalTally) -> Option<(Grant, Open)> {
        let mut state = self.state();
        let (now, deadline) = (self.now(), self.rules.validity.deadline(t0));
        let least = self.rules.min_validity;
        if now >= deadline.minus(least) || !state.kept.tenancy.release(now) {
            return None;
        }
        // Begin `open` before the timers are cleared: a shutdown finds the locks by their timers,
        // and then waits until `open` is dropped.
        let open = self.leases.voters.release_tasks.begin();
        let since = state.kept.forget_names();
        let (parts, may_hold): (Vec<_>, Vec<_>) = state.kept.take_all().into_iter().unzip();
        self.leases.schedule.clear(&mut state.renew);
        self.leases.schedule.clear(&mut state.expire);
        drop(state);
        self.over.cancel();
        self.all_freed(&since);
        let (granted, backers) = (votes.extended(), votes.backers());
        let may_hold = may_hold.into_iter().fold(backers, NodeSet::or);
        let (ballot, highest, handed_over) = (token, token, false);
        let won = Won { t0, ballot, highest, handed_over, deadline, least, granted, backers, may_hold };
        Some((Grant::united(parts, won)?, open))
    }

    pub(crate) fn close(&self) {
        self.lose(LostReason::Closed);
    }

    /// Why the locks are lost; `None` if they are not. If their time is over, this call ends them,
    /// even if the timer has not fired. This may send releases, so do not call it under a mutex.
    pub(crate) fn why_lost(&self) -> Option<LostReason> {
        self.time_is_over()
    }

    pub(crate) fn lost_error(&self) -> Error {
        let (what, reason) = (self.what, self.why_lost().map_or("it was revoked", LostReason::explanation));
        let message = format!("the {what} has ended, and all its locks with it: {reason}");
        Error::new(ErrorKind::Lost, message).with_nodes(self.failed_renewal())
    }

    pub(crate) fn failed_renewal(&self) -> Vec<NodeReport> {
        self.state().failed.clone()
    }

    pub(crate) const fn ending(&self) -> &CancellationToken {
        &self.over
    }

    pub(crate) fn round_timeout(&self) -> Tick {
        self.now() + self.rules.round_timeout
    }

    pub(crate) async fn until_lost(&self) -> LostReason {
        super::watch::lost(self).await
    }

    /// Waits until the locks have ended. Returns why they were lost; `None` if they were released.
    #[cfg(feature = "blocking")]
    pub(crate) async fn outcome(&self) -> Option<LostReason> {
        super::watch::outcome(self).await
    }

    pub(crate) fn cancellation(self: &Arc<Self>) -> CancellationToken {
        super::watch::cancellation(self)
    }

    /// Sends the renewals that are due, all at the same moment.
    fn send_renewals(self: &Arc<Self>) -> Option<Batch> {
        let mut state = self.state();
        self.leases.schedule.clear(&mut state.renew);
        // Read the clock before the first send: each node's ttl must begin later than `t0`.
        let t0 = self.now();
        let sent = state.kept.tenancy.renew(t0);
        if sent.is_empty() {
            self.arm(&mut state);
            return None;
        }
        // Send under the mutex, so that no renewal of a name follows its release.
        let grants = sent.iter().filter_map(|sent| state.kept.grant(sent.part));
        let renewals = Grant::renew_all(&self.leases.voters, grants);
        let renewals: Vec<_> = sent.into_iter().zip(renewals).collect();
        // Renewals can make nodes hold names without a claim, so record all nodes that get them.
        renewals.iter().for_each(|(sent, renewing)| state.kept.tenancy.sent(sent.part, renewing.votes().sent()));
        self.arm(&mut state);
        Some(Batch { renewals, until: state.kept.tenancy.waits(t0, self.rules.round_timeout) })
    }

    /// Records the result of one renewal. A renewal without a clear result is sent again.
    fn renewed(self: &Arc<Self>, sent: Sent, renewing: &Renewing, renewal: Renewal, again: Again) -> Renewed {
        let mut state = self.state();
        let votes = renewing.votes();
        let doubted = self.leases.voters.wakeups.doubts.since(sent.t0);
        let heard = Heard { t0: sent.t0, renewal, votes: &votes, doubted };
        // The whole batch has one random number, so its renewals are sent again together.
        let pace = self.leases.pace(&self.rules, again.from, || again.random);
        let renewed = state.kept.tenancy.renewed(sent, heard, pace, self.now());
        if let Renewed::Lost(reason) = renewed {
            state.failed = renewing.reports();
            self.ended_by(state, reason);
        } else {
            self.arm(&mut state);
        }
        renewed
    }

    /// Records the end of a batch. `failed` has the nodes' replies to an unclear renewal; empty if
    /// there was none.
    fn all_renewed(&self, failed: Vec<NodeReport>) {
        let mut state = self.state();
        if state.kept.tenancy.phase() == Phase::Held {
            state.failed = failed;
        }
    }

    fn ended_by(&self, mut state: MutexGuard<'_, State>, reason: LostReason) {
        let names = listed(&state.kept.names.keys().collect::<Vec<_>>());
        let since = state.kept.forget_names();
        self.leases.schedule.clear(&mut state.renew);
        drop(state);
        // Cancel first: the holder must stop now, and ten thousand releases take a while.
        self.ended.cancel();
        self.over.cancel();
        self.let_go(self.state(), reason == LostReason::Closed);
        // Log last, and outside of the mutex: a recorder or a log may block or panic.
        self.all_freed(&since);
        since.iter().for_each(|_| self.leases.voters.meters.lost(self.rules.class, reason));
        tracing::warn!(names, locks = since.len(), reason = reason.as_str(), "{} lost", self.what);
    }

    /// Releases lost locks: all of them if `all` is true, else those past their deadline. Nodes
    /// keep a lost lock until its deadline, unless the holder drops it first: work under the lock
    /// may still run.
    fn let_go(&self, state: MutexGuard<'_, State>, all: bool) {
        let now = self.now();
        if let Phase::Lost(_) = state.kept.tenancy.phase() {
            self.give_back(state, |kept| if all { kept.take_all() } else { kept.take_expired(now) });
        }
    }

    /// Sends releases to every node for all locks, which the holder has given up.
    fn end(&self, mut state: MutexGuard<'_, State>) -> ReleaseSet {
        let since = state.kept.forget_names();
        let freeing = self.give_back(state, SessionGrants::take_all);
        self.over.cancel();
        self.all_freed(&since);
        freeing
    }

    /// Takes out grants that have ended, and releases them. So no renewal of these grants can
    /// follow.
    fn give_back<T>(&self, mut state: MutexGuard<'_, State>, take: T) -> ReleaseSet
    where
        T: FnOnce(&mut SessionGrants) -> Vec<(Grant, NodeSet)>,
    {
        // Begin `open` before the timers are cleared: a shutdown finds the locks by their timers,
        // and then waits until `open` is dropped.
        let open = self.leases.voters.release_tasks.begin();
        let taken = take(&mut state.kept);
        if state.kept.is_empty() {
            self.leases.schedule.clear(&mut state.renew);
            self.leases.schedule.clear(&mut state.expire);
        }
        drop(state);
        let returned = Grant::give_back_all(&self.leases.voters, &taken);
        let freeing = freeing(&returned);
        drop((returned, open));
        freeing
    }

    fn all_freed(&self, since: &[Tick]) {
        since.iter().for_each(|since| self.leases.freed(&self.rules, *since));
    }

    /// Sets each timer to its next event, if this event comes before the time to which the timer is
    /// set.
    fn arm(self: &Arc<Self>, state: &mut State) {
        let at = |timer: Option<Key>| timer.map(|(at, _)| at);
        let set = Timers { renew: at(state.renew), expire: at(state.expire) };
        let Timers { renew, expire } = state.kept.tenancy.timers(set);
        renew.into_iter().for_each(|at| self.renew_at(state, at));
        expire.into_iter().for_each(|at| self.expire_at(state, at));
    }

    /// Sets the timer for the next deadline, unless all locks were released.
    fn expire_next(self: &Arc<Self>) {
        let mut state = self.state();
        if state.expire.is_some() {
            let at = state.kept.tenancy.expires();
            self.expire_at(&mut state, at);
        }
    }

    fn renew_at(self: &Arc<Self>, state: &mut State, at: Tick) {
        let this: Weak<Self> = Arc::downgrade(self);
        self.leases.schedule.set(&mut state.renew, at, Event::Renew(this));
    }

    fn expire_at(self: &Arc<Self>, state: &mut State, at: Tick) {
        let this: Weak<Self> = Arc::downgrade(self);
        self.leases.schedule.set(&mut state.expire, at, Event::Expire(this));
    }

    fn now(&self) -> Tick {
        self.leases.voters.host.now()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn freeing(returned: &[Returned]) -> ReleaseSet {
    returned.iter().flat_map(|returned| returned.freeing.all().cloned()).collect()
}

/// The error for a grant that expired before it could be added.
fn too_late(names: &[Name]) -> Error {
    let names = listed(names);
    let message = format!("cannot lock {names}: the grant expired before this process could use it");
    Error::new(ErrorKind::Unavailable, message)
}

impl Watched for Locks {
    fn lost(&self) -> Option<LostReason> {
        self.state().kept.tenancy.lost(self.now())
    }

    fn over(&self) -> Option<CancellationToken> {
        Some(self.over.clone()).filter(|over| !over.is_cancelled())
    }

    fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    fn host(&self) -> &Arc<dyn Host> {
        &self.leases.voters.host
    }

    fn sooner(&self) -> Option<&Notify> {
        Some(&self.sooner)
    }
}

impl Timed for Locks {
    #[cfg(feature = "testing")]
    fn holds(&self, name: &Name) -> bool {
        self.token(name).is_some() && !self.remaining().is_zero()
    }

    fn deadline(&self) -> Option<Tick> {
        let state = self.state();
        matches!(state.kept.tenancy.phase(), Phase::Held).then(|| state.kept.tenancy.deadline())
    }

    fn sends(&self) -> usize {
        self.state().kept.sends(self.now())
    }

    fn renewal(self: Arc<Self>) -> BoxFuture<'static, ()> {
        let (locks, voters) = (Arc::downgrade(&self), self.leases.voters.clone());
        async move {
            let Some(batch) = locks.upgrade().and_then(|locks| locks.send_renewals()) else { return };
            let mut ended = Vec::new();
            let note = |sent, renewing: &Renewing, renewal, again| {
                let renewed = locks.upgrade().map(|locks| locks.renewed(sent, renewing, renewal, again));
                renewing.span.end(renewed.map_or("over", |renewed| renewed.as_str()));
                ended.extend(renewed);
            };
            let failed = batch.heard(&voters.host, note).await;
            if let Some(locks) = locks.upgrade() {
                locks.all_renewed(failed);
            }
            // Record metrics last, and outside of the mutex: a recorder that blocks or panics must
            // delay no renewal.
            ended.into_iter().for_each(|renewed| voters.meters.renewed(renewed));
        }
        .boxed()
    }

    /// Handles the deadline's timer: all locks are lost, unless a renewal has moved the deadline.
    fn deadline_reached(self: Arc<Self>) {
        let mut state = self.state();
        match state.kept.tenancy.deadline_reached(self.now()) {
            Expiry::Later(_) => drop(state),
            Expiry::Lost(reason) => self.ended_by(state, reason),
            Expiry::Over => self.let_go(state, false),
        }
        self.expire_next();
        // Until the timer was set again, `lose_all` could not find these locks. So check for a loss
        // here.
        self.lose_late(self.leases.lost_after(self.since));
    }

    fn doubted(self: Arc<Self>, nodes: NodeSet) {
        let mut state = self.state();
        state.kept.tenancy.doubted(nodes, self.rules.auto_renew, self.now());
        self.arm(&mut state);
    }

    fn lose(&self, reason: LostReason) {
        let mut state = self.state();
        match state.kept.tenancy.lose(reason) {
            true => self.ended_by(state, reason),
            false => self.let_go(state, reason == LostReason::Closed),
        }
    }
}

impl std::fmt::Debug for Locks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locks").field("names", &self.len()).finish_non_exhaustive()
    }
}
