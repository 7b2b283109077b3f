//! One process of the demo: several workers that contend for the lock until standard input ends.

use std::cell::RefCell;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use quorumlock::{LockGuard, Quorum, QuorumLock, Released};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::sleep;

use super::counter::{Counter, Increment};
use super::votes::{Tally, handovers, tally};
use super::{LOCK, all_vote};
use crate::cli::DemoWorker;
use crate::counters::Counters;
use crate::crew;
use crate::failure::Outcome;
use crate::histogram::Histogram;
use crate::output;
use crate::settings::Settings;

/// How long a worker waits for the lock at a time.
const TIMEOUT: Duration = Duration::from_secs(5);
/// After a failure, so that a quorum that is down is not asked at full speed.
const PAUSE: Duration = Duration::from_millis(20);
const REPORT: Duration = Duration::from_millis(200);
/// One section in so many takes a millisecond longer, so that an overlap would be seen.
const LINGER: u64 = 10;

/// What the workers of a process have done so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) sections: u64,
    pub(super) overlaps: u64,
    pub(super) rejected_tokens: u64,
    pub(super) lost: u64,
    /// Acquisitions that failed: timed out, or no quorum.
    pub(super) failed: u64,
    pub(super) latencies: Histogram,
    pub(super) votes: Tally,
    /// Locks that nodes handed over to the next waiter.
    pub(super) handovers: u64,
}

impl crew::Report for Report {
    fn add(&mut self, other: &Self) {
        self.sections += other.sections;
        self.overlaps += other.overlaps;
        self.rejected_tokens += other.rejected_tokens;
        self.lost += other.lost;
        self.failed += other.failed;
        self.handovers += other.handovers;
        self.latencies.add(&other.latencies);
        for (node, votes) in &other.votes {
            self.votes.entry(node.clone()).or_default().add(*votes);
        }
    }
}

pub(crate) async fn worker(args: DemoWorker) -> Outcome {
    let counters = Counters::install()?;
    let stop = end_of_input();
    let quorum = Settings::with_nodes(&args.nodes)?.builder().ttl(args.ttl).connect().await?;
    all_vote(&quorum, TIMEOUT).await;
    let report = Rc::new(RefCell::new(Report::default()));
    let workers = (0..args.workers).map(|number| contend(&quorum, &args.folder, number, &report, &stop));
    tokio::select! {
        done = join_all(workers) => done.into_iter().collect::<io::Result<()>>()?,
        told = telling(&report, &counters) => told?,
    }
    quorum.shutdown(Duration::from_secs(1)).await;
    tell(&report, &counters)?;
    Ok(ExitCode::SUCCESS)
}

/// Acquires, enters, increments and releases, until told to stop.
async fn contend(
    quorum: &Quorum,
    folder: &Path,
    number: u32,
    report: &RefCell<Report>,
    stop: &watch::Receiver<bool>,
) -> io::Result<()> {
    let counter = Counter::new(folder, &format!("{}-{number}", std::process::id()));
    let lock = quorum.lock(LOCK);
    let mut stopped = stop.clone();
    while !*stop.borrow() {
        let acquired = tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop) => break,
            acquired = timed(&lock) => acquired,
        };
        let Some((guard, took)) = acquired else {
            report.borrow_mut().failed += 1;
            sleep(PAUSE).await;
            continue;
        };
        report.borrow_mut().latencies.record(took);
        section(&guard, &counter, report).await?;
        // A release that no quorum confirmed is unclear, and not a loss.
        if let Ok(Released::AlreadyExpired) = guard.release().await {
            report.borrow_mut().lost += 1;
        }
    }
    Ok(())
}

async fn timed(lock: &QuorumLock) -> Option<(LockGuard, Duration)> {
    let began = Instant::now();
    let guard = lock.acquire(TIMEOUT).await.ok()?;
    Some((guard, began.elapsed()))
}

/// What happens under the lock. The witness is asked first: whoever is inside already is an
/// overlap.
async fn section(guard: &LockGuard, counter: &Counter, report: &RefCell<Report>) -> io::Result<()> {
    let inside = counter.enter()?;
    report.borrow_mut().overlaps += u64::from(inside.is_none());
    if report.borrow().sections.is_multiple_of(LINGER) {
        sleep(Duration::from_millis(1)).await;
    }
    match counter.increment(guard.token())? {
        Increment::Done => report.borrow_mut().sections += 1,
        Increment::OldToken => report.borrow_mut().rejected_tokens += 1,
    }
    drop(inside);
    Ok(())
}

/// Tells how things are, for ever.
async fn telling(report: &RefCell<Report>, counters: &Counters) -> io::Result<()> {
    loop {
        sleep(REPORT).await;
        tell(report, counters)?;
    }
}

fn tell(report: &RefCell<Report>, counters: &Counters) -> io::Result<()> {
    report.borrow_mut().votes = tally(counters);
    report.borrow_mut().handovers = handovers(counters);
    output::say(&serde_json::to_string(&*report.borrow())?)
}

/// True once standard input has ended: when the demo wants it to, and when the demo is gone.
fn end_of_input() -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    std::thread::spawn(move || {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        let _ = sender.send(true);
    });
    receiver
}
