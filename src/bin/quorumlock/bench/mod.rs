//! `quorumlock bench`: what can be measured, over servers of its own or over the user's nodes.

mod contention;
mod cost;
mod distance;
mod faults;
mod flat;
mod keys;
mod leases;
pub(crate) mod probe;
mod progress;
mod samples;
mod sections;
mod summary;
mod target;
mod throughput;
mod uncontended;
pub(crate) mod worker;

use std::time::Duration;

use quorumlock::{Quorum, QuorumLock, Transport};

use crate::cli::bench::Bench;
use crate::demo::all_vote;
use crate::failure::{Failure, Outcome};
use crate::process::{self, Signals};
use crate::servers::Servers;
use crate::settings::Settings;

/// How long to wait for a lock that nobody else wants.
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
        Bench::Faults(args) => faults::measured(&args).await,
        Bench::Leases(args) => leases::measured(&args).await,
        Bench::Contention(args) => contention::measured(&args).await,
        Bench::Cost(args) => cost::measured(&args).await,
        Bench::Keys(args) => keys::measured(&args).await,
    }
}

/// How to reach servers of our own. They are new and nobody else's: the restart guard would only
/// make clients wait.
fn unguarded(ports: &[u16], transport: Option<Transport>) -> Settings {
    Settings { nodes: Servers::at(ports), max_ttl: Some(Duration::ZERO), transport, ..Settings::default() }
}

/// A quorum over these servers, all of which vote.
async fn connected(ports: &[u16], transport: Option<Transport>) -> Result<Quorum, Failure> {
    let quorum = unguarded(ports, transport).builder()?.connect().await?;
    all_vote(&quorum, SETTLE).await;
    Ok(quorum)
}

/// Acquires and releases.
async fn pair(lock: &QuorumLock) -> Result<(), Failure> {
    let guard = lock.acquire(TIMEOUT).await?;
    guard.release().await?;
    Ok(())
}

/// `part` of `whole`, unless there is no whole.
fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then_some(part / whole)
}

/// Three digits after the point.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
