//! Processes. Each has a clock, a wall clock, its own random numbers, a quorum, and some clients.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock::Quorum;
use quorumlock::host::{Host, Task};
use quorumlock::node::Node;
use quorumlock::node::redis::transport::Dialer;
use quorumlock::rules::Tick;

use crate::clients::Client;
use crate::dice::Dice;
use crate::elections;
use crate::judge::history::{Micros, What};
use crate::link::Link;
use crate::lists::Deployment;
use crate::recorder::Recorder;
use crate::transport::SimDialer;
use crate::world::{Process, World};

/// The wall clock at the beginning of a run, in microseconds since the epoch.
pub const EPOCH: i64 = 1_700_000_000_000_000;

/// The quorums of all live processes.
#[derive(Debug, Default)]
pub struct Quorums(Mutex<BTreeMap<usize, Quorum>>);

impl Quorums {
    pub fn all(&self) -> Vec<(usize, Quorum)> {
        self.0.lock().unwrap().iter().map(|(&process, quorum)| (process, quorum.clone())).collect()
    }

    pub fn of(&self, process: usize) -> Option<Quorum> {
        self.0.lock().unwrap().get(&process).cloned()
    }

    pub fn clear(&self) {
        let all = std::mem::take(&mut *self.0.lock().unwrap());
        drop(all);
    }
}

/// A simulated host: the clocks, random numbers and tasks that the library takes from a machine.
pub struct SimHost {
    world: Arc<World>,
    process: usize,
    clock: Clock,
    dice: Mutex<Dice>,
}

impl fmt::Debug for SimHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimHost({})", self.process)
    }
}

impl Host for SimHost {
    fn now(&self) -> Tick {
        self.clock.tick(self.world.now())
    }

    fn wall(&self) -> Duration {
        let ahead = self.world.core.lock().unwrap().processes[self.process].wall;
        Duration::from_micros((EPOCH + self.world.now() as i64 + ahead) as u64)
    }

    fn random(&self) -> u64 {
        self.dice.lock().unwrap().next()
    }

    fn spawn(&self, task: Task) {
        self.world.exec.spawn(self.process, task);
    }
}

#[derive(Clone, Copy, Debug)]
struct Clock {
    /// The clock's rate, in parts per million.
    rate: u64,
    origin: Micros,
}

impl Clock {
    const fn tick(self, now: Micros) -> Tick {
        let passed = now / 1_000_000 * self.rate + now % 1_000_000 * self.rate / 1_000_000;
        Tick::new(Duration::from_micros(self.origin + passed))
    }
}

/// Starts a process with this number of clients. Returns the number of the process.
pub fn start(world: &Arc<World>, region: usize, clients: usize, deployment: usize) -> usize {
    let now = world.now();
    let mut core = world.core.lock().unwrap();
    let number = core.processes.len();
    let slowest = core.plan.slowest_process;
    let rate = core.dice.between(slowest, 1_000_001);
    let rate = if core.dice.chance(0.5) { slowest } else { rate };
    let origin = core.dice.between(1_000_000_000, 2_000_000_000);
    let wall = core.wall_skew();
    let deployed = core.plan.configuration(number, deployment);
    let (name, Deployment { list, ttl, max_ttl, team, .. }) = (deployed.name(), deployed);
    let nodes = core.plan.nodes;
    let links = (0..nodes).map(|_| Link::default()).collect();
    let inbox = Vec::new();
    let process = Process {
        region,
        deployment,
        team,
        list: list.clone(),
        ttl,
        clients,
        rate,
        wall,
        links,
        paused_at: None,
        suspended: false,
        dead: false,
        inbox,
    };
    core.processes.push(process);
    core.history.record(now, What::Started { process: number as u16 });
    let dice = Mutex::new(core.dice.fork());
    let mut seeds = core.dice.fork();
    let (node_timeout, looks) = (core.plan.node_timeout, core.plan.onlookers.contains(&number));
    drop(core);
    world.exec.add_process();
    let host = Arc::new(SimHost { world: world.clone(), process: number, clock: Clock { rate, origin }, dice });
    let dialer = |node| -> Arc<dyn Dialer> { Arc::new(SimDialer { world: world.clone(), process: number, node }) };
    let recorder = |at: usize, inner| -> Arc<dyn Node> {
        Arc::new(Recorder { world: world.clone(), process: number, node: list[at], inner })
    };
    let builder = if looks { Quorum::builder().onlooker() } else { Quorum::builder() };
    let quorum = builder
        .ttl(ttl)
        .max_ttl(max_ttl)
        .list_name(name)
        .node_timeout(node_timeout)
        .over_dialers(host, list.iter().copied().map(dialer).collect(), recorder)
        .expect("the plan's settings make sense");
    for _ in 0..clients {
        let client = Client::new(world.clone(), number, quorum.clone(), seeds.fork());
        world.exec.spawn(number, Box::pin(client.live()));
    }
    elections::look(world, number, &quorum, &mut seeds);
    world.quorums.0.lock().unwrap().insert(number, quorum);
    number
}

/// Drops the quorum of a killed process.
pub fn bury(world: &World, process: usize) {
    let quorum = world.quorums.0.lock().unwrap().remove(&process);
    drop(quorum);
}
