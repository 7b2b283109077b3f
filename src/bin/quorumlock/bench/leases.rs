//! `quorumlock bench leases`: many locks held by one process, and what keeping them costs.

use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt, TryStreamExt};
use quorumlock::{LockGuard, Quorum};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use super::progress::Progress;
use super::target::{Target, name};
use super::throughput::cpu;
use super::{TIMEOUT, ratio, rounded};
use crate::cli::bench::Leases;
use crate::counters::Counters;
use crate::failure::{Failure, Outcome};
use crate::output::{self, aligned_rows, grouped};

/// How many are acquired or released at a time.
const AT_A_TIME: usize = 1_024;
/// How many operations the library puts into one script call.
const BATCH: f64 = 128.0;
/// How often is looked how many were renewed.
const LOOK: Duration = Duration::from_secs(1);

pub(super) async fn measured(args: &Leases) -> Outcome {
    let counters = Counters::install()?;
    let mut target = Target::set(&args.place)?;
    target.settings.ttl = args.ttl.or(target.settings.ttl);
    let quorum = target.connected().await?;
    let progress = Progress::steps("acquired", args.leases.into());
    // What acquiring takes by itself is there by then, and is no lease's.
    let few = args.leases.div_ceil(10);
    let mut guards = held(&quorum, 0..few, &progress).await?;
    let before = memory();
    guards.extend(held(&quorum, few..args.leases, &progress).await?);
    let memory = Grown::since(before, args.leases - few);
    drop(progress);
    let kept = Kept::watch(&target, &counters, Duration::from_secs(u64::from(args.seconds))).await?;
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    released(guards).await;
    quorum.shutdown(Duration::from_secs(1)).await;
    let summary = Summary { leases: args.leases, nodes: target.settings.nodes.len(), memory, lost, kept };
    summary.told(args.json).await?;
    Ok(ExitCode::SUCCESS)
}

async fn held(quorum: &Quorum, leases: Range<u32>, progress: &Progress) -> Result<Vec<LockGuard>, Failure> {
    let acquire = async |number| {
        let guard = quorum.lock(name(format_args!("lease/{number}"))).acquire(TIMEOUT).await;
        progress.step();
        guard
    };
    Ok(stream::iter(leases).map(acquire).buffer_unordered(AT_A_TIME).try_collect().await?)
}

/// Those that were lost cannot be released.
async fn released(guards: Vec<LockGuard>) {
    let progress = Progress::steps("released", guards.len() as u64);
    let release = async |guard: LockGuard| {
        let _ = guard.release().await;
        progress.step();
    };
    stream::iter(guards).map(release).buffer_unordered(AT_A_TIME).collect::<()>().await;
}

/// What it cost to keep them.
struct Kept {
    took: Duration,
    cpu: Duration,
    /// How many renewals there were in each second.
    renewals: Vec<u64>,
    /// Of all nodes; of servers of our own alone.
    script_calls: Option<u64>,
}

impl Kept {
    async fn watch(target: &Target, counters: &Counters, length: Duration) -> Result<Self, Failure> {
        let progress = Progress::time("held", length);
        let (began, cpu_before, calls_before) = (Instant::now(), cpu(), target.script_calls()?);
        let (mut last, mut renewals) = (renewed(counters), Vec::new());
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look.tick().await;
        while began.elapsed() < length {
            look.tick().await;
            let now = renewed(counters);
            renewals.push(now - last);
            last = now;
            progress.tick();
        }
        let (took, cpu) = (began.elapsed(), cpu().saturating_sub(cpu_before));
        let script_calls = target.script_calls()?.zip(calls_before).map(|(after, before)| after.saturating_sub(before));
        Ok(Self { took, cpu, renewals, script_calls })
    }

    fn total(&self) -> u64 {
        self.renewals.iter().sum()
    }

    /// Of the fullest second, to that of a mean one.
    fn peak(&self) -> Option<f64> {
        let fullest = *self.renewals.iter().max()?;
        ratio(fullest as f64 * self.renewals.len() as f64, self.total() as f64)
    }
}

fn renewed(counters: &Counters) -> u64 {
    let mut total = 0;
    counters.each(|key, count| {
        if key.name() == "quorumlock_renewals_total" {
            total += count;
        }
    });
    total
}

struct Summary {
    leases: u32,
    nodes: usize,
    memory: Option<Grown>,
    lost: usize,
    kept: Kept,
}

impl Summary {
    /// The CPU time of this process, as a share of one core's.
    fn share(&self) -> f64 {
        ratio(self.kept.cpu.as_secs_f64(), self.kept.took.as_secs_f64()).unwrap_or_default()
    }

    fn kib(&self) -> Option<f64> {
        let grown = self.memory?;
        ratio(grown.bytes as f64 / 1_024.0, f64::from(grown.leases))
    }

    /// Script calls of a node, to those that would do if all were full.
    fn calls(&self) -> Option<f64> {
        let full = self.kept.total() as f64 / BATCH * self.nodes as f64;
        ratio(self.kept.script_calls? as f64, full)
    }

    async fn told(&self, as_json: bool) -> Result<(), Failure> {
        if as_json {
            return Ok(output::say(&self.json().to_string()).await?);
        }
        Ok(output::say(&aligned_rows(&self.rows()).join("\n")).await?)
    }

    fn json(&self) -> Value {
        json!({
            "nodes": self.nodes,
            "leases": self.leases,
            "lost": self.lost,
            "seconds": rounded(self.kept.took.as_secs_f64()),
            "client_share": rounded(self.share()),
            "kib_a_lease": self.kib().map(rounded),
            "renewals": self.kept.total(),
            "renewals_peak_to_mean": self.kept.peak().map(rounded),
            "script_calls": self.kept.script_calls,
            "script_calls_to_full": self.calls().map(rounded),
        })
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let known = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.2}"));
        let seconds = self.kept.took.as_secs();
        [
            (
                "leases",
                grouped(self.leases.into()),
                format!("held for {seconds} s, renewed {} times in all", grouped(self.kept.total())),
            ),
            ("lost", grouped(self.lost as u64), "of them ended before they were released".to_owned()),
            ("CPU", format!("{:.3}", self.share()), "of a core, of this process".to_owned()),
            ("memory", known(self.kib()), "KiB of this process for each".to_owned()),
            (
                "script calls",
                known(self.calls()),
                format!("of a node, to full ones of {BATCH} operations (of servers of our own)"),
            ),
            ("in step", known(self.kept.peak()), "renewals of the fullest second, to the mean".to_owned()),
        ]
        .map(|(name, value, what)| vec![name.to_owned(), value, what])
        .into()
    }
}

/// By how much this process grew with so many more leases, where that is known.
#[derive(Clone, Copy)]
struct Grown {
    bytes: u64,
    leases: u32,
}

impl Grown {
    fn since(before: Option<u64>, leases: u32) -> Option<Self> {
        Some(Self { bytes: memory()?.saturating_sub(before?), leases })
    }
}

/// The memory of this process that is in use, in bytes, where the system says it.
pub(super) fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Some(kib? * 1_024)
}
