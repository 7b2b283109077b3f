//! The nodes of a scenario. Tests can inspect, change and break them without the library.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fault::{Faults, FaultyNode};
use quorumlock::host::{Host, TokioTime};
use quorumlock::node::{Inspection, MemoryNode, Name, Node, Outcome, Verb};
use quorumlock::{Quorum, QuorumBuilder, Result};
use tokio::runtime::Handle;

use crate::common::asked::Asked;
use crate::common::node::ask;
use crate::common::server::Server;
use crate::common::{PATIENCE, eventually, servers};

/// The owner of the names that a scenario holds without the library.
pub const FOREIGNER: &str = "foreigner";

/// The nodes of a scenario.
pub trait World: Sized {
    /// Starts this many empty nodes.
    async fn start(nodes: usize) -> Self;
    fn size(&self) -> usize;
    /// How late an event may come. Real machines may stall.
    fn slack(&self) -> Duration;
    /// The ttl of locks whose end or renewal a scenario waits for. A real machine may stall for
    /// most of this time.
    fn ttl(&self) -> Duration;
    /// How many hellos may come between two calls of [`asked`](Self::asked), if `asked` counts
    /// hellos.
    fn hellos(&self) -> u64;
    /// Connects another client to some of the nodes.
    async fn connect(&self, builder: QuorumBuilder, nodes: &[usize]) -> Quorum;
    /// Inspects a name on a node.
    async fn look(&self, node: usize, name: &str) -> Inspection;
    /// Lets a foreigner hold a name on a node, for ten minutes.
    async fn take(&self, node: usize, name: &str);
    /// Deletes the holder of a name by hand; the fence stays.
    async fn delete(&self, node: usize, name: &str);
    async fn raise(&self, node: usize, name: &str, fence: u64);
    /// How many claims and releases a node got. On a real server, how many script calls.
    fn asked(&self, node: usize) -> u64;
    /// How many of the operations that `asked` counts are needed to release this many names.
    fn releases(&self, names: usize) -> u64;
    /// How many inspections a node got.
    fn looks(&self, node: usize) -> u64;
    /// Suspends the node: it keeps its connections and does not answer.
    fn hang(&self, node: usize);
    /// Resumes a suspended node.
    fn resume(&self, node: usize);
    fn kill(&mut self, node: usize);
    /// Starts a dead node again, without memory. `max_ttl` is that of the clients.
    async fn restart(&mut self, node: usize, max_ttl: Duration);
    /// How many connections a client has to a node.
    fn connections(&self, node: usize, client_name: &str) -> usize;

    /// Whether the machine may stall. If it stalls, a call may end with `Unavailable` although all
    /// nodes are well: a quorum answered too late.
    fn stalls(&self) -> bool {
        !self.slack().is_zero()
    }

    /// Repeats a call until a quorum answers in time, and returns the result.
    async fn answer<T, F: Future<Output = Result<T>>>(&self, mut call: impl FnMut() -> F) -> Result<T> {
        let began = Instant::now();
        loop {
            match call().await {
                Err(error) if error.is_unavailable() && self.stalls() && began.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                answer => return answer,
            }
        }
    }

    /// The result of a call that must succeed, and goes on in the background, such as a release.
    /// `None` if the call has waited for a quorum in vain.
    async fn confirmed<T>(&self, call: impl Future<Output = Result<T>>) -> Option<T> {
        let began = Instant::now();
        match call.await {
            // One second is half of a round timeout.
            Err(error) if error.is_unavailable() && self.stalls() && began.elapsed() >= Duration::from_secs(1) => None,
            answer => Some(answer.unwrap()),
        }
    }

    /// Acts as if all clients had been gone for so long that no list is in force.
    fn forget_lists(&self) {}

    fn all(&self) -> Vec<usize> {
        (0..self.size()).collect()
    }

    /// Connects another client to all nodes, without a quarantine.
    async fn client(&self) -> Quorum {
        self.client_with(|builder| builder).await
    }

    /// As `client`, with other settings.
    async fn client_with(&self, settings: impl FnOnce(QuorumBuilder) -> QuorumBuilder) -> Quorum {
        self.connect(settings(crate::common::builder().max_ttl(Duration::ZERO)), &self.all()).await
    }

    /// On how many nodes a name is held.
    async fn holders(&self, name: &str) -> usize {
        let mut holders = 0;
        for node in self.all() {
            holders += usize::from(self.look(node, name).await.holder.is_some());
        }
        holders
    }

    /// Waits until no node holds a name.
    async fn freed(&self, name: &str) {
        eventually("the name is free on every node", async || self.holders(name).await == 0).await;
    }

    async fn held_everywhere(&self, name: &str) {
        eventually("every node holds the name", async || self.holders(name).await == self.size()).await;
    }
}

/// Memory nodes behind a network that fails on demand, on Tokio's paused clock.
pub struct Memory {
    pub host: Arc<dyn Host>,
    nodes: Vec<Arc<FaultyNode>>,
    stores: Vec<Arc<MemoryNode>>,
    pub faults: Vec<Faults>,
}

impl Memory {
    /// Memory nodes whose clock is `host`.
    pub fn on(host: Arc<dyn Host>, nodes: usize) -> Self {
        let mut world = Self { host: host.clone(), nodes: Vec::new(), stores: Vec::new(), faults: Vec::new() };
        for node in 0..nodes {
            let store = Arc::new(MemoryNode::new(&format!("memory://{node}"), host.clone()));
            let (node, faults) = FaultyNode::new(store.clone(), host.clone());
            world.stores.push(store);
            world.nodes.push(node);
            world.faults.push(faults);
        }
        world
    }

    /// A node, behind its faults, as clients use it.
    pub fn node(&self, node: usize) -> Arc<dyn Node> {
        self.nodes[node].clone()
    }

    async fn ask(&self, node: usize, verb: Verb, name: &str, owner: &str, ballot: u64) -> Outcome {
        let names = [Name::new("quorumlock:", name).unwrap()].into();
        let ttl = Duration::from_secs(600);
        let operation = Asked { verb, owner: owner.into(), ttl, ballot, count: 1, ..Asked::inspect(names) };
        ask(&*self.stores[node], &operation).await.unwrap()
    }
}

impl World for Memory {
    async fn start(nodes: usize) -> Self {
        Self::on(Arc::new(TokioTime::new(Handle::current())), nodes)
    }

    fn size(&self) -> usize {
        self.nodes.len()
    }

    fn slack(&self) -> Duration {
        Duration::ZERO
    }

    fn ttl(&self) -> Duration {
        Duration::from_millis(1_500)
    }

    fn hellos(&self) -> u64 {
        0
    }

    async fn connect(&self, builder: QuorumBuilder, nodes: &[usize]) -> Quorum {
        let node = |&node: &usize| -> Arc<dyn Node> { self.nodes[node].clone() };
        builder.over(self.host.clone(), nodes.iter().map(node).collect()).unwrap()
    }

    async fn look(&self, node: usize, name: &str) -> Inspection {
        match self.ask(node, Verb::Inspect, name, "-", 0).await {
            Outcome::Inspected(mut entries) => entries.remove(0),
            other => panic!("a question was answered with {other}"),
        }
    }

    async fn take(&self, node: usize, name: &str) {
        let fence = self.look(node, name).await.fence;
        assert_eq!(
            self.ask(node, Verb::Claim, name, FOREIGNER, fence + 1).await,
            Outcome::Granted { fence: fence + 1 }
        );
    }

    async fn delete(&self, node: usize, name: &str) {
        self.stores[node].forget(&Name::new("quorumlock:", name).unwrap());
    }

    async fn raise(&self, node: usize, name: &str, fence: u64) {
        self.ask(node, Verb::Release, name, "nobody", fence).await;
    }

    fn asked(&self, node: usize) -> u64 {
        self.faults[node].asked(Verb::Claim) + self.faults[node].asked(Verb::Release)
    }

    fn releases(&self, names: usize) -> u64 {
        names as u64
    }

    fn looks(&self, node: usize) -> u64 {
        self.faults[node].asked(Verb::Inspect)
    }

    fn hang(&self, node: usize) {
        self.faults[node].pause();
    }

    fn resume(&self, node: usize) {
        self.faults[node].resume();
    }

    fn kill(&mut self, node: usize) {
        self.faults[node].kill();
    }

    async fn restart(&mut self, node: usize, max_ttl: Duration) {
        self.stores[node] = Arc::new(MemoryNode::new(&format!("memory://{node}"), self.host.clone()));
        self.faults[node].restart(self.stores[node].clone(), max_ttl);
    }

    fn connections(&self, _: usize, _: &str) -> usize {
        0
    }
}

pub struct Redis {
    pub servers: Vec<Server>,
}

impl Redis {
    /// How often a node has carried out a command.
    fn calls(&self, node: usize, command: &str) -> u64 {
        let stats = self.servers[node].command(&["INFO", "commandstats"]);
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
    }
}

impl World for Redis {
    async fn start(nodes: usize) -> Self {
        Self { servers: servers(nodes).await }
    }

    fn size(&self) -> usize {
        self.servers.len()
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(25)
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(6)
    }

    fn hellos(&self) -> u64 {
        1
    }

    async fn connect(&self, builder: QuorumBuilder, nodes: &[usize]) -> Quorum {
        let quorum = builder.nodes(nodes.iter().map(|&node| self.servers[node].url())).open().unwrap();
        quorum.ready(PATIENCE).await.unwrap();
        // `connect` waits for a quorum only, but scenarios need each node.
        let alive: Vec<_> = nodes.iter().map(|&node| self.servers[node].is_alive()).collect();
        eventually("every node that is alive is admitted", async || {
            quorum.nodes().iter().zip(&alive).all(|(node, alive)| !alive || node.state.is_admitted())
        })
        .await;
        quorum
    }

    async fn look(&self, node: usize, name: &str) -> Inspection {
        let server = &self.servers[node];
        let fence = server.fence(name);
        match server.hold(name) {
            Some((holder, count, left)) => Inspection::held(holder, count, Some(Duration::from_millis(left)), fence),
            None => Inspection::free(fence),
        }
    }

    async fn take(&self, node: usize, name: &str) {
        self.servers[node].take(name, FOREIGNER);
    }

    async fn delete(&self, node: usize, name: &str) {
        self.servers[node].forget(name);
    }

    async fn raise(&self, node: usize, name: &str, fence: u64) {
        self.servers[node].set_fence(name, fence);
    }

    fn asked(&self, node: usize) -> u64 {
        self.calls(node, "evalsha")
    }

    /// One script call releases all names.
    fn releases(&self, _: usize) -> u64 {
        1
    }

    /// Counts calls of ZCARD, which only inspections run.
    fn looks(&self, node: usize) -> u64 {
        self.calls(node, "zcard")
    }

    fn forget_lists(&self) {
        for server in self.servers.iter().filter(|server| server.is_alive()) {
            server.command(&["HDEL", "quorumlock:node", "list", "until", "begun", "says", "lasts"]);
        }
    }

    fn hang(&self, node: usize) {
        self.servers[node].stop();
    }

    fn resume(&self, node: usize) {
        self.servers[node].resume();
    }

    fn kill(&mut self, node: usize) {
        self.servers[node].kill();
    }

    async fn restart(&mut self, node: usize, _: Duration) {
        self.servers[node].restart().await;
    }

    fn connections(&self, node: usize, client_name: &str) -> usize {
        self.servers[node].command(&["CLIENT", "LIST"]).matches(&format!("name={client_name}:")).count()
    }
}
