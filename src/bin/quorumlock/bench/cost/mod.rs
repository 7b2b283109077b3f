//! `quorumlock bench cost`: what an acquisition and its release cost the nodes, by their own
//! counters, and the client.
//!
//! Phases take turns, and what they cost is summed over their turns: what else the machine does is
//! then the same for all.

mod counts;
mod plain;
mod spent;
mod summary;

use std::cell::{Cell, RefCell};
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures::future::{join_all, try_join_all};
use quorumlock::{Quorum, Transport};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep;

use super::probe::Probe;
use super::{connected, pair};
use crate::cli::bench::Cost;
use crate::failure::{Failure, Outcome};
use crate::histogram::Histogram;
use crate::output;
use crate::servers::Servers;
use counts::Counts;
use plain::Plain;
use spent::{Phase, Round, Spent};
use summary::Summary;

/// Which part of a phase's turn is run before it is measured.
const WARM_UP: u32 = 10;
/// How long nothing must have been carried out before counters are believed: a pair is over with a
/// quorum, and the other nodes are still at it.
const QUIET: Duration = Duration::from_millis(10);
/// How long to wait for that.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn measured(args: &Cost) -> Outcome {
    if cfg!(debug_assertions) {
        output::note("this is a debug build: what the client costs means nothing");
    }
    let mut stage = Stage::set(args).await?;
    let turns = args.rounds.min(args.pairs);
    let mut rounds = Vec::new();
    for _ in 0..turns {
        rounds.push(stage.round(args.pairs.div_ceil(turns)).await?);
    }
    join_all(stage.quorums.iter().map(|(_, quorum)| quorum.shutdown(Duration::from_secs(1)))).await;
    let (nodes, connections) = (stage.probes.len(), stage.plain.len());
    Summary { rounds, nodes, tasks: args.tasks, connections }.told(args.json).await?;
    Ok(ExitCode::SUCCESS)
}

/// Servers of our own, and all clients.
struct Stage {
    /// Gone with this.
    _servers: Servers,
    /// One over each transport.
    quorums: Vec<(Transport, Quorum)>,
    /// The hand-written one, once for each connection that its crowd has to a node.
    plain: Vec<Plain>,
    probes: Vec<Probe>,
    tasks: u32,
    /// How many names and owners that are used once there were.
    used: Cell<u64>,
    /// How long pairs took in this turn.
    latencies: RefCell<Histogram>,
}

impl Stage {
    async fn set(args: &Cost) -> Result<Self, Failure> {
        let servers = Servers::start(usize::from(args.masters))?;
        let ports = servers.ports();
        let probes = ports.iter().map(|&port| Probe::connect(port)).collect::<Result<_, _>>()?;
        let connected = Transport::ALL
            .iter()
            .map(async |&transport| Ok::<_, Failure>((transport, connected(&ports, Some(transport)).await?)));
        let quorums = try_join_all(connected).await?;
        let connections = 0..args.connections.min(args.tasks);
        let plain = try_join_all(connections.map(|_| Plain::connect(&ports))).await?;
        let (used, latencies) = (Cell::new(0), RefCell::default());
        Ok(Self { _servers: servers, quorums, plain, probes, tasks: args.tasks, used, latencies })
    }

    /// Each phase once, with so many pairs.
    async fn round(&mut self, pairs: u32) -> Result<Round, Failure> {
        let mut round = Round::default();
        for (phase, spent) in &mut round.0 {
            *spent = self.turn(*phase, pairs).await?;
        }
        Ok(round)
    }

    async fn turn(&mut self, phase: Phase, pairs: u32) -> Result<Spent, Failure> {
        let tasks = if phase.is_crowd() { self.tasks } else { 1 };
        let each = pairs.div_ceil(tasks);
        self.work(phase, each.div_ceil(WARM_UP)).await?;
        let before = self.settled().await?;
        self.latencies.take();
        let (began, client) = (Instant::now(), client_cpu());
        self.work(phase, each).await?;
        let latencies = self.latencies.take();
        let (took, client) = (began.elapsed(), client_cpu().saturating_sub(client));
        let after = self.settled().await?;
        let nodes = after.into_iter().zip(&before).map(|(after, before)| after - before).collect();
        Ok(Spent { pairs: u64::from(each) * u64::from(tasks), took, client, latencies, nodes })
    }

    /// So many pairs of each task, one after another.
    async fn work(&self, phase: Phase, each: u32) -> Result<(), Failure> {
        let tasks = 0..self.tasks;
        match phase {
            Phase::Alone(transport) => self.again(transport, "alone", each).await?,
            Phase::Fresh(transport) => self.fresh(transport, each).await?,
            Phase::Crowd(transport) => {
                let crowd = tasks.map(async |task| self.again(transport, &of(task), each).await);
                drop(try_join_all(crowd).await?);
            }
            Phase::Plain => self.plain[0].drive(self.plainly(0, "plain", each)).await?,
            Phase::PlainCrowd => {
                let connections = 0..self.plain.len();
                drop(try_join_all(connections.map(|connection| self.plain_crowd(connection, each))).await?);
            }
        }
        Ok(())
    }

    async fn again(&self, transport: Transport, name: &str, pairs: u32) -> Result<(), Failure> {
        let lock = self.over(transport)?.lock(name);
        for _ in 0..pairs {
            self.timed(pair(&lock)).await?;
        }
        Ok(())
    }

    async fn fresh(&self, transport: Transport, pairs: u32) -> Result<(), Failure> {
        let quorum = self.over(transport)?;
        for _ in 0..pairs {
            self.timed(pair(&quorum.lock(format!("fresh/{}", self.once())))).await?;
        }
        Ok(())
    }

    fn over(&self, transport: Transport) -> Result<&Quorum, Failure> {
        let quorum = self.quorums.iter().find_map(|(over, quorum)| (*over == transport).then_some(quorum));
        quorum.ok_or_else(|| Failure::internal(format!("no quorum is over {transport}")))
    }

    async fn timed<T>(&self, pair: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let done = pair.await;
        self.latencies.borrow_mut().record(began.elapsed());
        done
    }

    /// The tasks that share a connection.
    async fn plain_crowd(&self, connection: usize, each: u32) -> io::Result<()> {
        let tasks = (0..self.tasks).skip(connection).step_by(self.plain.len());
        let crowd = join_all(tasks.map(async |task| self.plainly(connection, &of(task), each).await));
        self.plain[connection].drive(crowd).await.map(drop)
    }

    async fn plainly(&self, connection: usize, key: &str, pairs: u32) {
        for _ in 0..pairs {
            let owner = format!("{:020}", self.once());
            self.timed(self.plain[connection].pair(key, &owner)).await;
        }
    }

    fn once(&self) -> u64 {
        self.used.replace(self.used.get() + 1)
    }

    /// The nodes' counters, once all that was sent is done.
    async fn settled(&mut self) -> Result<Vec<Counts>, Failure> {
        let began = Instant::now();
        let mut last = self.read()?;
        while began.elapsed() < PATIENCE {
            sleep(QUIET).await;
            let now = self.read()?;
            if now.iter().zip(&last).all(|(now, last)| now.commands == last.commands) {
                return Ok(now);
            }
            last = now;
        }
        Err(Failure::internal("the servers do not come to rest"))
    }

    fn read(&mut self) -> Result<Vec<Counts>, Failure> {
        Ok(self.probes.iter_mut().map(Counts::read).collect::<Result<_, _>>()?)
    }
}

/// The name of a task in a crowd.
fn of(task: u32) -> String {
    format!("crowd/{task}")
}

/// The CPU time of this process, all threads together.
fn client_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
