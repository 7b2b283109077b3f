//! One process of the demo: its workers contend for the lock until standard input ends.

use std::cell::RefCell;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
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
use crate::failure::Outcome;
use crate::histogram::Histogram;
use crate::output;
use crate::settings::Settings;
use crate::worker_processes;

const TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after a failure. Without this pause, workers would retry at full speed while no quorum
/// votes.
const PAUSE: Duration = Duration::from_millis(20);
const REPORT: Duration = Duration::from_millis(200);

/// The counts of all workers of a process, since the process started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) sections: u64,
    pub(super) overlaps: u64,
    pub(super) rejected_tokens: u64,
    pub(super) lost: u64,
    /// How many acquisitions timed out, or found no quorum.
    pub(super) failed: u64,
    pub(super) latencies: Histogram,
    pub(super) votes: Tally,
    /// How many locks nodes handed over to the next waiter.
    pub(super) handovers: u64,
}

impl worker_processes::Report for Report {
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
    let quorum = Settings::with_nodes(&args.nodes)?.builder()?.ttl(args.ttl).connect().await?;
    all_vote(&quorum, TIMEOUT).await;
    let report = RefCell::new(Report::default());
    let workers =
        Workers { quorum: &quorum, lock: LOCK, folder: &args.folder, pace: Pace::BUSY, stop, report: &report };
    tokio::select! {
        done = workers.contend(args.workers) => done?,
        told = telling(&report, &counters) => told?,
    }
    quorum.shutdown(Duration::from_secs(1)).await;
    tell(&report, &counters).await?;
    Ok(ExitCode::SUCCESS)
}

/// How workers spend their time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// How long most sections take.
    pub(super) usual: Duration,
    /// How long one section in `one_in` takes.
    pub(super) long: Duration,
    pub(super) one_in: u64,
    /// How long a worker rests between two sections.
    pub(super) pause: Duration,
}

impl Pace {
    /// Sections without a rest between them. Every tenth section takes a millisecond: in longer
    /// sections, overlaps are more likely to show.
    const BUSY: Self =
        Self { usual: Duration::ZERO, long: Duration::from_millis(1), one_in: 10, pause: Duration::ZERO };

    /// How long the next section takes, after `sections` earlier sections.
    const fn section(&self, sections: u64) -> Duration {
        if (sections + 1).is_multiple_of(self.one_in) { self.long } else { self.usual }
    }
}

pub(super) struct Workers<'a> {
    pub(super) quorum: &'a Quorum,
    pub(super) lock: &'a str,
    pub(super) folder: &'a Path,
    pub(super) pace: Pace,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) report: &'a RefCell<Report>,
}

impl Workers<'_> {
    /// Runs `count` workers until `stop` is true. Each acquires the lock, increments the counter
    /// and releases the lock, again and again.
    pub(super) async fn contend(&self, count: u32) -> io::Result<()> {
        join_all((0..count).map(|number| self.work(number))).await.into_iter().collect()
    }

    async fn work(&self, number: u32) -> io::Result<()> {
        // The host is part of the name: processes in different containers may have the same process
        // id.
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let counter = Counter::new(self.folder, &format!("{host}-{}-{number}", std::process::id()));
        let lock = self.quorum.lock(self.lock);
        let mut stop = self.stop.clone();
        while !*self.stop.borrow() {
            let acquired = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                acquired = timed(&lock) => acquired,
            };
            match acquired {
                Some((guard, took)) => self.hold(guard, took, &counter).await?,
                None => self.failed().await,
            }
            rest(self.pace.pause).await;
        }
        Ok(())
    }

    async fn failed(&self) {
        self.report.borrow_mut().failed += 1;
        sleep(PAUSE).await;
    }

    async fn hold(&self, guard: LockGuard, took: Duration, counter: &Counter) -> io::Result<()> {
        self.report.borrow_mut().latencies.record(took);
        self.section(&guard, counter).await?;
        // Do not count `Err`: no quorum confirmed the release, and it is unknown whether the lock
        // was lost.
        if let Ok(Released::AlreadyExpired) = guard.release().await {
            self.report.borrow_mut().lost += 1;
        }
        Ok(())
    }

    /// Does the work under the lock: enters the critical section, and counts an overlap if another
    /// worker is in its section.
    async fn section(&self, guard: &LockGuard, counter: &Counter) -> io::Result<()> {
        let inside = counter.enter()?;
        self.report.borrow_mut().overlaps += u64::from(inside.is_none());
        let takes = self.pace.section(self.report.borrow().sections);
        rest(takes).await;
        match counter.increment(guard.token())? {
            Increment::Done => self.report.borrow_mut().sections += 1,
            Increment::OldToken => self.report.borrow_mut().rejected_tokens += 1,
        }
        drop(inside);
        Ok(())
    }
}

/// Sleeps. Skips a sleep of zero, because Tokio would round it up to a millisecond.
async fn rest(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}

async fn timed(lock: &QuorumLock) -> Option<(LockGuard, Duration)> {
    let began = Instant::now();
    let guard = lock.acquire(TIMEOUT).await.ok()?;
    Some((guard, began.elapsed()))
}

/// Prints a report whenever [`REPORT`] has passed. Returns only if printing fails.
async fn telling(report: &RefCell<Report>, counters: &Counters) -> io::Result<()> {
    loop {
        sleep(REPORT).await;
        tell(report, counters).await?;
    }
}

async fn tell(report: &RefCell<Report>, counters: &Counters) -> io::Result<()> {
    report.borrow_mut().votes = tally(counters);
    report.borrow_mut().handovers = handovers(counters);
    let line = serde_json::to_string(&*report.borrow())?;
    output::say(&line).await
}

/// Becomes true when standard input ends: the main process has closed it or died.
fn end_of_input() -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    std::thread::spawn(move || {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        let _ = sender.send(true);
    });
    receiver
}
