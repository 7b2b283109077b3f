//! Tests of queues: several clients contend over the same memory nodes, at chosen distances. The
//! clock moves only when all tasks wait.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "these are tests"
)]

#[path = "../fault/mod.rs"]
mod fault;
mod faults;
mod gate;
mod played;
mod tries;
mod voting;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::fault::Faults;
use quorumlock::LockOptions;

use crate::world::{MS, PATIENCE, World, millis};

/// How long contention lasts: forty sections for each of sixteen workers, or ten for each of 64.
const LASTS: u64 = 10;

/// The results of a run with contention.
#[derive(Debug)]
struct Contention {
    sections: Vec<u32>,
    per_second: f64,
    /// Script calls for each section, on all nodes together.
    calls: f64,
}

impl Contention {
    fn spread(&self) -> f64 {
        f64::from(*self.sections.iter().max().unwrap()) / f64::from(*self.sections.iter().min().unwrap())
    }
}

/// Runs `workers` workers over all clients for `seconds`. Each section holds the lock for `hold`.
async fn contend(world: &World, workers: usize, hold: Duration, seconds: u64) -> Contention {
    let inside = Arc::new(AtomicU32::new(0));
    let last = Arc::new(AtomicU64::new(0));
    let began = tokio::time::Instant::now();
    let end = began + Duration::from_secs(seconds);
    let work = |worker: usize| {
        let lock = world.clients[worker % world.clients.len()].0.lock("one");
        let (inside, last) = (inside.clone(), last.clone());
        async move {
            let mut sections = 0;
            while tokio::time::Instant::now() < end {
                let guard = lock.acquire(PATIENCE).await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
                assert!(last.swap(guard.token(), Ordering::SeqCst) < guard.token(), "tokens grow");
                tokio::time::sleep(hold).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(guard);
                sections += 1;
            }
            sections
        }
    };
    let before = world.calls();
    let sections: Vec<u32> = futures::future::join_all((0..workers).map(work)).await;
    let calls = world.calls() - before;
    let total = sections.iter().sum::<u32>();
    Contention {
        per_second: f64::from(total) / began.elapsed().as_secs_f64(),
        calls: calls as f64 / f64::from(total),
        sections,
    }
}

const NEAR: [u32; 5] = [10; 5];
const REGIONS: [u32; 5] = [2, 12, 40, 80, 160];

async fn sixteen(trips: [u32; 5], options: &LockOptions, clients: usize) -> Contention {
    let world = World::new(clients, &millis(trips), options);
    contend(&world, 16, 5 * MS, LASTS).await
}

/// Sections per second, if each takes `hold` and one round trip.
fn ideal(hold: Duration, round_trip: Duration) -> f64 {
    1.0 / (hold + round_trip).as_secs_f64()
}

#[tokio::test(start_paused = true)]
async fn section_costs_one_round_trip_in_and_across_processes() {
    for clients in [16, 4, 1] {
        let fair = sixteen(NEAR, &LockOptions::default(), clients).await;
        assert!(fair.per_second >= 0.93 * ideal(5 * MS, 10 * MS) && fair.spread() <= 1.1, "{clients}: {fair:?}");
        assert!(fair.calls <= 12.0, "{clients}: {fair:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn fair_contenders_are_served_more_evenly_than_unfair_ones() {
    let fair = sixteen(NEAR, &LockOptions::default(), 4).await;
    let barging = sixteen(NEAR, &LockOptions::default().fair(false), 4).await;
    assert!(fair.spread() < barging.spread(), "{barging:?}");
}

#[tokio::test(start_paused = true)]
async fn waiter_with_a_high_min_validity_claims_once_more() {
    let options = LockOptions::default().min_validity(20_000 * MS);
    let strict = sixteen(NEAR, &options, 4).await;
    assert!(strict.per_second >= 0.85 / 0.025 && strict.spread() <= 1.3 && strict.calls <= 20.0, "{strict:?}");
}

#[tokio::test(start_paused = true)]
async fn load_on_the_nodes_does_not_grow_with_the_waiters() {
    for clients in [16, 64] {
        let world = World::new(clients, &millis(NEAR), &LockOptions::default());
        let many = contend(&world, 64, 5 * MS, LASTS).await;
        assert!(many.calls <= 12.0 && many.spread() <= 1.1, "{many:?}");
        assert!(many.per_second >= 0.93 * ideal(5 * MS, 10 * MS), "{many:?}");
    }
}

/// The callers wait for a long hold, and one node is down.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_down_makes_nobody_ask_more_often() {
    let world = World::new(17, &millis(NEAR), &LockOptions::default());
    world.clients.iter().for_each(|(_, faults)| faults[4].kill());
    let guard = world.clients[0].0.lock("one").acquire(PATIENCE).await.unwrap();
    let waiting = world.clients[1..].iter().map(|(quorum, _)| {
        let lock = quorum.lock("one");
        async move { lock.acquire(30_000 * MS).await.map(drop) }
    });
    let before = world.calls();
    let done = futures::future::join_all(waiting).await;
    assert!(done.iter().all(|done| done.as_ref().is_err_and(quorumlock::Error::is_timeout)));
    // Each waiter joins and leaves. Two waiters ask every 760 ms and the others every 3,040 ms, and
    // the holder renews.
    let most = 5 * (16 * 2 + 2 * 41 + 14 * 10 + 4);
    assert!(world.calls() - before <= most, "{} calls, and not {most}", world.calls() - before);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn contenders_at_unequal_distances_are_all_served() {
    let world = World::new(4, &millis(REGIONS), &LockOptions::default());
    let far = contend(&world, 64, 5 * MS, 30).await;
    assert!(
        far.per_second >= 0.85 * ideal(5 * MS, 40 * MS) && far.sections.iter().all(|&sections| sections > 0),
        "{far:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_line_works_with_a_bare_quorum_of_nodes() {
    let world = World::new(8, &millis(NEAR), &LockOptions::default());
    for (_, faults) in &world.clients {
        faults[3..].iter().for_each(Faults::kill);
    }
    let contention = contend(&world, 16, 5 * MS, LASTS).await;
    assert!(contention.per_second >= 0.93 * ideal(5 * MS, 10 * MS) && contention.spread() <= 1.3, "{contention:?}");
    assert!(contention.calls <= 12.0, "{contention:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_heat_on_a_free_lock_is_won_without_pauses() {
    let world = World::new(8, &millis(NEAR), &LockOptions::default());
    let began = tokio::time::Instant::now();
    let locks: Vec<_> = world.clients.iter().map(|(quorum, _)| quorum.lock("one")).collect();
    let first = futures::future::select_all(locks.iter().map(|lock| Box::pin(lock.acquire(PATIENCE)))).await.0.unwrap();
    assert!(began.elapsed() <= 45 * MS, "a split round, the turn, and a second round: {:?}", began.elapsed());
    drop(first);
}

/// A client that holds the lock, and a client that waits in its queue. Returns when all nodes have
/// stored the hold and the waiter.
async fn held_and_waiting(world: &World) -> (quorumlock::LockGuard, tokio::task::JoinHandle<quorumlock::LockGuard>) {
    let guard = world.clients[0].0.lock("one").acquire(PATIENCE).await.unwrap();
    let lock = world.clients[1].0.lock("one");
    let waiter = tokio::spawn(async move { lock.acquire(PATIENCE).await.unwrap() });
    in_line(world, 1).await;
    (guard, waiter)
}

/// Waits until the queue of every node has `count` waiters.
async fn in_line(world: &World, count: u32) {
    for _ in 0..1_000 {
        let seen = world.clients[0].0.inspect("one").await.unwrap();
        if seen.nodes.iter().all(|(_, said)| said.as_ref().is_ok_and(|said| said.waiting == count)) {
            return;
        }
        tokio::time::sleep(MS).await;
    }
    panic!("there never were {count} in line");
}

/// Clients that wait for one lock, in this order.
struct Queued {
    world: World,
    guard: quorumlock::LockGuard,
    dead: Vec<tokio::task::JoinHandle<quorumlock::LockGuard>>,
    last: tokio::task::JoinHandle<quorumlock::LockGuard>,
}

impl Queued {
    async fn new(dead: usize) -> Self {
        let world = World::new(2 + dead, &millis([10; 3]), &LockOptions::default());
        let guard = world.clients[0].0.lock("one").acquire(PATIENCE).await.unwrap();
        let mut waiters = Vec::new();
        for (number, (quorum, _)) in (1..).zip(&world.clients[1..]) {
            let lock = quorum.lock("one");
            waiters.push(tokio::spawn(async move { lock.acquire(PATIENCE).await.unwrap() }));
            in_line(&world, number).await;
        }
        let last = waiters.pop().unwrap();
        Self { world, guard, dead: waiters, last }
    }

    /// Applies `how` to the links of all waiters except the last, and cancels these waiters.
    fn strike(&self, how: impl Fn(&Faults)) {
        let clients = &self.world.clients[1..=self.dead.len()];
        clients.iter().for_each(|(_, faults)| faults.iter().for_each(&how));
        self.dead.iter().for_each(tokio::task::JoinHandle::abort);
    }

    /// Releases the lock. Returns how long it takes until the last waiter has it.
    async fn released(self) -> Duration {
        let began = tokio::time::Instant::now();
        drop(self.guard);
        drop(self.last.await.unwrap());
        began.elapsed()
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_killed_at_the_head_cost_the_next_one_nothing() {
    for (dead, age) in [(1, 0), (30, 0), (30, 9_000)] {
        let queued = Queued::new(dead).await;
        tokio::time::sleep(age * MS).await;
        queued.strike(Faults::kill);
        let took = queued.released().await;
        // If the last ask is too old, a push does not count, and the waiter must ask again.
        assert!(took <= 25 * MS, "{dead} after {age}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_cut_off_at_the_head_delays_the_next_by_a_hand_over() {
    for dead in [1, 2] {
        let queued = Queued::new(dead).await;
        queued.strike(Faults::pause);
        let took = queued.released().await;
        // Each hand-over lasts for 3 s and four round trips.
        assert!(took <= (3_040 + 60) * MS * u32::try_from(dead).unwrap(), "{dead}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_cut_off_long_ago_cost_the_next_one_nothing() {
    let queued = Queued::new(30).await;
    queued.strike(Faults::pause);
    // Wait for twice the announced time. Waiters far behind announce a third of 30 s.
    tokio::time::sleep(20_100 * MS).await;
    let took = queued.released().await;
    assert!(took <= 25 * MS, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn thousand_waiters_in_one_process_cost_no_more_than_one() {
    let mut asked = Vec::new();
    for waiters in [1, 1_000] {
        let world = World::new(2, &millis(NEAR), &LockOptions::default());
        let guard = world.clients[0].0.lock("one").acquire(PATIENCE).await.unwrap();
        let before = world.calls();
        let lock = world.clients[1].0.lock("one");
        let waiting = (0..waiters).map(|_| {
            let lock = lock.clone();
            async move { lock.acquire(30_000 * MS).await.map(drop) }
        });
        let done = futures::future::join_all(waiting).await;
        assert!(done.iter().all(|done| done.as_ref().is_err_and(quorumlock::Error::is_timeout)));
        asked.push(world.calls() - before);
        drop(guard);
    }
    // Pauses are random, so there may be one more round.
    assert!(asked[0].abs_diff(asked[1]) <= 2 * 5, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_single_try_neither_joins_a_line_nor_overtakes_one() {
    let world = World::new(3, &millis(NEAR), &LockOptions::default());
    let (guard, waiter) = held_and_waiting(&world).await;
    let try_lock = world.clients[2].0.lock("one");
    assert!(try_lock.try_acquire().await.unwrap().is_none());
    in_line(&world, 1).await;
    drop(guard);
    // Each node hands the lock over in the call that releases it.
    while !waiter.is_finished() {
        assert!(try_lock.try_acquire().await.unwrap().is_none());
    }
    drop(waiter.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn lost_hints_cost_time_and_never_a_hang() {
    let world = World::new(2, &millis(NEAR), &LockOptions::default());
    let (guard, waiter) = held_and_waiting(&world).await;
    world.clients[1].1.iter().for_each(|faults| faults.lose_hints(true));
    let began = tokio::time::Instant::now();
    drop(guard);
    drop(waiter.await.unwrap());
    // The waiter asks again after a quarter of a hand-over. After that, it needs round trips to
    // learn of the push that was lost.
    assert!(began.elapsed() <= (760 + 30) * MS, "a waiter asks by itself: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn hints_that_come_twice_or_only_from_some_nodes_change_little() {
    let world = World::new(4, &millis(NEAR), &LockOptions::default());
    for (_, faults) in &world.clients {
        faults.iter().for_each(|faults| faults.double_hints(true));
        faults[..2].iter().for_each(|faults| faults.lose_hints(true));
    }
    let contention = contend(&world, 16, 5 * MS, LASTS).await;
    assert!(contention.per_second > 50.0 && contention.spread() <= 1.3, "{contention:?}");
}

#[tokio::test(start_paused = true)]
async fn waiter_that_gives_up_leaves_the_queue() {
    let world = World::new(2, &millis(NEAR), &LockOptions::default());
    let (guard, dropped) = held_and_waiting(&world).await;
    dropped.abort();
    in_line(&world, 0).await;
    let late = world.clients[1].0.lock("one").acquire(200 * MS).await.unwrap_err();
    assert!(late.is_timeout());
    in_line(&world, 0).await;
    drop(guard);
    for (quorum, _) in &world.clients {
        quorum.quiet().await;
        assert_eq!(quorum.in_use(), (0, 0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn lock_handed_to_a_caller_that_has_gone_is_released() {
    let world = World::new(2, &millis(NEAR), &LockOptions::default());
    let lock = world.clients[0].0.lock("one");
    let guard = lock.acquire(PATIENCE).await.unwrap();
    let mut follower = Box::pin(lock.acquire(PATIENCE));
    assert!(futures::poll!(&mut follower).is_pending());
    drop(guard);
    drop(follower);
    let began = tokio::time::Instant::now();
    drop(world.clients[1].0.lock("one").acquire(PATIENCE).await.unwrap());
    assert!(began.elapsed() <= 30 * MS, "{:?}", began.elapsed());
    world.clients[0].0.quiet().await;
    assert_eq!(world.clients[0].0.in_use(), (0, 0, 0));
}
