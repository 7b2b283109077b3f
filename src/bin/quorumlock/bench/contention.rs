//! `quorumlock bench contention`: many workers in several processes contend for one lock. Measures
//! how fast the lock passes from one worker to the next.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::summary::Summary;
use super::unguarded;
use super::worker::{Report, now};
use crate::cli::bench::Contention;
use crate::failure::{Failure, Outcome, UNAVAILABLE};
use crate::latency;
use crate::servers::Servers;
use crate::settings::Settings;
use crate::worker_processes::WorkerProcesses;

/// The time before the measurement. In this time the queue fills, and clients measure round trips.
const WARM_UP: Duration = Duration::from_secs(1);
/// How long the worker processes may take to connect.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn measured(args: &Contention) -> Outcome {
    let summary = Stage::set(args)?.measure(args).await?;
    summary.told(args.json).await?;
    Ok(if summary.is_safe() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The servers that the benchmark starts, behind relays that simulate distance.
struct Stage {
    servers: Servers,
    settings: Settings,
    /// The median round trip to each server.
    round_trips: Vec<Duration>,
}

impl Stage {
    fn set(args: &Contention) -> Result<Self, Failure> {
        let servers = Servers::start(usize::from(args.masters))?;
        let ports = latency::apart(&servers.ports(), &args.latency)?;
        let round_trips = ports.iter().map(|&port| Ok(latency::measured(port)?[2])).collect::<Result<_, Failure>>()?;
        Ok(Self { servers, settings: unguarded(&ports, Some(args.transport)), round_trips })
    }

    async fn measure(&self, args: &Contention) -> Result<Summary, Failure> {
        let mut workers = WorkerProcesses::start(args.workers, args.processes, &self.settings, |command, workers| {
            asked(command, args, workers);
        })?;
        all_ready(&workers).await?;
        let length = Duration::from_secs(u64::from(args.seconds));
        let begin = now() + WARM_UP;
        workers.tell(&format!("{} {}", begin.as_micros(), (begin + length).as_micros()))?;
        until(begin, &workers).await?;
        let calls = self.servers.script_calls()?;
        until(begin + length, &workers).await?;
        let calls = self.servers.script_calls()?.saturating_sub(calls);
        let report = workers.finish().await?;
        Ok(Summary::new(args, report, length, calls, &self.round_trips))
    }
}

/// Adds the arguments of a worker process.
fn asked(command: &mut Command, args: &Contention, workers: u32) {
    let hold = format!("{}ms", args.hold.as_secs_f64() * 1e3);
    command.args(["bench-worker", "--workers", &workers.to_string(), "--hold", &hold]);
    command.args(args.unfair.then_some("--unfair"));
}

async fn all_ready(workers: &WorkerProcesses<Report>) -> Result<(), Failure> {
    let began = Instant::now();
    while workers.report().ready < workers.len() {
        if workers.has_ended() || began.elapsed() > PATIENCE {
            return Err(Failure::new(UNAVAILABLE, "a worker process did not start"));
        }
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Waits until the monotonic clock shows `moment`. Fails if a worker process ends before.
async fn until(moment: Duration, workers: &WorkerProcesses<Report>) -> Result<(), Failure> {
    while let Some(left) = moment.checked_sub(now()) {
        if workers.has_ended() {
            return Err(Failure::internal("a worker process ended early"));
        }
        sleep(left.min(Duration::from_millis(100))).await;
    }
    Ok(())
}
