//! The lease monitor: one loop for each `Quorum`. The loop renews leases, ends leases, and sends
//! releases again, each at its due time.
//!
//! The loop has only weak references to leases, so a dropped lease is not renewed. The loop does
//! not wait for the nodes' replies, so it ends leases on time even if every node hangs. After a
//! stall of this process, many renewals are due at once. The loop sends those with the nearest
//! deadlines first, because the queue of each node is bounded: requests that do not fit, or that
//! wait too long, fail. User code that the loop calls may panic: metrics recorders, logs and nodes.
//! A panic ends the event in which it happened, but not the loop.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::held::Leases;
use super::renewal_queue::RenewalQueue;
use super::retry_pauses;
use super::runtime::RuntimeHandle;
use super::schedule::{Event, Schedule, Timed};
use crate::host::{Host, sleep_until};
#[cfg(feature = "testing")]
use crate::node::Name;
use crate::protocol::hello::{self, Greeter, Holdings};
use crate::protocol::{Doubts, PendingRelease, ReleaseTasks, Voters};
use crate::rules::{LostReason, NodeSet, Tick};

/// The most renewals under way at a time. One node can have 2,048 operations under way, too (16
/// calls of 128). So a lower limit would slow renewals down if round trips are long. The limit is
/// half of the length of a node's queue, in which all renewals of a session count as one.
const RENEWALS: usize = 2_048;
/// While at least this many operations of large renewals are under way, no further large renewal
/// begins. With too many operations at a time, nodes would be busy for longer than a call may take.
/// All renewals of a session are sent together, and two sessions of the largest size fit.
const OPERATIONS: usize = 16_384;
/// A renewal is large if it has more operations than this. So all small renewals under way have at
/// most [`OPERATIONS`] operations together.
const SMALL: usize = OPERATIONS / RENEWALS;

impl Leases {
    /// Makes the leases of `voters`, and starts their loop.
    pub(crate) fn start(voters: Arc<Voters>, pending: mpsc::Receiver<Arc<dyn PendingRelease>>) -> Arc<Self> {
        let schedule = Arc::new(Schedule::new());
        let closing = CancellationToken::new();
        let host = voters.host.clone();
        let (doubts, release_tasks) = (voters.wakeups.doubts.clone(), voters.release_tasks.clone());
        let home = Arc::<RuntimeHandle>::default();
        let (resident, work) = (
            RuntimeHandle::resident(home.clone()),
            run(host.clone(), schedule.clone(), doubts, release_tasks, pending, closing.clone()),
        );
        host.spawn(Box::pin(work.map(|()| resident.leaves())));
        let phase = host.random();
        let (closed, others) = (AtomicBool::new(false), AtomicU64::new(0));
        let guard = closing.clone().drop_guard();
        let leases = Arc::new(Self { voters, home, schedule, closed, others, phase, _closing: guard });
        if leases.voters.have_lists() {
            let greeter = Greeter::new(&leases.voters);
            host.spawn(Box::pin(hello::run(host.clone(), greeter, Arc::downgrade(&leases), closing)));
        }
        leases
    }

    /// How many timers are set, for tests that look for leaks.
    #[cfg(feature = "unstable")]
    pub(crate) fn timers(&self) -> usize {
        self.schedule.len()
    }

    /// Loses the leases on `name`. Returns whether there were any.
    #[cfg(feature = "testing")]
    pub(crate) fn lose(&self, name: &Name, reason: LostReason) -> bool {
        let held = |lease: &Arc<dyn Timed>| lease.holds(name);
        let leases: Vec<_> = self.schedule.leases().iter().filter_map(Weak::upgrade).filter(held).collect();
        leases.iter().for_each(|lease| lease.lose(reason));
        !leases.is_empty()
    }

    /// Loses every live lease. If a claim was sent before this call, its lease is lost even if the
    /// lease begins later. After a shutdown, every lease that begins is lost.
    pub(crate) fn lose_all(&self, reason: LostReason) {
        match reason {
            LostReason::Closed => self.closed.store(true, Ordering::Release),
            _ => self.others.store(moment(self.voters.host.now()), Ordering::Release),
        }
        for lease in self.schedule.leases().iter().filter_map(Weak::upgrade) {
            // A log or a recorder may panic for one lease. The other leases must be lost all the
            // same.
            let _ = catch_unwind(AssertUnwindSafe(|| lease.lose(reason)));
        }
    }

    /// Why all leases were lost at or after `t0`; `None` if they were not. If they were, a lease
    /// that was claimed at `t0` is lost too.
    pub(super) fn lost_since(&self, t0: Tick) -> Option<LostReason> {
        if self.closed.load(Ordering::Acquire) {
            return Some(LostReason::Closed);
        }
        (moment(t0) <= self.others.load(Ordering::Acquire)).then_some(LostReason::OtherList)
    }

    /// Like [`lost_since`](Self::lost_since), for a session that began at `since`. A session that
    /// began at the very moment of the loss is not lost: none of its locks was claimed before the
    /// loss.
    pub(super) fn lost_after(&self, since: Tick) -> Option<LostReason> {
        self.lost_since(since)
            .filter(|reason| *reason == LostReason::Closed || moment(since) < self.others.load(Ordering::Acquire))
    }
}

impl Holdings for Leases {
    fn voters(&self) -> &Arc<Voters> {
        &self.voters
    }

    fn lose_all(&self, reason: LostReason) {
        self.lose_all(reason);
    }
}

/// A moment as a number above zero, because `Leases::others` uses zero for "never".
fn moment(at: Tick) -> u64 {
    u64::try_from(at.since_origin().as_nanos()).unwrap_or(u64::MAX).saturating_add(1)
}

async fn run(
    host: Arc<dyn Host>,
    schedule: Arc<Schedule<dyn Timed>>,
    doubts: Arc<Doubts>,
    release_tasks: Arc<ReleaseTasks>,
    mut pending: mpsc::Receiver<Arc<dyn PendingRelease>>,
    closing: CancellationToken,
) {
    let reaping = retry_pauses::schedule(&mut pending, &host, &schedule);
    tokio::pin!(reaping);
    let (mut renewals, mut operations, mut turns) = (FuturesUnordered::new(), 0, RenewalQueue::new());
    loop {
        // Handle replies first: if a reply moves a deadline, it must do so before the event of the
        // old deadline is handled.
        while let Some(ended) = renewals.next().now_or_never().flatten() {
            operations -= ended;
        }
        let now = host.now();
        // A shutdown finds leases by their events in the table, and `due` removes events. So while
        // this code works on such leases, `open` makes a shutdown wait.
        let open = release_tasks.begin();
        let (due, next) = schedule.due(now);
        due.into_iter().filter_map(handled).for_each(|(lease, by, large)| turns.wait(lease, by, large));
        while renewals.len() < RENEWALS
            && let Some(lease) = turns.next(operations < OPERATIONS)
        {
            if let Some((sends, renewal)) = renewed(lease) {
                let counted = if sends > SMALL { sends } else { 0 };
                operations += counted;
                renewals.push(renewal.map(move |()| counted));
            }
        }
        drop(open);
        tokio::select! {
            biased;
            () = closing.cancelled() => return,
            () = schedule.changed() => {}
            nodes = doubts.next() => doubted(&schedule, nodes),
            () = sleep_until(&host, next), if next != Tick::NEVER => {}
            Some(ended) = renewals.next(), if !renewals.is_empty() => operations -= ended,
            () = &mut reaping => return,
        }
    }
}

/// Passes the doubted nodes on to all leases.
fn doubted(schedule: &Schedule<dyn Timed>, nodes: NodeSet) {
    for lease in schedule.leases().iter().filter_map(Weak::upgrade) {
        lease.doubted(nodes);
    }
}

/// Begins to renew a lease. Also returns how many operations the renewal sends. Catches a panic.
fn renewed(lease: Weak<dyn Timed>) -> Option<(usize, impl Future<Output = ()> + use<>)> {
    let begin = || lease.upgrade().map(|lease| (lease.sends(), lease.renewal()));
    let (sends, renewal) = catch_unwind(AssertUnwindSafe(begin)).ok().flatten()?;
    Some((sends, AssertUnwindSafe(renewal).catch_unwind().map(drop)))
}

/// Handles a due event. Does not begin a renewal that is due, but returns the lease, its deadline,
/// and whether the renewal is large. Catches a panic.
fn handled(event: Event<dyn Timed>) -> Option<(Weak<dyn Timed>, Tick, bool)> {
    catch_unwind(AssertUnwindSafe(|| handle(event))).ok().flatten()
}

fn handle(event: Event<dyn Timed>) -> Option<(Weak<dyn Timed>, Tick, bool)> {
    match event {
        Event::Renew(lease) => {
            let held = lease.upgrade()?;
            return Some((lease, held.deadline().unwrap_or(Tick::NEVER), held.sends() > SMALL));
        }
        Event::Expire(lease) => {
            if let Some(lease) = lease.upgrade() {
                lease.deadline_reached();
            }
        }
        Event::Release(release) => release.again(),
    }
    None
}

#[cfg(test)]
mod tests;
