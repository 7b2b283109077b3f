//! Waiting while no quorum votes: no node is asked for what it cannot grant.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::LockOptions;
use quorumlock::host::{Host, TokioTime};
use quorumlock::node::fault::Faults;
use quorumlock::node::{MemoryNode, Verb};
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
