//! A worker process of `bench contention`: workers that contend for one lock in the measured time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use futures::future::join_all;
use quorumlock::{LockGuard, LockOptions, QuorumLock, Released};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::critical_sections::Section;
use super::{SETTLE, TIMEOUT};
use crate::cli::bench::BenchWorker;
use crate::counters::Counters;
use crate::demo::all_vote;
use crate::failure::{Failure, Outcome};
use crate::histogram::Histogram;
use crate::output;
use crate::settings::Settings;
use crate::worker_processes;

const LOCK: &str = "quorumlock-bench";
/// The pause after a failure. Without this pause, workers would retry at full speed while no quorum
/// votes.
const PAUSE: Duration = Duration::from_millis(20);

/// A sleeping thread may wake up this much too late. So `rest` ends its sleep this much earlier,
/// and then polls the clock.
const SLACK: Duration = Duration::from_micros(150);

/// The report of a worker process. A process reports once when it is ready, and once at its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(super) ready: usize,
    /// How many critical sections each worker began in the window.
    pub(super) workers: Vec<u64>,
    pub(super) sections: Vec<Section>,
    pub(super) latencies: Histogram,
    /// How many locks ended before they were released.
    pub(super) lost: u64,
    pub(super) failed: u64,
    /// By how much the library's counters grew in the window. Each value is a sum over the labels
    /// `quorum` and `node`. The other labels are part of the key.
    pub(super) counters: BTreeMap<String, u64>,
}

impl worker_processes::Report for Report {
    fn add(&mut self, other: &Self) {
        self.ready += other.ready;
        self.workers.extend(&other.workers);
        self.sections.extend(&other.sections);
        self.latencies.add(&other.latencies);
        self.lost += other.lost;
        self.failed += other.failed;
        for (name, count) in &other.counters {
            *self.counters.entry(name.clone()).or_default() += count;
        }
    }
}

/// The measured time, by the machine's monotonic clock. Only sections that begin in this time count
/// for the rate.
#[derive(Clone, Copy, Debug)]
struct Window {
    begin: Duration,
    end: Duration,
}

/// The machine's monotonic clock, which all processes share. `Instant` does not promise that
/// processes can compare its values.
pub(super) fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

pub(crate) async fn worker(args: BenchWorker) -> Outcome {
    let counters = Counters::install()?;
    let mut orders = orders();
    let options = LockOptions::default().fair(!args.unfair);
    let quorum = Settings::with_nodes(&args.nodes)?.builder()?.options(options).connect().await?;
    all_vote(&quorum, SETTLE).await;
    tell(&Report { ready: 1, ..Report::default() }).await?;
    let Some(window) = opened(&mut orders).await else { return Ok(ExitCode::SUCCESS) };
    let report = RefCell::new(Report { ready: 1, ..Report::default() });
    let over = CancellationToken::new();
    let workers = (0..args.workers).map(|_| Worker { window, hold: args.hold, over: &over, report: &report });
    let working = join_all(workers.map(|worker| worker.contend(quorum.lock(LOCK))));
    let (_, counted) = tokio::join!(working, watched(window, &counters, &mut orders, &over));
    report.borrow_mut().counters = counted;
    quorum.shutdown(Duration::from_secs(1)).await;
    tell(&report.take()).await?;
    Ok(ExitCode::SUCCESS)
}

/// Stops the workers when the window or standard input ends. Returns the growth of the counters in
/// the window.
async fn watched(
    window: Window,
    counters: &Counters,
    orders: &mut watch::Receiver<Order>,
    over: &CancellationToken,
) -> BTreeMap<String, u64> {
    sleep(window.begin.saturating_sub(now())).await;
    let before = totals(counters);
    tokio::select! {
        () = sleep(window.end.saturating_sub(now())) => {}
        _ = orders.wait_for(|order| matches!(order, Order::Stop)) => {}
    }
    let after = totals(counters);
    over.cancel();
    let grown = |(name, count): (String, u64)| (before.get(&name).map_or(count, |before| count - before), name);
    after.into_iter().map(grown).map(|(count, name)| (name, count)).collect()
}

fn totals(counters: &Counters) -> BTreeMap<String, u64> {
    let mut totals = BTreeMap::new();
    counters.each(|key, count| {
        let labels = key
            .labels()
            .filter(|label| !matches!(label.key(), "quorum" | "node"))
            .map(|label| format!(" {}", label.value()));
        *totals.entry(format!("{}{}", key.name(), labels.collect::<String>())).or_default() += count;
    });
    totals
}

struct Worker<'a> {
    window: Window,
    hold: Duration,
    over: &'a CancellationToken,
    report: &'a RefCell<Report>,
}

impl Worker<'_> {
    /// Acquires, holds and releases the lock again and again, until the window ends.
    async fn contend(self, lock: QuorumLock) {
        let mut sections = 0;
        while !self.over.is_cancelled() {
            let asked = now();
            let acquired = tokio::select! {
                biased;
                () = self.over.cancelled() => None,
                acquired = lock.acquire(TIMEOUT) => Some(acquired),
            };
            let entered = now();
            let counts = entered >= self.window.begin;
            if counts {
                // Also record the wait of a worker that still waits when the window ends. Otherwise
                // the longest waits would be missing.
                self.report.borrow_mut().latencies.record(entered.saturating_sub(asked));
            }
            match acquired {
                None => break,
                Some(Ok(guard)) => {
                    sections += u64::from(counts && entered < self.window.end);
                    self.section(guard, entered).await;
                }
                Some(Err(_)) => {
                    self.report.borrow_mut().failed += 1;
                    sleep(PAUSE).await;
                }
            }
        }
        self.report.borrow_mut().workers.push(sections);
    }

    async fn section(&self, guard: LockGuard, entered: Duration) {
        rest(self.hold).await;
        let section = Section { entered: micros(entered), left: micros(now()) };
        self.report.borrow_mut().sections.push(section);
        // Do not count `Err`: no quorum confirmed the release, and it is unknown whether the lock
        // was lost.
        if let Ok(Released::AlreadyExpired) = guard.release().await {
            self.report.borrow_mut().lost += 1;
        }
    }
}

/// Waits for `time`. Tokio's timers are not used, because they may add two milliseconds.
async fn rest(time: Duration) {
    let until = now() + time;
    if let Some(most) = time.checked_sub(SLACK) {
        let _ = tokio::task::spawn_blocking(move || std::thread::sleep(most)).await;
    }
    while now() < until {
        tokio::task::yield_now().await;
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

async fn tell(report: &Report) -> Result<(), Failure> {
    let line = serde_json::to_string(report).map_err(|error| Failure::internal(error.to_string()))?;
    Ok(output::say(&line).await?)
}

/// An order of the benchmark's main process to this worker process.
#[derive(Clone, Copy, Debug)]
enum Order {
    Wait,
    Work(Window),
    Stop,
}

/// Waits for `Order::Work`, and returns its window. `None` if standard input ends before this
/// order.
async fn opened(orders: &mut watch::Receiver<Order>) -> Option<Window> {
    let order = orders.wait_for(|order| !matches!(order, Order::Wait)).await.ok()?;
    if let Order::Work(window) = *order { Some(window) } else { None }
}

/// Starts a thread that reads orders from standard input. The end of the input means `Stop`: the
/// main process has finished or died.
fn orders() -> watch::Receiver<Order> {
    let (sender, receiver) = watch::channel(Order::Wait);
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            let mut moments = line.split(' ').filter_map(|text| text.parse().ok()).map(Duration::from_micros);
            if let (Some(begin), Some(end)) = (moments.next(), moments.next()) {
                sender.send_replace(Order::Work(Window { begin, end }));
            }
        }
        sender.send_replace(Order::Stop);
    });
    receiver
}
