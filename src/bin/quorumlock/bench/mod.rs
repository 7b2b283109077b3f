//! `quorumlock bench`: the benchmarks. They use servers that they start, or (except `contention`)
//! the user's nodes.

mod contention;
mod critical_sections;
mod distance;
mod progress;
mod samples;
mod summary;
mod target;
mod throughput;
mod uncontended;
pub(crate) mod worker;

use std::time::Duration;

use quorumlock::Transport;

use crate::cli::bench::Bench;
use crate::failure::Outcome;
use crate::process::{self, Signals};
use crate::servers::Servers;
use crate::settings::Settings;

/// How long an acquisition may wait for its lock.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long to wait for all nodes to vote.
const SETTLE: Duration = Duration::from_secs(5);

pub(crate) async fn bench(args: Bench) -> Outcome {
    let mut signals = Signals::ending()?;
    tokio::select! {
        outcome = measured(args) => outcome,
        signal = signals.next() => Ok(process::ended_by(signal)),
    }
}

async fn measured(args: Bench) -> Outcome {
    match args {
        Bench::Uncontended(args) => uncontended::measured(&args).await,
        Bench::Throughput(args) => throughput::measured(&args).await,
        Bench::Distance(args) => distance::measured(&args).await,
        Bench::Contention(args) => contention::measured(&args).await,
    }
}

/// Settings for servers that the benchmark starts. max_ttl is zero, so that the servers vote at
/// once: new servers cannot have forgotten a lock.
fn unguarded(ports: &[u16], transport: Option<Transport>) -> Settings {
    Settings { nodes: Servers::at(ports), max_ttl: Some(Duration::ZERO), transport, ..Settings::default() }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then_some(part / whole)
}

fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
