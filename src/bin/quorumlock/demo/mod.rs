//! `quorumlock demo`: many workers in several processes contend for one lock. Halfway, the demo
//! kills one of its own servers.

mod counter;
pub(crate) mod service;
mod summary;
mod view;
mod votes;
pub(crate) mod worker;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use quorumlock::{NodeState, Quorum};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::cli::Demo;
use crate::exporter;
use crate::failure::{Failure, Outcome, UNAVAILABLE};
use crate::init;
use crate::output;
use crate::process::{self, Signals};
use crate::servers::Servers;
use crate::settings::Settings;
use crate::status;
use crate::worker_processes::WorkerProcesses;
use counter::Counter;
use summary::Summary;
use view::View;
use worker::Report;

const LOCK: &str = "quorumlock-demo";
const MASTERS: usize = 5;
/// The lock's ttl. For servers that the demo starts, this is also max_ttl: a restarted node does
/// not vote for this time.
const TTL: Duration = Duration::from_secs(2);
/// The pause between two updates of the view.
const TICK: Duration = Duration::from_millis(100);
/// How long to wait for all nodes to vote.
const SETTLE: Duration = Duration::from_secs(5);
const VICTIM: usize = 1;

pub(crate) async fn demo(args: Demo, verbose: bool) -> Outcome {
    let mut signals = Signals::ending()?;
    exporter::start(args.metrics.as_deref(), None)?;
    let own = |stage: &Stage| stage.servers.is_some();
    let start = || Stage::set(&args);
    let mut stage = init::of_our_own(start, |stage| own(stage).then_some(&stage.settings)).await?;
    let quorum = stage.settings.builder()?.connect().await?;
    let shown = async {
        let show = stage.play(&args, &quorum, verbose).await?;
        quorum.shutdown(Duration::from_millis(200)).await;
        show.told(args.json).await?;
        Ok(if show.is_safe() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    };
    tokio::select! {
        outcome = shown => outcome,
        signal = signals.next() => Ok(process::ended_by(signal)),
    }
}

/// The nodes, and the counter's folder. Dropping this value removes the folder and ends the demo's
/// own servers.
struct Stage {
    settings: Settings,
    /// The servers that the demo started. `None` if the user gave nodes.
    servers: Option<Servers>,
    folder: TempDir,
    killed: u32,
    restarted: u32,
}

impl Stage {
    fn set(args: &Demo) -> Result<Self, Failure> {
        let mut settings = Settings::collect(&args.nodes)?;
        let servers = if settings.nodes.is_empty() { Some(Servers::start(MASTERS)?) } else { None };
        match &servers {
            Some(servers) => {
                settings.nodes = servers.addresses();
                settings.max_ttl = Some(TTL);
            }
            None => output::note("the demo did not start these nodes, so it kills none of them"),
        }
        settings.ttl = Some(TTL);
        Ok(Self { settings, servers, folder: TempDir::new()?, killed: 0, restarted: 0 })
    }

    async fn play(&mut self, args: &Demo, quorum: &Quorum, verbose: bool) -> Result<Summary, Failure> {
        let view = View::new(args, quorum);
        view.note("waiting until all nodes vote");
        ready(quorum).await?;
        let workers = self.workers(args, verbose)?;
        let length = Duration::from_secs(u64::from(args.seconds));
        let began = Instant::now();
        let mut line = None;
        while began.elapsed() < length && !workers.has_ended() {
            self.direct(began.elapsed().as_secs_f64() / length.as_secs_f64(), &view)?;
            view.draw(began.elapsed(), &workers.report(), &quorum.nodes(), line.as_deref());
            tokio::select! {
                () = sleep(TICK.min(length.saturating_sub(began.elapsed()))) => {}
                // `inspect` also measures the round trips that the view shows.
                seen = async { let seen = quorum.inspect(LOCK).await; sleep(TICK).await; seen } => {
                    line = seen.ok().and_then(|seen| status::line(&seen));
                }
            }
        }
        let took = began.elapsed();
        let report = workers.finish().await?;
        view.close();
        let counted = Counter::new(self.folder.path(), "").read()?.0;
        Ok(Summary::new(args, report, quorum.nodes(), took, counted, (self.killed, self.restarted)))
    }

    fn workers(&self, args: &Demo, verbose: bool) -> Result<WorkerProcesses<Report>, Failure> {
        let ttl = format!("{}ms", TTL.as_millis());
        WorkerProcesses::start(args.workers, args.processes, &self.settings, |command, workers| {
            command.args(["demo-worker", "--workers", &workers.to_string(), "--ttl", &ttl, "--folder"]);
            command.arg(self.folder.path()).args(verbose.then_some("-v"));
        })
    }

    /// Kills one of the demo's own servers after half of the time, and restarts it after three
    /// quarters.
    fn direct(&mut self, played: f64, view: &View) -> Result<(), Failure> {
        let Some(servers) = &mut self.servers else { return Ok(()) };
        if played >= 0.5 && self.killed == 0 {
            servers.kill(VICTIM);
            self.killed = 1;
            view.note(&format!("half-way: killed {} with SIGKILL", self.settings.nodes[VICTIM]));
        }
        if played >= 0.75 && self.restarted == 0 {
            servers.restart(VICTIM)?;
            self.restarted = 1;
            view.note(&format!("three quarters: started {} again, empty; it votes soon", self.settings.nodes[VICTIM]));
        }
        Ok(())
    }
}

/// Waits until all nodes vote, for `SETTLE` at most. After that, fails if no quorum votes.
async fn ready(quorum: &Quorum) -> Result<(), Failure> {
    all_vote(quorum, SETTLE).await;
    if votes(quorum) {
        return Ok(());
    }
    let nodes = quorum.nodes();
    let said = nodes.iter().map(|node| format!("{}: {}", node.node, node.state));
    let said = output::explained_once(said).join("\n  ");
    Err(Failure::new(UNAVAILABLE, format!("no quorum of nodes votes:\n  {said}")))
}

/// Whether a quorum of nodes votes.
fn votes(quorum: &Quorum) -> bool {
    let nodes = quorum.nodes();
    nodes.iter().filter(|node| node.state == NodeState::Up).count() > nodes.len() / 2
}

/// Waits until all nodes vote, for `patience` at most.
pub(crate) async fn all_vote(quorum: &Quorum, patience: Duration) {
    let began = Instant::now();
    while began.elapsed() < patience && quorum.nodes().iter().any(|node| node.state != NodeState::Up) {
        sleep(Duration::from_millis(20)).await;
    }
}
