//! Waiting while no quorum votes: no node is asked for what it cannot grant.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock::host::{Host, TokioTime};
use quorumlock::node::fault::{Faults, FaultyNode};
use quorumlock::node::{Listener, Member, MemoryNode, Node, NodeState, NodeStatus, Request, Verb};
use quorumlock::rules::roster::{Roster, Standing};
use quorumlock::{LockOptions, Quorum};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::world::{MS, World, millis};

const QUARANTINE: Duration = Duration::from_secs(58);

/// A world of two clients, for which two of three nodes have just restarted.
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
    // With the gate, behind it, and the permit.
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
async fn a_waiter_that_no_quorum_answers_in_time_says_how_nodes_are() {
    let world = quarantined();
    let began = Instant::now();
    let error = world.clients[0].0.lock("job").acquire(10_000 * MS).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 10);
    let said = error.to_string();
    assert!(error.is_unavailable() && said.contains("48 s"), "{said}");
}

/// By the time that it gives up, what the caller before it was told is old (seed 435).
#[tokio::test(start_paused = true)]
async fn waiter_behind_one_that_no_quorum_answers_says_how_nodes_are_by_now() {
    let world = quarantined();
    let lock = world.clients[0].0.lock("job");
    let (first, behind) = tokio::join!(lock.acquire(20_000 * MS), lock.acquire(10_000 * MS));
    for (error, left) in [(behind.unwrap_err(), "48 s"), (first.unwrap_err(), "38 s")] {
        let said = error.to_string();
        assert!(error.is_unavailable() && said.contains(left), "{said}");
    }
}

/// A node whose votes count once it is enrolled, as a server's do.
#[derive(Debug)]
struct Enrolling {
    node: Arc<FaultyNode>,
    standing: Mutex<Standing>,
}

impl Node for Enrolling {
    fn label(&self) -> &Arc<str> {
        self.node.label()
    }

    fn submit(&self, request: Request) {
        self.node.submit(request);
    }

    fn hints(&self) -> bool {
        self.node.hints()
    }

    fn listen(&self, index: usize, listener: Arc<dyn Listener>) {
        self.node.listen(index, listener.clone());
        listener.connected(index);
    }

    fn enrols(&self) -> bool {
        true
    }

    fn member(&self) -> Option<Member> {
        Some(Member { run: self.label().to_string(), age: 2 * QUARANTINE })
    }

    fn enrolled(&self, _: &str, standing: Standing, _: Option<Roster>) {
        *self.standing.lock().unwrap() = standing;
    }

    fn status(&self) -> NodeStatus {
        let mut status = self.node.status();
        if let Standing::Unlisted(why) = &*self.standing.lock().unwrap() {
            status.state = NodeState::Unlisted { why: why.clone() };
        }
        status
    }
}

/// A client whose list is these nodes.
fn enrolling(host: &Arc<dyn Host>, nodes: &[Arc<MemoryNode>]) -> (Quorum, Vec<Faults>) {
    let (nodes, faults): (Vec<_>, Vec<_>) =
        nodes.iter().map(|node| FaultyNode::new(node.clone(), host.clone())).unzip();
    let enrolling = |node| Arc::new(Enrolling { node, standing: Mutex::default() }) as Arc<dyn Node>;
    let nodes = nodes.into_iter().map(enrolling).collect();
    (Quorum::builder().max_ttl(Duration::ZERO).over(host.clone(), nodes).unwrap(), faults)
}

/// A client of three nodes that has a lock, and one of these and two more.
async fn kept_out() -> (Quorum, Quorum, Vec<Faults>) {
    let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
    let node = |number| Arc::new(MemoryNode::new(&format!("memory://{number}"), host.clone()));
    let nodes: Vec<_> = (0..5).map(node).collect();
    let (listed, _) = enrolling(&host, &nodes[..3]);
    drop(listed.lock("held").acquire(10_000 * MS).await.unwrap());
    let (quorum, faults) = enrolling(&host, &nodes);
    (listed, quorum, faults)
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_kept_out_is_told_so_in_the_end() {
    let (_listed, quorum, faults) = kept_out().await;
    // Its last round is one that no node answers.
    faults.iter().for_each(Faults::kill);
    let waits = tokio::spawn(async move { quorum.lock("job").acquire(10_000 * MS).await.map(drop) });
    tokio::time::sleep(5_000 * MS).await;
    faults.iter().for_each(Faults::reconnect);
    let error = waits.await.unwrap().unwrap_err();
    let unlisted = error.nodes().iter().filter(|node| node.said.starts_with("unlisted: ")).count();
    assert!(error.is_unavailable() && unlisted >= 3, "{error}");
}

#[tokio::test(start_paused = true)]
async fn waiters_on_unlisted_nodes_ask_no_more_than_an_idle_client() {
    let (_listed, quorum, faults) = kept_out().await;
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
    // They have the nodes enrolled anew together, and claim nothing.
    assert!(busy <= idle + 10 * 5, "{busy} calls, {idle} of an idle client");
}
