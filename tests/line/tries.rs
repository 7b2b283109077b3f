//! Tries that begin at the same moment in several regions. One try gets the lock. No try fails
//! because of another try that fails too.

use std::future::Future;
use std::time::Duration;

use crate::fault::Faults;
use futures::future::join_all;
use quorumlock::node::Verb;
use quorumlock::{LockOptions, Quorum, Result};
use tokio::time::Instant;

use crate::world::{MS, World, millis};

/// How often each test starts the tries.
const STARTS: usize = 50;
/// The default round timeout.
const ROUND_TIMEOUT: Duration = Duration::from_secs(2);

/// This many regions, each with a node and a client. Other regions are 40 ms away.
fn regions(count: usize) -> World {
    let trips = |client| (0..count).map(|node| if node == client { 2 * MS } else { 40 * MS }).collect();
    World::of(&(0..count).map(trips).collect::<Vec<_>>(), &LockOptions::default())
}

/// Starts `work` for all clients at the same moment. Returns which clients got a lock. These
/// clients keep the locks until all clients have an answer.
async fn at_once<T, F: Future<Output = Result<Option<T>>>>(world: &World, work: impl Fn(Quorum) -> F) -> Vec<bool> {
    let began = Instant::now();
    let got = join_all(world.clients.iter().map(|(quorum, _)| work(quorum.clone()))).await;
    assert!(began.elapsed() <= 2 * ROUND_TIMEOUT, "{:?}", began.elapsed());
    got.iter().map(|got| got.as_ref().unwrap().is_some()).collect()
}

fn winners(got: &[bool]) -> usize {
    got.iter().filter(|got| **got).count()
}

#[tokio::test(start_paused = true)]
async fn simultaneous_tries_give_one_of_them_the_lock() {
    for start in 0..STARTS {
        let world = regions(3);
        let got = at_once(&world, async |quorum| quorum.lock("job").try_acquire().await).await;
        assert_eq!(winners(&got), 1, "start {start}: {got:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn simultaneous_tries_in_five_regions_give_one_the_lock() {
    for start in 0..STARTS {
        let world = regions(5);
        let got = at_once(&world, async |quorum| quorum.lock("job").try_acquire().await).await;
        assert_eq!(winners(&got), 1, "start {start}: {got:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn simultaneous_zero_timeouts_give_one_the_lock() {
    for start in 0..STARTS {
        let world = regions(3);
        let got = at_once(&world, async |quorum| match quorum.lock("job").acquire(Duration::ZERO).await {
            Err(error) if error.is_timeout() => Ok(None),
            got => got.map(Some),
        });
        let got = got.await;
        assert_eq!(winners(&got), 1, "start {start}: {got:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn timeouts_shorter_than_a_round_give_one_the_lock() {
    for start in 0..STARTS {
        let world = regions(3);
        let got = at_once(&world, async |quorum| match quorum.lock("job").acquire(10 * MS).await {
            Err(error) if error.is_timeout() => Ok(None),
            got => got.map(Some),
        });
        let got = got.await;
        assert_eq!(winners(&got), 1, "start {start}: {got:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn simultaneous_tries_for_several_names_give_one_all_of_them() {
    for start in 0..STARTS {
        let world = regions(3);
        let got = at_once(&world, async |quorum| quorum.lock_all(["a", "job", "z"]).try_acquire().await).await;
        assert_eq!(winners(&got), 1, "start {start}: {got:?}");
    }
}

/// Each of the three clients is near a node of its own.
#[tokio::test(start_paused = true)]
async fn simultaneous_tries_to_read_or_write_give_one_the_lock() {
    for start in 0..STARTS {
        let world = regions(3);
        let [one, other, third] = [0, 1, 2].map(|client| world.clients[client].0.rw_lock("prices"));
        let (reader, one, other) = tokio::join!(one.try_read(), other.try_write(), third.try_write());
        let got = [reader.unwrap().is_some(), one.unwrap().is_some(), other.unwrap().is_some()];
        assert_eq!(winners(&got), 1, "start {start}: {got:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn simultaneous_claims_of_a_period_give_one_the_period() {
    for start in 0..STARTS {
        let world = regions(3);
        let got = at_once(&world, async |quorum| quorum.once("report", Duration::from_secs(60)).claim().await).await;
        assert_eq!(winners(&got), 1, "start {start}: {got:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn simultaneous_tries_for_enough_permits_give_each_one() {
    for start in 0..STARTS {
        let world = regions(3);
        let got = at_once(&world, async |quorum| quorum.semaphore("slots", 3).try_acquire(1).await).await;
        assert_eq!(winners(&got), 3, "start {start}: {got:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn simultaneous_tries_for_too_few_permits_give_out_all() {
    for start in 0..STARTS {
        let world = regions(3);
        let got = at_once(&world, async |quorum| quorum.semaphore("slots", 2).try_acquire(1).await).await;
        assert_eq!(winners(&got), 2, "start {start}: {got:?}");
    }
}

/// A world of three near nodes. Two clients have tried to get the names, and have died. Two nodes
/// hold the names, each for a different one of these clients.
async fn split_for_good(tried: impl AsyncFn(&Quorum) -> bool) -> World {
    let world = World::new(3, &millis([10; 3]), &LockOptions::default());
    for (node, (quorum, faults)) in world.clients[1..].iter().enumerate() {
        (0..3).filter(|other| *other != node).for_each(|other| faults[other].kill());
        faults[node].hold_back(Verb::Withdraw);
        assert!(!tried(quorum).await);
    }
    world
}

async fn split_lock() -> World {
    split_for_good(async |quorum| quorum.lock("job").try_acquire().await.is_ok()).await
}

#[tokio::test(start_paused = true)]
async fn a_try_whose_votes_stay_split_ends_in_time_as_unavailable() {
    let world = split_lock().await;
    let (quorum, faults) = &world.clients[0];
    let began = Instant::now();
    let error = quorum.lock("job").try_acquire().await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("the votes were split"), "{error}");
    assert!(began.elapsed() <= 2 * ROUND_TIMEOUT, "{:?}", began.elapsed());
    // The ceiling of the random pauses grows to 250 ms, so the average pause is half of this.
    assert!((10..=70).contains(&faults[2].asked(Verb::Claim)), "{} rounds", faults[2].asked(Verb::Claim));
    quorum.quiet().await;
    assert!(quorum.inspect("job").await.unwrap().nodes[2].1.as_ref().unwrap().holder.is_none(), "given back");
}

#[tokio::test(start_paused = true)]
async fn a_try_for_permits_ends_in_time_where_votes_stay_split() {
    let world = split_for_good(async |quorum| quorum.semaphore("slots", 1).try_acquire(1).await.is_ok()).await;
    let began = Instant::now();
    let error = world.clients[0].0.semaphore("slots", 1).try_acquire(1).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("the votes were split"), "{error}");
    assert!(began.elapsed() <= 2 * ROUND_TIMEOUT, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_try_that_is_dropped_between_two_rounds_leaves_nothing() {
    let world = split_lock().await;
    let quorum = &world.clients[0].0;
    for after in 0..40 {
        let lock = quorum.lock("job");
        assert!(tokio::time::timeout(MS * after, lock.try_acquire()).await.is_err());
        quorum.quiet().await;
        assert_eq!(quorum.in_use(), (0, 0, 0));
        assert!(quorum.inspect("job").await.unwrap().nodes[2].1.as_ref().unwrap().holder.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_bare_quorum_names_the_holder_at_once() {
    for nodes in [3, 5] {
        let world = World::new(2, &vec![10 * MS; nodes], &LockOptions::default());
        let held = nodes / 2 + 1;
        world.clients[0].1[held..].iter().for_each(Faults::kill);
        let guard = world.clients[0].0.lock("job").try_acquire().await.unwrap().unwrap();
        for down in [false, true] {
            let (quorum, faults) = &world.clients[1];
            faults[held..].iter().filter(|_| down).for_each(Faults::kill);
            let began = Instant::now();
            assert!(quorum.lock("job").try_acquire().await.unwrap().is_none());
            assert!(began.elapsed() <= 15 * MS, "{:?}", began.elapsed());
        }
        drop(guard);
    }
}
