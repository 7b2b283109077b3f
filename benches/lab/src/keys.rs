//! `keys`: how much nodes store for names that are used once, such as names of orders.

use std::time::{Duration, Instant};

use clap::value_parser;
use futures::stream::{FuturesUnordered, StreamExt};
use quorumlock::Quorum;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use crate::contender::{Quorums, Result, all_vote};
use crate::servers::{Server, field};
use crate::stage::Stage;
use crate::table::rounded;
use crate::turn::client_memory;

const NODES: usize = 5;
/// How long to wait for a lock that nobody else wants.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often to start acquiring the names that are due.
const TICK: Duration = Duration::from_millis(2);
/// How often to measure the nodes.
const LOOK: Duration = Duration::from_secs(1);
/// How many names may be in use at a time. If more are due, the nodes do not keep up, and the rate
/// is lower than --rate.
const UNDER_WAY: usize = 4_096;
/// How many samples there must be to say whether something grows.
const FEWEST: usize = 20;

#[derive(clap::Args)]
pub struct Args {
    /// How many fresh names a second
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// How many minutes to run, such as 0.5
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    minutes: f64,
    /// The ttl of the locks. Nodes keep a name for this ttl and 105 s more. To show whether nodes
    /// keep more and more, a run must last for more than twice that sum
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    ttl: Duration,
}

pub async fn measure(args: &Args) -> Result<()> {
    let mut stage = Stage::empty(NODES)?;
    let quorum = Quorums::builder(&stage.ports()).ttl(args.ttl).connect().await?;
    all_vote(&quorum).await?;
    let servers = &mut stage.servers;
    let empty = Kept::now(servers)?;
    let mut samples = Vec::new();
    let look = || {
        samples.push(Kept::now(servers)?);
        Ok(())
    };
    let used = used(&quorum, args, look).await?;
    let last = Kept::now(servers)?;
    samples.push(last);
    quorum.shutdown(Duration::from_secs(1)).await;
    let highest = samples.iter().copied().fold(Kept::default(), Kept::most);
    let growth = |figure: fn(&Kept) -> Option<u64>| {
        let figures: Vec<_> = samples.iter().filter_map(|kept| Some(figure(kept)? as f64)).collect();
        growth(&figures).map(rounded)
    };
    let seconds = used.took.as_secs_f64();
    let found = json!({
        "nodes": NODES,
        "names": used.names,
        "failed": used.failed,
        "seconds": rounded(seconds),
        "names_per_second": rounded(used.names as f64 / seconds),
        "keys": last.keys,
        "keys_highest": highest.keys,
        "keys_growth": growth(|kept| Some(kept.keys)),
        "used_memory": last.memory,
        "used_memory_highest": highest.memory,
        "used_memory_empty": empty.memory,
        "used_memory_growth": growth(|kept| Some(kept.memory)),
        "client_memory": last.client,
        "client_memory_growth": growth(|kept| kept.client),
    });
    println!("{found:#}");
    Ok(())
}

/// The result of a run.
#[derive(Default)]
struct Used {
    names: u64,
    /// Pairs that failed. The keys that they left behind are counted, too.
    failed: u64,
    took: Duration,
}

/// Acquires and releases names that nobody used before, at `rate`, and calls `look` once a second.
async fn used(quorum: &Quorum, args: &Args, mut look: impl FnMut() -> Result<()>) -> Result<Used> {
    let (began, length) = (Instant::now(), Duration::try_from_secs_f64(args.minutes * 60.0)?);
    let mut used = Used::default();
    let mut under_way = FuturesUnordered::new();
    let [mut tick, mut second] = [TICK, LOOK].map(interval);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    second.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while began.elapsed() < length || !under_way.is_empty() {
        tokio::select! {
            biased;
            _ = second.tick() => look()?,
            _ = tick.tick() => {
                let due = (began.elapsed().min(length).as_secs_f64() * f64::from(args.rate)) as u64;
                while used.names < due && under_way.len() < UNDER_WAY {
                    under_way.push(once(quorum, used.names));
                    used.names += 1;
                }
            }
            Some(done) = under_way.next() => used.failed += u64::from(done.is_err()),
        }
    }
    used.took = began.elapsed();
    Ok(used)
}

async fn once(quorum: &Quorum, number: u64) -> Result<()> {
    quorum.lock(format!("orders/{number}")).acquire(TIMEOUT).await?.release().await?;
    Ok(())
}

/// The most keys and the most memory of any node, and the memory of this process.
#[derive(Clone, Copy, Default)]
struct Kept {
    keys: u64,
    /// `used_memory`, in bytes.
    memory: u64,
    /// The memory of this process in bytes, if the system reports it.
    client: Option<u64>,
}

impl Kept {
    fn now(servers: &mut [Server]) -> Result<Self> {
        let client = Self { client: client_memory(), ..Self::default() };
        servers.iter_mut().try_fold(client, |kept, server| Ok(kept.most(Self::of(server)?)))
    }

    fn of(server: &mut Server) -> Result<Self> {
        let keyspace = server.info("keyspace")?;
        let keys = field(&keyspace, "db0").and_then(|text| text.strip_prefix("keys=")?.split(',').next()?.parse().ok());
        let memory =
            field(&server.info("memory")?, "used_memory").ok_or("a server does not tell its used_memory")?.parse()?;
        // INFO does not list an empty database.
        Ok(Self { keys: keys.unwrap_or(0), memory, client: None })
    }

    fn most(self, other: Self) -> Self {
        let client = self.client.max(other.client);
        Self { keys: self.keys.max(other.keys), memory: self.memory.max(other.memory), client }
    }
}

/// The final value as a multiple of the value at half the time. Both values are means of a tenth of
/// the samples: the last tenth, and the tenth right before half. Means even out ups and downs, such
/// as keys that a node has not removed yet.
fn growth(samples: &[f64]) -> Option<f64> {
    if samples.len() < FEWEST {
        return None;
    }
    let half = mean(before(samples, samples.len() / 2));
    (half > 0.0).then(|| mean(before(samples, samples.len())) / half)
}

/// The tenth of all samples that ends at `end`.
fn before(samples: &[f64], end: usize) -> &[f64] {
    &samples[end - samples.len() / 10..end]
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, expected: f64) {
        assert!(found.is_some_and(|found| (found - expected).abs() < 1e-9), "{found:?}, not {expected}");
    }

    #[test]
    fn growth_doubles_on_a_steady_rise_and_is_one_on_a_level_end() {
        close(growth(&(0..=99).map(f64::from).collect::<Vec<_>>()), 94.5 / 44.5);
        close(growth(&[7.0; 100]), 1.0);
        let levels_off = (0..240).map(|second| f64::from(second.min(90)));
        close(growth(&levels_off.collect::<Vec<_>>()), 1.0);
    }

    #[test]
    fn growth_ignores_one_peak_and_alternating_samples() {
        let mut samples: Vec<f64> = (0..100).map(|number| if number % 2 == 0 { 9.0 } else { 11.0 }).collect();
        samples[60] = 1e6;
        close(growth(&samples), 1.0);
    }

    #[test]
    fn growth_is_none_for_few_samples_and_for_zeros() {
        assert_eq!([growth(&[1.0; 19]), growth(&[0.0; 100]), growth(&[])], [None; 3]);
    }
}
