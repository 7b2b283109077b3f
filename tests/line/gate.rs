//! The gate of a semaphore: how long waiters hold it, and how many calls waiting costs.

use std::time::Duration;

use crate::fault::Faults;
use futures::future::join_all;
use quorumlock::node::Verb;
use quorumlock::{Error, Inspected, LockOptions, Quorum};

use super::NEAR;
use crate::world::{MS, PATIENCE, World, millis};

/// Waits until an owner holds the gate of `pool`. Returns the state of the gate.
async fn at_gate(client: &Quorum) -> Inspected {
    for _ in 0..1_000 {
        let seen = client.inspect("pool").await.unwrap();
        if seen.holder().is_some() {
            return seen;
        }
        tokio::time::sleep(MS).await;
    }
    panic!("nobody ever held the gate");
}

/// The waiter has the gate, and its client dies. The nodes do not notice that.
#[tokio::test(start_paused = true)]
async fn killed_waiter_for_permits_delays_the_next_by_one_handover() {
    let world = World::new(3, &millis(NEAR), &LockOptions::default());
    let pool = |client: usize| world.clients[client].0.semaphore("pool", 1);
    let holder = pool(0).acquire(1, PATIENCE).await.unwrap();
    let dead = pool(1);
    let waits = tokio::spawn(async move { dead.acquire(1, PATIENCE).await });
    tokio::time::sleep(1_000 * MS).await;
    world.clients[1].1.iter().for_each(Faults::kill);
    waits.abort();
    drop(holder);
    let began = tokio::time::Instant::now();
    drop(pool(2).acquire(1, PATIENCE).await.unwrap());
    assert!(began.elapsed() <= (3_040 + 100) * MS, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn semaphore_with_a_large_drift_is_waited_for() {
    // This drift is longer than a hand-over.
    let world = World::new(2, &millis(NEAR), &LockOptions::default().drift_constant(4_000 * MS));
    let pool = |client: usize| world.clients[client].0.semaphore("pool", 1);
    let holder = pool(0).acquire(1, PATIENCE).await.unwrap();
    let waiter = pool(1);
    let waits = tokio::spawn(async move { waiter.acquire(1, 20_000 * MS).await });
    tokio::time::sleep(1_000 * MS).await;
    drop(holder);
    drop(waits.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn gate_outlives_a_renewal_without_an_answer() {
    let world = World::new(2, &[200 * MS; 3], &LockOptions::default());
    let pool = |client: usize| world.clients[client].0.semaphore("pool", 1);
    let holder = pool(0).acquire(1, PATIENCE).await.unwrap();
    let faults = &world.clients[1].1;
    // This is as long as the node timeout of real nodes.
    faults.iter().for_each(|faults| faults.timeout(2_000 * MS));
    let waiter = pool(1);
    let waits = tokio::spawn(async move { waiter.acquire(1, PATIENCE).await });
    tokio::time::sleep(5_000 * MS).await;
    let owner = at_gate(&world.clients[0].0).await.holder().map(str::to_owned);
    let renewed = faults[0].asked(Verb::Renew);
    while faults[0].asked(Verb::Renew) == renewed {
        tokio::time::sleep(MS).await;
    }
    // Lose replies until the renewal has arrived at the nodes.
    faults[..2].iter().for_each(|faults| faults.lose_replies(u32::MAX));
    tokio::time::sleep(150 * MS).await;
    faults[..2].iter().for_each(|faults| faults.lose_replies(0));
    tokio::time::sleep(5_000 * MS).await;
    assert_eq!(at_gate(&world.clients[0].0).await.holder().map(str::to_owned), owner);
    drop(holder);
    drop(waits.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn gate_is_held_for_longer_if_nodes_are_far() {
    let world = World::new(2, &[500 * MS; 3], &LockOptions::default());
    let pool = |client: usize| world.clients[client].0.semaphore("pool", 1);
    // Make the semaphore before the client knows the nodes' distance.
    let waiter = pool(1);
    drop(world.clients[1].0.lock("one").acquire(PATIENCE).await.unwrap());
    let holder = pool(0).acquire(1, PATIENCE).await.unwrap();
    let waits = tokio::spawn(async move { waiter.acquire(1, PATIENCE).await });
    let seen = at_gate(&world.clients[0].0).await;
    let left = seen.nodes.iter().filter_map(|(_, said)| said.as_ref().ok()?.remaining).max();
    // The gate is held for 3 s and four round trips at a time.
    assert!(left > Some(4_000 * MS), "{left:?}");
    drop(holder);
    drop(waits.await.unwrap().unwrap());
}

const WAITERS: usize = 20;
const MINUTE: Duration = Duration::from_secs(60);

/// Lets each client wait for a minute in vain. Returns how many script calls the clients made.
async fn calls<F: Future<Output = Result<(), Error>>>(world: &World, work: impl Fn(Quorum) -> F) -> u64 {
    let before = world.calls();
    let done = join_all(world.clients[1..].iter().map(|(quorum, _)| work(quorum.clone()))).await;
    assert!(done.iter().all(|done| done.as_ref().is_err_and(Error::is_timeout)));
    world.calls() - before
}

#[tokio::test(start_paused = true)]
async fn gate_waiters_cost_at_most_about_twice_the_lock_calls() {
    let world = World::new(1 + WAITERS, &millis(NEAR), &LockOptions::default());
    let held = world.clients[0].0.lock("one").acquire(PATIENCE).await.unwrap();
    let lock = calls(&world, async |quorum| quorum.lock("one").acquire(MINUTE).await.map(drop)).await;
    drop(held);
    let held = world.clients[0].0.semaphore("pool", 1).acquire(1, PATIENCE).await.unwrap();
    let pool = calls(&world, async |quorum| quorum.semaphore("pool", 1).acquire(1, MINUTE).await.map(drop)).await;
    drop(held);
    // The holder of the gate also renews the gate and waits for a permit.
    let most = 2 * lock + 5 * 70;
    assert!(pool <= most, "{pool} calls, and not {most}: {lock} for a lock");
}
