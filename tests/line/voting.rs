//! Waiting while no quorum votes: waiters send no claims, because no claim could succeed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fault::{Faults, FaultyNode};
use quorumlock::host::{Host, TokioTime};
use quorumlock::node::operation::{Hello, Intent};
use quorumlock::node::{
    Listener, MemoryNode, Node, NodeState, NodeStatus, Operation, Outcome, Reply, ReplyTo, Request, Sink, Verb,
};
use quorumlock::rules::Tick;
use quorumlock::rules::known_nodes::{Known, MembershipState};
use quorumlock::{List, LockOptions, Quorum};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::world::{MS, World, millis};

const QUARANTINE: Duration = Duration::from_secs(58);

/// A world of two clients and three nodes. Two of the nodes have just restarted.
fn quarantined() -> World {
    let world = World::new(2, &millis([10; 3]), &LockOptions::default());
    let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
    for node in 0..2 {
        let fresh = Arc::new(MemoryNode::new("memory://fresh", host.clone()));
        world.clients.iter().for_each(|(_, faults)| faults[node].restart(fresh.clone(), QUARANTINE));
    }
    world
}

fn claims(faults: &[Faults]) -> u64 {
    faults.iter().map(|fault| fault.asked(Verb::Claim)).sum()
}

#[tokio::test(start_paused = true)]
async fn a_waiter_claims_nothing_until_a_quorum_votes() {
    for options in [LockOptions::default(), LockOptions::default().fair(false)] {
        let world = quarantined();
        let (quorum, faults) = &world.clients[0];
        let lock = quorum.lock_with("job", &options).unwrap();
        let began = Instant::now();
        let guard = lock.acquire(2 * QUARANTINE).await.unwrap();
        assert!((QUARANTINE..QUARANTINE + 200 * MS).contains(&began.elapsed()), "{:?}", began.elapsed());
        assert!(claims(faults) <= 2 * 3, "{} claims", claims(faults));
        drop(guard);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_for_a_permit_claims_nothing_until_a_quorum_votes() {
    let world = quarantined();
    let (quorum, faults) = &world.clients[0];
    drop(quorum.semaphore("slots", 2).acquire(1, 2 * QUARANTINE).await.unwrap());
    // There are claims for the gate, behind the gate, and for the permit.
    assert!(claims(faults) <= 4 * 3, "{} claims", claims(faults));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_claims_as_soon_as_a_node_comes_back() {
    let world = World::new(1, &millis([10; 3]), &LockOptions::default());
    let (quorum, faults) = &world.clients[0];
    faults[..2].iter().for_each(Faults::kill);
    let lock = quorum.lock("job");
    let waiter = tokio::spawn(async move { lock.acquire(2 * QUARANTINE).await.unwrap() });
    tokio::time::sleep(QUARANTINE).await;
    assert!(claims(faults) <= 3, "{} claims", claims(faults));
    let began = Instant::now();
    faults[1].reconnect();
    drop(waiter.await.unwrap());
    assert!(began.elapsed() <= 200 * MS, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn acquire_too_short_for_the_quarantine_fails_at_once() {
    let world = quarantined();
    let began = Instant::now();
    let error = world.clients[0].0.lock("job").acquire(10_000 * MS).await.unwrap_err();
    assert!(began.elapsed() < 100 * MS, "{:?}", began.elapsed());
    let said = error.to_string();
    assert!(error.is_unavailable() && said.contains("58 s") && said.contains("quorumlock init"), "{said}");
}

/// When the second waiter gives up, the replies that the first waiter got are outdated (seed 435).
#[tokio::test(start_paused = true)]
async fn waiter_behind_an_unanswered_one_reports_fresh_node_states() {
    let world = World::new(1, &millis([10; 3]), &LockOptions::default());
    let (quorum, faults) = &world.clients[0];
    faults[..2].iter().for_each(Faults::kill);
    let lock = quorum.lock("job");
    let (first, behind) = (lock.clone(), lock);
    let first = tokio::spawn(async move { first.acquire(20_000 * MS).await.map(drop) });
    let behind = tokio::spawn(async move { behind.acquire(15_000 * MS).await.map(drop) });
    tokio::time::sleep(5_000 * MS).await;
    let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
    for fault in &faults[..2] {
        fault.restart(Arc::new(MemoryNode::new("memory://fresh", host.clone())), QUARANTINE);
    }
    for waits in [behind, first] {
        let error = waits.await.unwrap().unwrap_err();
        assert!(error.is_unavailable() && error.to_string().contains("quarantined for"), "{error}");
    }
}

/// A node that supports hellos, as real servers do.
#[derive(Debug)]
struct Listed {
    node: Arc<FaultyNode>,
    host: Arc<dyn Host>,
    heard: Arc<Heard>,
    standing: Mutex<MembershipState>,
}

/// The answers to the hellos.
#[derive(Debug, Default)]
struct Heard {
    known: Mutex<Option<Known>>,
    listener: Mutex<Option<(usize, Arc<dyn Listener>)>>,
}

/// Stores the answer to a hello that was sent at this time.
struct PushOutcome(Arc<Heard>, Tick);

impl Sink for PushOutcome {
    fn deliver(self: Arc<Self>, _: usize, reply: Reply) {
        let Self(heard, at) = &*self;
        let Ok(Outcome::Hello(record)) = reply else { return };
        let process = record.as_ref().map(|record| record.process.clone()).unwrap_or_default();
        *heard.known.lock().unwrap() = Some(Known { at: *at, process, record, ..Known::default() });
        let listener = heard.listener.lock().unwrap().clone();
        listener.iter().for_each(|(index, listener)| listener.heard(*index));
    }
}

impl Node for Listed {
    fn label(&self) -> &Arc<str> {
        self.node.label()
    }

    fn submit(&self, request: Request) {
        let reply = match &*request.operation {
            Operation::Hello(_) => ReplyTo::new(0, Arc::new(PushOutcome(self.heard.clone(), self.host.now()))),
            _ => request.reply,
        };
        self.node.submit(Request { operation: request.operation, reply });
    }

    fn hints(&self) -> bool {
        self.node.hints()
    }

    fn listen(&self, index: usize, listener: Arc<dyn Listener>) {
        self.node.listen(index, listener.clone());
        *self.heard.listener.lock().unwrap() = Some((index, listener));
        // A connection begins with a hello.
        let list = Arc::new(List::new("default", [&**self.label()], Duration::ZERO));
        let (intent, new, seen) = (Intent::Look, "".into(), Vec::new());
        let hello = Hello { intent, new, process: "".into(), list, old: None, knew: None, sync: None, seen };
        let reply = ReplyTo::new(0, Arc::new(PushOutcome(self.heard.clone(), self.host.now())));
        self.node.submit(Request { operation: Arc::new(hello.into()), reply });
    }

    fn takes_hello(&self) -> bool {
        true
    }

    fn known(&self) -> Option<Known> {
        self.heard.known.lock().unwrap().clone()
    }

    fn judged(&self, standing: MembershipState) {
        *self.standing.lock().unwrap() = standing;
    }

    fn status(&self) -> NodeStatus {
        let mut status = self.node.status();
        match &*self.standing.lock().unwrap() {
            MembershipState::OtherList { why, .. } => status.state = NodeState::OtherList { why: why.clone() },
            standing if standing.counts(self.host.now()) => {}
            _ if status.state == NodeState::Up => status.state = NodeState::Connecting,
            _ => {}
        }
        status
    }
}

/// A client whose list consists of these nodes.
fn listed(host: &Arc<dyn Host>, nodes: &[Arc<MemoryNode>]) -> (Quorum, Vec<Faults>) {
    let (nodes, faults): (Vec<_>, Vec<_>) =
        nodes.iter().map(|node| FaultyNode::new(node.clone(), host.clone())).unzip();
    let listed = |node| {
        let (host, heard, standing) = (host.clone(), Arc::default(), Mutex::default());
        Arc::new(Listed { node, host, heard, standing }) as Arc<dyn Node>
    };
    let nodes = nodes.into_iter().map(listed).collect();
    (Quorum::builder().max_ttl(Duration::ZERO).over(host.clone(), nodes).unwrap(), faults)
}

/// A client of three nodes that has had a lock, and a client with a list of these three nodes and
/// two more.
async fn kept_out() -> (Quorum, Quorum, Vec<Faults>) {
    let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
    let node = |number| Arc::new(MemoryNode::new(&format!("memory://{number}"), host.clone()));
    let nodes: Vec<_> = (0..5).map(node).collect();
    let (theirs, _) = listed(&host, &nodes[..3]);
    drop(theirs.lock("held").acquire(10_000 * MS).await.unwrap());
    let (quorum, faults) = listed(&host, &nodes);
    (theirs, quorum, faults)
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_kept_out_is_told_by_which_list() {
    let (_theirs, quorum, _faults) = kept_out().await;
    let error = quorum.lock("job").acquire(10_000 * MS).await.unwrap_err();
    let other = error.nodes().iter().filter(|node| node.said.starts_with("other list: ")).count();
    assert!(error.is_unavailable() && other >= 3, "{error}");
    let error = error.to_string();
    assert!(error.contains("another list is in force on memory://0: ours has 5 nodes, theirs has 3 nodes"), "{error}");
    assert_eq!(error.matches(": theirs lacks memory://3, memory://4; one list").count(), 1, "{error}");
}

#[tokio::test(start_paused = true)]
async fn waiters_that_are_kept_out_ask_no_more_than_an_idle_client() {
    let (_theirs, quorum, faults) = kept_out().await;
    let calls = async || {
        let before: u64 = faults.iter().map(Faults::calls).sum();
        tokio::time::sleep(5_000 * MS).await;
        faults.iter().map(Faults::calls).sum::<u64>() - before
    };
    calls().await;
    let idle = calls().await;
    let locks = (0..20).map(|number| quorum.lock(format!("job-{number}")));
    let waits = |lock: quorumlock::QuorumLock| tokio::spawn(async move { lock.acquire(10_000 * MS).await.map(drop) });
    let waiters: Vec<_> = locks.map(waits).collect();
    let busy = calls().await;
    for waiter in waiters {
        assert!(waiter.await.unwrap().unwrap_err().is_unavailable());
    }
    assert!(busy <= idle + 20 * 5, "{busy} calls, {idle} of an idle client");
}
