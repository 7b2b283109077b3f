//! One turn of one lock: makes a number of pairs, and measures their times and costs. A pair is an
//! acquisition and its release.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::contender::{Lock, Result, Took};
use crate::servers::{Counts, Server, field, settled};

/// A pair that takes longer counts as failed.
const LONGEST: Duration = Duration::from_secs(10);

/// The work of a turn.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// One task, another name each time.
    Fresh { pairs: u32 },
    /// One task, one name.
    Again { pairs: u32 },
    /// Many tasks, each with a name of its own.
    Crowd { tasks: u32, each: u32 },
}

impl Work {
    /// A tenth of this work, to warm up.
    const fn tenth(self) -> Self {
        match self {
            Self::Fresh { pairs } => Self::Fresh { pairs: pairs.div_ceil(10) },
            Self::Again { pairs } => Self::Again { pairs: pairs.div_ceil(10) },
            Self::Crowd { tasks, each } => Self::Crowd { tasks, each: each.div_ceil(10) },
        }
    }
}

thread_local! {
    /// The next unused number for owners and names. One thread makes all turns.
    static USED: Cell<u64> = const { Cell::new(0) };
}

/// Reserves `count` unused numbers, and returns the first. Each task of a crowd takes a block.
fn once(count: u64) -> u64 {
    USED.replace(USED.get() + count)
}

/// Figures of a turn by their names.
pub type Figures = BTreeMap<&'static str, f64>;

/// Does a tenth of the work to warm up, and then measures the whole work.
pub async fn measured(lock: &Arc<Lock>, work: Work, servers: &mut [Server]) -> Result<Figures> {
    done(lock, work.tenth()).await?;
    let before = settled(servers)?;
    let (began, client) = (Instant::now(), client_cpu());
    let took = done(lock, work).await?;
    let (passed, client) = (began.elapsed(), client_cpu().saturating_sub(client));
    let after = settled(servers)?;
    let mut figures = latencies(&took);
    let pairs = took.len() as f64;
    figures.insert("pairs_per_second", pairs / passed.as_secs_f64());
    figures.insert("client_cpu_us", micros(client) / pairs);
    figures.extend(of_nodes(&before, &after, pairs));
    Ok(figures)
}

/// Does the work, and returns how long pairs took.
pub async fn unmeasured(lock: &Arc<Lock>, work: Work) -> Result<Figures> {
    Ok(latencies(&done(lock, work).await?))
}

/// Makes one pair, with a new name.
pub async fn first(lock: &Arc<Lock>) -> Result<()> {
    let number = once(1);
    lock.drive(lock.pair(&lock.name(number), number)).await.map(drop)
}

/// Makes one pair after the other until `length` is over. The figure `failed` counts failed pairs.
pub async fn during(lock: &Arc<Lock>, length: Duration) -> Result<Figures> {
    let began = Instant::now();
    let (mut took, mut failed) = (Vec::new(), 0_u32);
    while began.elapsed() < length {
        let number = once(1);
        let name = lock.name(number);
        match lock.drive(timeout(LONGEST, lock.pair(&name, number))).await {
            Ok(Ok(one)) => took.push(one),
            Ok(Err(_)) | Err(_) => failed += 1,
        }
    }
    let mut figures = latencies(&took);
    figures.insert("failed", f64::from(failed));
    Ok(figures)
}

async fn done(lock: &Arc<Lock>, work: Work) -> Result<Vec<Took>> {
    match work {
        Work::Fresh { pairs } => lock.drive(alone(lock, pairs, |number| lock.name(number))).await,
        Work::Again { pairs } => lock.drive(alone(lock, pairs, |_| lock.name("again"))).await,
        Work::Crowd { tasks, each } => lock.drive(crowd(lock, tasks, each)).await,
    }
}

async fn alone(lock: &Lock, pairs: u32, name: impl Fn(u64) -> String) -> Result<Vec<Took>> {
    let mut took = Vec::with_capacity(pairs as usize);
    for _ in 0..pairs {
        let number = once(1);
        took.push(lock.pair(&name(number), number).await?);
    }
    Ok(took)
}

async fn crowd(lock: &Arc<Lock>, tasks: u32, each: u32) -> Result<Vec<Took>> {
    let mut crowd = JoinSet::new();
    for task in 0..tasks {
        let (lock, first) = (lock.clone(), once(u64::from(each)));
        crowd.spawn(async move {
            let name = lock.name(format_args!("crowd/{task}"));
            let mut took = Vec::with_capacity(each as usize);
            for number in first..first + u64::from(each) {
                took.push(lock.pair(&name, number).await?);
            }
            Ok::<_, crate::contender::Failed>(took)
        });
    }
    let mut took = Vec::with_capacity((tasks * each) as usize);
    while let Some(one) = crowd.join_next().await {
        took.extend(one??);
    }
    Ok(took)
}

/// The times of pairs, in milliseconds.
fn latencies(took: &[Took]) -> Figures {
    let of = |part: fn(Took) -> Duration| {
        let mut all: Vec<_> = took.iter().copied().map(part).collect();
        all.sort_unstable();
        all
    };
    let (acquire, release, pair) = (of(|took| took.acquire), of(|took| took.release), of(Took::pair));
    Figures::from([
        ("acquire_p50_ms", percentile(&acquire, 0.5)),
        ("acquire_p99_ms", percentile(&acquire, 0.99)),
        ("release_p50_ms", percentile(&release, 0.5)),
        ("release_p99_ms", percentile(&release, 0.99)),
        ("pair_p50_ms", percentile(&pair, 0.5)),
        ("pair_p99_ms", percentile(&pair, 0.99)),
    ])
}

/// The percentile `share` of the sorted values, in milliseconds; NaN without values.
fn percentile(sorted: &[Duration], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil().max(1.0) as usize;
    sorted.get(rank - 1).map_or(f64::NAN, |sample| sample.as_secs_f64() * 1e3)
}

/// For each pair: the CPU time of all nodes together, and the commands and script calls of a node.
fn of_nodes(before: &[Counts], after: &[Counts], pairs: f64) -> Figures {
    let sum = |of: fn(&Counts) -> f64| {
        after.iter().zip(before).map(|(after, before)| of(after) - of(before)).sum::<f64>() / pairs
    };
    let nodes = after.len() as f64;
    Figures::from([
        ("node_cpu_us", sum(|counts| micros(counts.cpu))),
        ("commands_a_node", sum(|counts| counts.total() as f64) / nodes),
        ("script_calls_a_node", sum(|counts| counts.script_calls() as f64) / nodes),
    ])
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The CPU time of this process, all threads together.
pub fn client_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The resident memory of this process in bytes, if the system reports it.
pub fn client_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = field(&status, "VmRSS")?.strip_suffix("kB")?.trim().parse::<u64>().ok();
    Some(kib? * 1_024)
}
