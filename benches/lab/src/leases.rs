//! `leases`: many locks held by one process, and what keeping them costs.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::value_parser;
use futures::stream::{self, StreamExt, TryStreamExt};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use quorumlock::{LockGuard, Quorum};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use crate::contender::{Quorums, Result, all_vote};
use crate::servers::Server;
use crate::stage::Stage;
use crate::table::rounded;
use crate::turn::{client_cpu, client_memory};

const NODES: usize = 5;
/// How long to wait for a lock that nobody else wants.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How many locks are acquired or released at a time.
const AT_A_TIME: usize = 1_024;
/// How many operations the library puts into one script call.
const BATCH: f64 = 128.0;
/// How often to read the number of renewals.
const LOOK: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub struct Args {
    /// How many locks
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=10_000_000))]
    leases: u32,
    /// How long nodes hold a lock unless it is renewed
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    ttl: Duration,
    /// How long to hold the locks once all are acquired. Renewals come every third of the ttl
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = value_parser!(u32).range(1..=86_400))]
    seconds: u32,
}

pub async fn measure(args: &Args) -> Result<()> {
    let renewals = Renewals::count()?;
    let mut stage = Stage::empty(NODES)?;
    let quorum = Quorums::builder(&stage.ports()).ttl(args.ttl).connect().await?;
    all_vote(&quorum).await?;
    // The first tenth also allocates memory for acquiring, which does not count as memory of
    // leases.
    let few = args.leases.div_ceil(10);
    let mut guards = held(&quorum, 0..few).await?;
    let before = client_memory();
    guards.extend(held(&quorum, few..args.leases).await?);
    let grown = client_memory().zip(before).map(|(now, before)| now.saturating_sub(before) as f64 / 1_024.0);
    let kept = Kept::watch(&mut stage.servers, &renewals, Duration::from_secs(args.seconds.into())).await?;
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    // Ignore errors: lost locks cannot be released.
    stream::iter(guards).map(LockGuard::release).buffer_unordered(AT_A_TIME).map(drop).collect::<()>().await;
    quorum.shutdown(Duration::from_secs(1)).await;
    let total: u64 = kept.renewals.iter().sum();
    let fullest = kept.renewals.iter().max().copied().unwrap_or_default();
    let found = json!({
        "nodes": NODES,
        "leases": args.leases,
        "lost": lost,
        "seconds": rounded(kept.took.as_secs_f64()),
        // The share of one core.
        "client_share": rounded(kept.cpu.as_secs_f64() / kept.took.as_secs_f64()),
        "kib_a_lease": grown.map(|kib| rounded(kib / f64::from(args.leases - few))),
        "renewals": total,
        "renewals_peak_to_mean": rounded(fullest as f64 * kept.renewals.len() as f64 / total as f64),
        // The calls to all nodes, and this number as a multiple of the calls that full batches
        // need.
        "script_calls": kept.script_calls,
        "script_calls_to_full": rounded(kept.script_calls as f64 * BATCH / (total as f64 * NODES as f64)),
    });
    println!("{found:#}");
    Ok(())
}

async fn held(quorum: &Quorum, leases: Range<u32>) -> Result<Vec<LockGuard>> {
    let acquire = async |number| quorum.lock(format!("lease/{number}")).acquire(TIMEOUT).await;
    Ok(stream::iter(leases).map(acquire).buffer_unordered(AT_A_TIME).try_collect().await?)
}

/// What it cost to keep the leases.
struct Kept {
    took: Duration,
    cpu: Duration,
    /// How many renewals there were in each second.
    renewals: Vec<u64>,
    script_calls: u64,
}

impl Kept {
    async fn watch(servers: &mut [Server], count: &Renewals, length: Duration) -> Result<Self> {
        let calls_before = script_calls(servers)?;
        let (began, cpu_before, mut last) = (Instant::now(), client_cpu(), count.0.load(Relaxed));
        let mut renewals = Vec::new();
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look.tick().await;
        while began.elapsed() < length {
            look.tick().await;
            let now = count.0.load(Relaxed);
            renewals.push(now - last);
            last = now;
        }
        let (took, cpu) = (began.elapsed(), client_cpu().saturating_sub(cpu_before));
        Ok(Self { took, cpu, renewals, script_calls: script_calls(servers)? - calls_before })
    }
}

/// The script calls that all servers have carried out.
fn script_calls(servers: &mut [Server]) -> std::io::Result<u64> {
    servers.iter_mut().map(|server| Ok(server.counts()?.script_calls())).sum()
}

/// A recorder that counts renewals, from the library's metrics, and ignores all other metrics.
#[derive(Clone)]
struct Renewals(Arc<AtomicU64>);

impl Renewals {
    /// Installs the recorder for the whole process.
    fn count() -> Result<Self> {
        let this = Self(Arc::default());
        metrics::set_global_recorder(this.clone())?;
        Ok(this)
    }
}

impl Recorder for Renewals {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match key.name() {
            "quorumlock_renewals_total" => Counter::from_arc(self.0.clone()),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
