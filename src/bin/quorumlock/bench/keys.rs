//! `quorumlock bench keys`: what nodes keep of names that are used once, as those of orders or
//! requests are.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures::stream::{FuturesUnordered, StreamExt};
use quorumlock::Quorum;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use super::flat::flat;
use super::leases::memory;
use super::probe::{Probe, field};
use super::{SETTLE, pair, ratio, rounded, unguarded};
use crate::cli::bench::Keys;
use crate::demo::all_vote;
use crate::duration::show;
use crate::failure::{Failure, Outcome};
use crate::output::{self, aligned_rows, grouped};
use crate::servers::Servers;
use crate::settings::Settings;

/// How often names that are due are begun.
const TICK: Duration = Duration::from_millis(2);
/// How often the nodes are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How many names may be in use at a time. Past that the nodes do not keep up, and the rate is
/// lower than asked for.
const UNDER_WAY: usize = 4_096;

pub(super) async fn measured(args: &Keys) -> Outcome {
    let servers = Servers::start(usize::from(args.masters))?;
    let settings = Settings { ttl: Some(args.ttl), ..unguarded(&servers.ports(), None) };
    let quorum = settings.builder()?.connect().await?;
    all_vote(&quorum, SETTLE).await;
    let mut watch = Watch::begin(&servers.ports())?;
    let used = used(&quorum, args, &mut watch).await?;
    watch.look()?;
    quorum.shutdown(Duration::from_secs(1)).await;
    let lines = if args.json { vec![watch.json(&used).to_string()] } else { watch.lines(&used) };
    output::say(&lines.join("\n")).await?;
    Ok(ExitCode::SUCCESS)
}

/// What was done.
#[derive(Default)]
struct Used {
    names: u64,
    /// Pairs that no quorum confirmed in time. What they left behind counts too.
    failed: u64,
    took: Duration,
}

impl Used {
    fn rate(&self) -> f64 {
        ratio(self.names as f64, self.took.as_secs_f64()).unwrap_or_default()
    }
}

/// Acquires and releases names that nobody used before, at the rate asked for.
async fn used(quorum: &Quorum, args: &Keys, watch: &mut Watch) -> Result<Used, Failure> {
    let began = Instant::now();
    let mut used = Used::default();
    let mut under_way = FuturesUnordered::new();
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while began.elapsed() < args.minutes || !under_way.is_empty() {
        tokio::select! {
            biased;
            _ = look.tick() => watch.look()?,
            _ = tick.tick() => {
                let due = (began.elapsed().min(args.minutes).as_secs_f64() * f64::from(args.rate)) as u64;
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

async fn once(quorum: &Quorum, number: u64) -> Result<(), Failure> {
    pair(&quorum.lock(format!("orders/{number}"))).await
}

/// What the nodes keep, and this process.
struct Watch {
    probes: Vec<Probe>,
    /// Before there was any name.
    empty: Kept,
    /// In the order in which they were taken.
    samples: Vec<Kept>,
}

/// Of the node that keeps most.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    keys: u64,
    /// `used_memory`, in bytes.
    memory: u64,
    /// Of this process, in bytes, where the system says it.
    client: Option<u64>,
}

impl Kept {
    fn read(probe: &mut Probe) -> Result<Self, Failure> {
        let keyspace = probe.info("keyspace")?;
        let keys = field(&keyspace, "db0").and_then(|text| text.strip_prefix("keys=")?.split(',').next()?.parse().ok());
        let memory = field(&probe.info("memory")?, "used_memory").and_then(|bytes| bytes.parse().ok());
        let memory = memory.ok_or_else(|| Failure::internal("a server does not tell its used_memory"))?;
        // An empty database is not listed.
        Ok(Self { keys: keys.unwrap_or(0), memory, client: None })
    }

    fn most(self, other: Self) -> Self {
        let client = self.client.max(other.client);
        Self { keys: self.keys.max(other.keys), memory: self.memory.max(other.memory), client }
    }
}

impl Watch {
    fn begin(ports: &[u16]) -> Result<Self, Failure> {
        let probes = ports.iter().map(|&port| Probe::connect(port)).collect::<Result<_, _>>()?;
        let mut watch = Self { probes, empty: Kept::default(), samples: Vec::new() };
        watch.empty = watch.now()?;
        Ok(watch)
    }

    fn now(&mut self) -> Result<Kept, Failure> {
        let kept = Kept { client: memory(), ..Kept::default() };
        self.probes.iter_mut().try_fold(kept, |kept, probe| Ok(kept.most(Kept::read(probe)?)))
    }

    fn look(&mut self) -> Result<(), Failure> {
        let now = self.now()?;
        self.samples.push(now);
        Ok(())
    }

    fn highest(&self) -> Kept {
        self.samples.iter().copied().fold(Kept::default(), Kept::most)
    }

    fn last(&self) -> Kept {
        self.samples.last().copied().unwrap_or_default()
    }

    /// By how much a figure grew since half the time.
    fn grown(&self, figure: fn(&Kept) -> Option<u64>) -> Option<f64> {
        flat(&self.samples.iter().filter_map(|kept| Some(figure(kept)? as f64)).collect::<Vec<_>>())
    }

    fn json(&self, used: &Used) -> Value {
        let (last, highest) = (self.last(), self.highest());
        let grown = |figure: fn(&Kept) -> Option<u64>| self.grown(figure).map(rounded);
        json!({
            "nodes": self.probes.len(),
            "names": used.names,
            "failed": used.failed,
            "seconds": rounded(used.took.as_secs_f64()),
            "names_per_second": rounded(used.rate()),
            "keys": last.keys,
            "keys_highest": highest.keys,
            "keys_growth": grown(|kept| Some(kept.keys)),
            "used_memory": last.memory,
            "used_memory_highest": highest.memory,
            "used_memory_empty": self.empty.memory,
            "used_memory_growth": grown(|kept| Some(kept.memory)),
            "client_memory": last.client,
            "client_memory_growth": grown(|kept| kept.client),
        })
    }

    fn lines(&self, used: &Used) -> Vec<String> {
        let rate = grouped(used.rate() as u64);
        let (names, took) = (grouped(used.names), show(used.took));
        let (last, highest) = (self.last(), self.highest());
        let growth = |figure: fn(&Kept) -> Option<u64>| match self.grown(figure) {
            Some(growth) => format!("{growth:.2} of what it was at half the time"),
            None => "too short to say whether it grows".to_owned(),
        };
        let keys = growth(|kept| Some(kept.keys));
        let keys = format!("on a node at the end; {} at most; {keys}", grouped(highest.keys));
        let [most, empty] = [highest, self.empty].map(|kept| megabytes(kept.memory));
        let memory = growth(|kept| Some(kept.memory));
        let memory = format!("used by a node at the end; {most} at most, and {empty} when it was empty; {memory}");
        let client = last.client.map_or_else(|| "-".to_owned(), megabytes);
        let rows = [
            ("names", names, format!("{rate} a second for {took}, each used once")),
            ("failed", grouped(used.failed), "of their acquisitions and releases had no quorum in time".to_owned()),
            ("keys", grouped(last.keys), keys),
            ("memory", megabytes(last.memory), memory),
            ("client", client, format!("of this process at the end; {}", growth(|kept| kept.client))),
        ];
        aligned_rows(&rows.map(|(name, value, what)| vec![name.to_owned(), value, what]))
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
