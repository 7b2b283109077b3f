//! The locks of a session: many grants, renewed together and lost together. Carries out what their
//! [`Tenancy`] decides.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::batch::{Again, Batch};
use super::held::Leases;
use super::kept::Kept;
use super::schedule::{Event, Key, Timed};
use super::watch::Watched;
use crate::config::Rules;
use crate::error::{Error, ErrorKind, NodeReport, Result};
use crate::host::{Host, sleep_until};
use crate::node::Name;
use crate::protocol::{Freeing, Grant, Open, Renewing, Returned};
use crate::rules::tenancy::{Sent, Timers};
use crate::rules::{
    Expiry, Heard, LostReason, NodeSet, Pace, Phase, Renewal, RenewalTally, Renewed, Tenancy, Tenure, Tick, Won,
};
use crate::words::listed;

/// The locks of one session, or the permits of one acquisition.
pub(crate) struct Locks {
    /// What people call it.
    what: &'static str,
    leases: Arc<Leases>,
    rules: Arc<Rules>,
    /// When it began.
    since: Tick,
    state: Mutex<State>,
    /// Cancelled when they are lost.
    ended: CancellationToken,
    /// Cancelled when they are over, however they end.
    over: CancellationToken,
    /// Tells whoever waits for the first deadline that a lock was added which ends before it.
    sooner: Notify,
}

struct State {
    kept: Kept,
    timers: [Option<Key>; 2],
    failed: Vec<NodeReport>,
}

const RENEW: usize = 0;
const EXPIRE: usize = 1;

impl Locks {
    /// None so far.
    pub(crate) fn begin(what: &'static str, leases: &Arc<Leases>, rules: &Arc<Rules>) -> Arc<Self> {
        let kept = Kept::new(Tenancy::new(rules.validity));
        let state = State { kept, timers: [None; 2], failed: Vec::new() };
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
        // By this a shutdown finds it.
        locks.set(&mut locks.state(), EXPIRE, Tick::NEVER);
        locks.lose_late(leases.lost_after(locks.since));
        locks
    }

    /// These are lost if all leases were, and these were not found then.
    fn lose_late(&self, reason: Option<LostReason>) {
        reason.into_iter().for_each(|reason| self.lose(reason));
    }

    /// One lock more, unless these are over: then it is given back.
    pub(crate) fn add(self: &Arc<Self>, grant: Grant) -> Result<()> {
        let (voters, won, now) = (&self.leases.voters, *grant.won(), self.now());
        let tenure = Tenure::new(voters.size, self.rules.validity, self.rules.max_hold, won, now);
        let mut state = self.state();
        if !state.kept.tenancy.is_alive(now) {
            drop(state);
            grant.give_back(won.may_hold);
            return Err(self.lost_error());
        }
        if !tenure.is_held(now) {
            // With it all others would be lost.
            drop(state);
            grant.give_back(won.may_hold);
            return Err(too_late(grant.names()));
        }
        let before = state.kept.tenancy.deadline();
        // A doubt that came before could be found by it.
        let doubted = voters.hints.doubts().since(won.t0);
        state.kept.add(grant, tenure, doubted, self.pace(now, || voters.host.random()));
        self.arm(&mut state);
        // Where it waits for its turn with what ends later, it goes to where this puts it.
        if won.deadline < before && state.timers[RENEW].is_some_and(|(at, _)| at <= now) {
            self.set(&mut state, RENEW, now);
        }
        drop(state);
        voters.meters.held(self.rules.class);
        if won.deadline < before {
            self.sooner.notify_waiters();
        }
        self.lose_late(self.leases.lost_since(won.t0));
        Ok(())
    }

    /// Which of these names are not held; `None` where all of it is over.
    pub(crate) fn missing(&self, names: &[Name]) -> Option<Vec<Name>> {
        let state = self.state();
        state.kept.tenancy.is_alive(self.now()).then(|| state.kept.missing(names))
    }

    /// The last of the names that are held.
    pub(crate) fn last(&self) -> Option<Name> {
        self.state().kept.names().last_key_value().map(|(name, _)| name.clone())
    }

    /// How many names are held.
    pub(crate) fn len(&self) -> usize {
        self.state().kept.names().len()
    }

    /// The token of each name that is held.
    pub(crate) fn tokens<T: FromIterator<(Arc<str>, u64)>>(&self) -> T {
        self.state().kept.tokens().collect()
    }

    /// The token of one name, if it is held.
    pub(crate) fn token(&self, name: &Name) -> Option<u64> {
        self.state().kept.token(name)
    }

    /// Whose one name is on the nodes, if it is held.
    #[cfg(feature = "unstable")]
    pub(crate) fn owner(&self, name: &Name) -> Option<String> {
        self.state().kept.grant_of(name).map(|grant| grant.owner_of(name.text()).to_owned())
    }

    /// For how long all is held at least.
    pub(crate) fn remaining(&self) -> Duration {
        self.state().kept.tenancy.remaining(self.now())
    }

    /// Gives up these names, all of which must be held.
    pub(crate) fn free(&self, names: &[Name]) -> Result<Freeing> {
        let mut state = self.state();
        if !state.kept.tenancy.is_alive(self.now()) {
            drop(state);
            return Err(self.lost_error());
        }
        let missing = state.kept.missing(names);
        if !missing.is_empty() {
            let missing = listed(&missing);
            return Err(Error::config(format!(
                "this {} does not hold {missing}, so nothing was unlocked; unlock only what held() names",
                self.what
            )));
        }
        let taken = state.kept.take_out(names);
        let returned = Grant::give_back_all(&self.leases.voters, &taken.grants);
        drop(state);
        self.all_freed(&taken.since);
        Ok(freeing(&returned))
    }

    /// Gives up all, in time; `None` if it is over. What was lost before is given back now.
    pub(crate) fn release(&self) -> Option<Freeing> {
        let mut state = self.state();
        if state.kept.tenancy.release(self.now()) {
            return Some(self.end(state));
        }
        drop(state);
        self.time_is_over();
        self.let_go(self.state(), true);
        None
    }

    /// Makes one grant of all, with one token: a quorum extends each with the highest token that one of
    /// them has. What cannot be extended in time is lost, and all is.
    ///
    /// The token is above all that were dealt for any name before it was extended: those are below what
    /// that name was won by. And it is below all that are dealt later: a quorum has it as the name's
    /// fence.
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

    /// Renewals of all with one ballot, as long as all are held.
    fn send_all(&self) -> Option<(Tick, (u64, Vec<Renewing>))> {
        let mut state = self.state();
        // Read before the first send: the nodes count from later than this.
        let t0 = self.now();
        let alive = state.kept.tenancy.is_alive(t0);
        // Sent under the lock: no renewal follows a release.
        alive.then(|| (t0, state.kept.renew_as_one(&self.leases.voters)))
    }

    /// All as one grant, which renewals that began at `t0` extended; `None` if that is over by now.
    fn taken_out(&self, token: u64, t0: Tick, votes: &RenewalTally) -> Option<(Grant, Open)> {
        let mut state = self.state();
        let (now, deadline) = (self.now(), self.rules.validity.deadline(t0));
        let least = self.rules.min_validity;
        if now >= deadline.minus(least) || !state.kept.tenancy.release(now) {
            return None;
        }
        // Before the timers go, by which a shutdown finds it.
        let open = self.leases.voters.open_cleanup();
        let since = state.kept.since();
        state.kept.forget_names();
        let (parts, may_hold): (Vec<_>, Vec<_>) = state.kept.take_all().into_iter().unzip();
        for key in std::mem::take(&mut state.timers).into_iter().flatten() {
            self.leases.schedule.remove(key);
        }
        drop(state);
        self.over.cancel();
        self.all_freed(&since);
        let (voters, backers) = (votes.extended(), votes.backers());
        let may_hold = may_hold.into_iter().fold(backers, NodeSet::or);
        let (ballot, highest, handed_over) = (token, token, false);
        let won = Won { t0, ballot, highest, handed_over, deadline, least, voters, backers, may_hold };
        Some((Grant::united(parts, won)?, open))
    }

    /// They are lost, since the quorum was shut down.
    pub(crate) fn close(&self) {
        self.lose(LostReason::Closed);
    }

    /// Why they are lost, if they are: they end now where their time is over, whether or not a timer
    /// has said so. Who tells others that they are free releases them: not under a lock.
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

    /// Cancelled when these are over, however they end.
    pub(crate) const fn ending(&self) -> &CancellationToken {
        &self.over
    }

    pub(crate) fn round_timeout(&self) -> Tick {
        self.now() + self.rules.round_timeout
    }

    /// Waits until they are lost.
    pub(crate) async fn until_lost(&self) -> LostReason {
        super::watch::lost(self).await
    }

    /// Waits until they are over: why they were lost, or `None` where they were given up.
    #[cfg(feature = "blocking")]
    pub(crate) async fn outcome(&self) -> Option<LostReason> {
        super::watch::outcome(self).await
    }

    /// A token that is cancelled when they are lost.
    pub(crate) fn cancellation(self: &Arc<Self>) -> CancellationToken {
        super::watch::cancellation(self)
    }

    /// Sends renewals of what is due, at one moment.
    fn send_renewals(self: &Arc<Self>) -> Option<Batch> {
        let mut state = self.state();
        if let Some(key) = state.timers[RENEW].take() {
            self.leases.schedule.remove(key);
        }
        // Read before the first send: the nodes count from later than this.
        let t0 = self.now();
        let sent = state.kept.tenancy.renew(t0);
        if sent.is_empty() {
            self.arm(&mut state);
            return None;
        }
        // Sent under the lock: no renewal of a name follows its release.
        let grants = sent.iter().filter_map(|sent| state.kept.grant(sent.part));
        let renewals = Grant::renew_all(&self.leases.voters, grants);
        let renewals: Vec<_> = sent.into_iter().zip(renewals).collect();
        // Renewals heal nodes that knew nothing of the claims.
        renewals.iter().for_each(|(sent, renewing)| state.kept.tenancy.sent(sent.part, renewing.votes().sent()));
        self.arm(&mut state);
        Some(Batch { renewals, until: state.kept.tenancy.waits(t0, self.rules.round_timeout) })
    }

    /// Takes note of what one renewal came to, and returns that. Where it is nothing, it is sent
    /// again.
    fn renewed(self: &Arc<Self>, sent: Sent, renewing: &Renewing, renewal: Renewal, again: Again) -> Renewed {
        let mut state = self.state();
        let votes = renewing.votes();
        let doubted = self.leases.voters.hints.doubts().since(sent.t0);
        let heard = Heard { t0: sent.t0, renewal, votes: &votes, doubted };
        // The same number for all that were sent at one moment: they stay together.
        let pace = self.pace(again.from, || again.random);
        let renewed = state.kept.tenancy.renewed(sent, heard, pace, self.now());
        if let Renewed::Lost(reason) = renewed {
            state.failed = renewing.reports();
            self.ended_by(state, reason);
        } else {
            self.arm(&mut state);
        }
        renewed
    }

    /// All renewals of a batch were heard of, and this is what nodes said to one that did not
    /// succeed, if any.
    fn all_renewed(&self, failed: Vec<NodeReport>) {
        let mut state = self.state();
        if state.kept.tenancy.phase() == Phase::Held {
            state.failed = failed;
        }
    }

    fn ended_by(&self, mut state: MutexGuard<'_, State>, reason: LostReason) {
        let names = listed(&state.kept.names().keys().collect::<Vec<_>>());
        let since = state.kept.since();
        state.kept.forget_names();
        if let Some(key) = state.timers[RENEW].take() {
            self.leases.schedule.remove(key);
        }
        drop(state);
        // First: ten thousand releases take their time, and whoever holds these must stop now.
        self.ended.cancel();
        self.over.cancel();
        self.let_go(self.state(), reason == LostReason::Closed);
        // Last, and outside of the lock: whatever a recorder or a log does, all were told.
        self.all_freed(&since);
        since.iter().for_each(|_| self.leases.voters.meters.lost(self.rules.class, reason));
        tracing::warn!(names, locks = since.len(), reason = reason.as_str(), "{} lost", self.what);
    }

    /// Gives back what was lost: all of it, or what is past its deadline. The rest stays until its
    /// holder lets go, since the work under it may be ending still.
    fn let_go(&self, state: MutexGuard<'_, State>, all: bool) {
        let now = self.now();
        if let Phase::Lost(_) = state.kept.tenancy.phase() {
            self.give_back(state, |kept| if all { kept.take_all() } else { kept.take_expired(now) });
        }
    }

    /// Gives back on every node what its holder has given up.
    fn end(&self, mut state: MutexGuard<'_, State>) -> Freeing {
        let since = state.kept.since();
        state.kept.forget_names();
        let freeing = self.give_back(state, Kept::take_all);
        self.over.cancel();
        self.all_freed(&since);
        freeing
    }

    /// Takes out what has ended, and sends its releases. No renewal of it is sent from now on:
    /// releases need no lock.
    fn give_back<T>(&self, mut state: MutexGuard<'_, State>, take: T) -> Freeing
    where
        T: FnOnce(&mut Kept) -> Vec<(Grant, NodeSet)>,
    {
        // Before the timers go, by which a shutdown finds it: it waits until releases were sent.
        let open = self.leases.voters.open_cleanup();
        let taken = take(&mut state.kept);
        if state.kept.is_empty() {
            for key in std::mem::take(&mut state.timers).into_iter().flatten() {
                self.leases.schedule.remove(key);
            }
        }
        drop(state);
        let returned = Grant::give_back_all(&self.leases.voters, &taken);
        let freeing = freeing(&returned);
        drop((returned, open));
        freeing
    }

    fn all_freed(&self, since: &[Tick]) {
        since.iter().for_each(|since| self.freed(*since));
    }

    /// A lock is not held any more, for the metrics.
    fn freed(&self, since: Tick) {
        self.leases.voters.meters.freed(self.rules.class, self.now().since(since));
    }

    /// Sets the timers where something is due sooner than they are set for.
    fn arm(self: &Arc<Self>, state: &mut State) {
        let [renew, expire] = state.timers.map(|key| key.map(|(at, _)| at));
        let Timers { renew, expire } = state.kept.tenancy.timers(Timers { renew, expire });
        for (timer, at) in [(RENEW, renew), (EXPIRE, expire)] {
            if let Some(at) = at {
                self.set(state, timer, at);
            }
        }
    }

    /// Sets the timer of the next deadline, if anything is left.
    fn expire_next(self: &Arc<Self>) {
        let mut state = self.state();
        if state.timers[EXPIRE].is_some() {
            let at = state.kept.tenancy.expires();
            self.set(&mut state, EXPIRE, at);
        }
    }

    fn pace<R: FnOnce() -> u64>(&self, from: Tick, random: R) -> Pace<R> {
        self.leases.pace(&self.rules, from, random)
    }

    fn set(self: &Arc<Self>, state: &mut State, timer: usize, at: Tick) {
        let this: Weak<Self> = Arc::downgrade(self);
        let event: Event<dyn Timed> = if timer == RENEW { Event::Renew(this) } else { Event::Expire(this) };
        if let Some(key) = state.timers[timer].replace(self.leases.schedule.add(at, event)) {
            self.leases.schedule.remove(key);
        }
    }

    fn now(&self) -> Tick {
        self.leases.voters.host.now()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn freeing(returned: &[Returned]) -> Freeing {
    returned.iter().flat_map(|returned| returned.freeing.all().cloned()).collect()
}

/// What was granted was over before it could be added.
fn too_late(names: &[Name]) -> Error {
    let names = listed(names);
    let message = format!("cannot lock {names}: its validity ended before this process took note of the grant");
    Error::new(ErrorKind::Unavailable, message)
}

impl Watched for Locks {
    fn lost(&self) -> Option<LostReason> {
        self.state().kept.tenancy.lost(self.now())
    }

    fn deadline(&self) -> Option<Tick> {
        let state = self.state();
        matches!(state.kept.tenancy.phase(), Phase::Held).then(|| state.kept.tenancy.deadline())
    }

    fn time_is_over(&self) -> Option<LostReason> {
        let reason = self.lost()?;
        self.lose(reason);
        Some(reason)
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

    fn renew_by(&self) -> Tick {
        self.deadline().unwrap_or(Tick::NEVER)
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
            // Last, and outside of the lock: a recorder that blocks or panics keeps none of them
            // from being renewed again.
            ended.into_iter().for_each(|renewed| voters.meters.renewed(renewed));
        }
        .boxed()
    }

    /// A deadline's timer fired: all is lost, unless a renewal has moved it.
    fn deadline_reached(self: Arc<Self>) {
        let mut state = self.state();
        match state.kept.tenancy.deadline_reached(self.now()) {
            Expiry::Later(_) => drop(state),
            Expiry::Lost(reason) => self.ended_by(state, reason),
            Expiry::Over => self.let_go(state, false),
        }
        self.expire_next();
        // Between two timers it is not found by whoever looks for all leases.
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
