//! Semaphores: at most K permits at a time, in order, all or nothing.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::join_all;
use quorumlock::{MAX_PERMITS, PermitsGuard, Quorum, QuorumSemaphore, Released};

use crate::common::{PATIENCE, answered, eventually, released};
use crate::world::World;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

pub fn numbers(guard: &PermitsGuard) -> Vec<u32> {
    guard.permits().iter().map(|permit| permit.number).collect()
}

pub async fn one(semaphore: &QuorumSemaphore) -> PermitsGuard {
    semaphore.acquire(1, PATIENCE).await.unwrap()
}

/// Whether an owner waits for `name` on a quorum of three nodes.
pub async fn waits(client: &Quorum, name: &str) -> bool {
    let seen = client.inspect(name).await.unwrap();
    let waits = |node: &quorumlock::Inspection| node.waiting > 0;
    seen.nodes.iter().filter(|(_, said)| said.as_ref().is_ok_and(waits)).count() >= 2
}

/// How many more hellos than [`World::hellos`] may come if the machine stalls.
pub fn later_hellos(world: &impl World, began: Instant) -> u64 {
    world.hellos() * (began.elapsed().as_secs() / 2)
}

/// Whether a quorum of nodes holds `name`.
async fn is_held(client: &Quorum, name: &str) -> bool {
    client.inspect(name).await.unwrap().holder().is_some()
}

/// Waits until no owner holds or waits for the gate or a permit of the semaphore `it`.
async fn nothing_is_left(world: &impl World, client: &Quorum, permits: u32) {
    let names = (0..permits).map(|number| format!("it/{number}")).chain(["it".to_owned()]);
    for name in names {
        world.freed(&name).await;
        eventually("nobody waits", async || !waits(client, &name).await).await;
    }
}

async fn held_permits_never_exceed_the_semaphores_number(world: impl World) {
    let clients = join_all((0..4).map(|_| world.client())).await;
    let (held, most) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let works = clients.iter().flat_map(|client| [client.clone(), client.clone()]).map(|client| {
        let (held, most, world) = (held.clone(), &most, &world);
        async move {
            let semaphore = client.semaphore("it", 3);
            for round in 0..4 {
                let many = 1 + round % 2;
                let guard = semaphore.acquire(many, PATIENCE).await.unwrap();
                let (left, began, many) = (guard.remaining(), Instant::now(), many as usize);
                most.fetch_max(held.fetch_add(many, Ordering::SeqCst) + many, Ordering::SeqCst);
                tokio::time::sleep(5 * MS).await;
                held.fetch_sub(many, Ordering::SeqCst);
                // Permits that were handed over begin with a short validity.
                assert!(guard.is_held() || world.stalls() && began.elapsed() >= left);
                released(guard.release()).await;
            }
        }
    });
    join_all(works).await;
    let most = most.into_inner();
    assert!((2..=3).contains(&most), "{most}");
    nothing_is_left(&world, &clients[0], 3).await;
}

async fn each_permit_has_one_holder_and_a_growing_token(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let (semaphore, another) = (client.semaphore("it", 3), other.semaphore("it", 3));
    let guards = [one(&semaphore).await, one(&another).await, one(&semaphore).await];
    let mut held: Vec<_> = guards.iter().flat_map(numbers).collect();
    held.sort_unstable();
    assert_eq!(held, [0, 1, 2]);
    for semaphore in [&semaphore, &another] {
        assert!(answered(|| semaphore.try_acquire(1)).await.is_none());
        let error = world.answer(async || semaphore.acquire(1, 50 * MS).await).await.unwrap_err();
        assert!(error.is_timeout() && error.to_string().contains("1 of the 3 permits of \"it\""), "{error}");
        let error = world.answer(async || semaphore.acquire(1, Duration::ZERO).await).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
    }
    let before = guards[1].permits()[0];
    let [_a, b, _c] = guards;
    assert_eq!(b.name(), "it");
    assert_eq!(released(b.release()).await, Released::Released);
    world.freed(&format!("it/{}", before.number)).await;
    let next = answered(|| semaphore.try_acquire(1)).await.expect("one is free").permits()[0];
    assert!(next.number == before.number && next.token > before.token, "{before:?} {next:?}");
}

async fn several_permits_are_taken_together_or_not_at_all(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let (semaphore, another) = (client.semaphore("it", 4), other.semaphore("it", 4));
    let three = semaphore.acquire(3, PATIENCE).await.unwrap();
    assert_eq!(three.permits().len(), 3);
    assert!(answered(|| another.try_acquire(2)).await.is_none());
    assert!(world.answer(async || another.acquire(2, 100 * MS).await).await.unwrap_err().is_timeout());
    // The permits that the failed caller held while it waited are released.
    eventually("one is free", async || another.try_acquire(1).await.is_ok_and(|won| won.is_some())).await;
    drop(three);
    let all = another.acquire(4, PATIENCE).await.unwrap();
    assert_eq!(numbers(&all), [0, 1, 2, 3]);
    eventually("it has its whole ttl", async || all.ensure(SECOND).is_ok()).await;
    assert!(all.ensure(600 * SECOND).unwrap_err().is_lost());
}

async fn first_waiter_is_served_first_whatever_it_requests(world: impl World) {
    let (client, large, small) = (world.client().await, world.client().await, world.client().await);
    let semaphore = client.semaphore("it", 2);
    let (first, second) = (one(&semaphore).await, one(&semaphore).await);
    let (large, small) = (large.semaphore("it", 2), small.semaphore("it", 2));
    let mut two = pin!(large.acquire(2, PATIENCE));
    tokio::select! {
        _ = &mut two => panic!("none is free"),
        () = eventually("it waits for both", async || waits(&client, "it/0").await && waits(&client, "it/1").await) => {}
    }
    let mut late = pin!(small.acquire(1, PATIENCE));
    tokio::select! {
        _ = &mut two => panic!("none is free"),
        _ = &mut late => panic!("none is free"),
        () = eventually("it waits at the gate", async || waits(&client, "it").await) => {}
    }
    released(first.release()).await;
    tokio::select! {
        _ = &mut two => panic!("one is held"),
        _ = &mut late => panic!("the other was before"),
        () = tokio::time::sleep(200 * MS) => {}
    }
    assert!(answered(|| semaphore.try_acquire(1)).await.is_none(), "nobody passes those that wait");
    released(second.release()).await;
    let two = tokio::select! {
        two = &mut two => two.unwrap(),
        _ = &mut late => panic!("the other was before"),
    };
    released(two.release()).await;
    assert!(late.await.unwrap().is_held());
}

async fn uncontended_permit_costs_each_node_a_claim_and_two_releases(world: impl World) {
    let client = world.client().await;
    let semaphore = client.semaphore("it", 5);
    let asked = || world.all().iter().map(|&node| world.asked(node)).collect::<Vec<_>>();
    for many in [1, 3] {
        let (before, began) = (asked(), Instant::now());
        let guard = semaphore.acquire(many, PATIENCE).await.unwrap();
        // When the call returns, at least two nodes have got its claim.
        let now = asked();
        assert!(now.iter().zip(&before).filter(|(now, before)| now > before).count() >= 2);
        released(guard.release()).await;
        for name in ["it", "it/0", "it/1", "it/2", "it/3", "it/4"] {
            world.freed(name).await;
        }
        let costs = || asked().iter().zip(&before).map(|(now, before)| now - before).collect::<Vec<_>>();
        // The claim and the releases may come late to one node.
        eventually("each node was asked", async || costs().iter().all(|&cost| cost >= 2)).await;
        // One call may have two releases, and a hello may come in between.
        let (costs, more) = (costs(), later_hellos(&world, began));
        assert!(costs.iter().all(|&cost| cost <= 4 + more), "{costs:?}");
    }
}

async fn a_permit_that_is_free_is_found_among_many_that_are_held(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let most = 40;
    let held = client.semaphore("it", most).acquire(most - 1, PATIENCE).await.unwrap();
    let free = (0..most).find(|number| !numbers(&held).contains(number)).unwrap();
    for _ in 0..3 {
        let semaphore = other.semaphore("it", most);
        let guard = match answered(|| semaphore.try_acquire(1)).await {
            Some(guard) => guard,
            // The permit may not be free on all nodes yet after the previous release.
            None => one(&semaphore).await,
        };
        assert_eq!(numbers(&guard), [free]);
        released(guard.release()).await;
    }
}

async fn waiter_for_one_of_many_permits_wakes_at_any_release(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let semaphore = client.semaphore("it", 40);
    let mut held = join_all((0..40).map(|_| one(&semaphore))).await;
    let another = other.semaphore("it", 40);
    for _ in 0..4 {
        let mut waiting = pin!(another.acquire(1, PATIENCE));
        tokio::select! {
            _ = &mut waiting => panic!("none is free"),
            () = eventually("it holds the gate", async || is_held(&client, "it").await) => {}
        }
        let last = held.pop().unwrap();
        let number = numbers(&last);
        released(last.release()).await;
        let guard = waiting.await.unwrap();
        assert_eq!(numbers(&guard), number);
        released(guard.release()).await;
        held.push(one(&semaphore).await);
    }
}

/// The number of permits of the semaphore `it` for which an owner waits.
async fn waited_for(client: &Quorum, permits: u32) -> usize {
    let names: Vec<_> = (0..permits).map(|number| format!("it/{number}")).collect();
    let waited = join_all(names.iter().map(|name| waits(client, name))).await;
    waited.into_iter().filter(|waits| *waits).count()
}

async fn waiter_for_more_permits_than_it_watches_gets_them(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let held = client.semaphore("it", 17).acquire(17, PATIENCE).await.unwrap();
    let another = other.semaphore("it", 17);
    let mut waiting = pin!(another.acquire(17, PATIENCE));
    tokio::select! {
        _ = &mut waiting => panic!("none is free"),
        () = eventually("it waits for 16", async || waited_for(&client, 17).await == 16) => {}
    }
    released(held.release()).await;
    assert_eq!(waiting.await.unwrap().permits().len(), 17);
}

async fn waiter_for_more_permits_than_it_watches_waits_to_the_end(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let semaphore = client.semaphore("it", 17);
    let most = semaphore.acquire(16, PATIENCE).await.unwrap();
    // The hold of the last permit ends last, so no waiter joins its queue.
    tokio::time::sleep(100 * MS).await;
    let last = one(&semaphore).await;
    let another = other.semaphore("it", 17);
    let began = tokio::time::Instant::now();
    let mut waiting = pin!(another.acquire(17, SECOND));
    tokio::select! {
        _ = &mut waiting => panic!("none is free"),
        () = eventually("it waits for 16", async || waited_for(&client, 17).await == 16) => {}
    }
    released(most.release()).await;
    let error = waiting.await.unwrap_err();
    assert!(error.is_timeout() && began.elapsed() >= SECOND, "{:?}: {error}", began.elapsed());
    drop(last);
}

async fn acquisition_cancelled_at_any_moment_leaves_nothing_behind(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let semaphore = client.semaphore("it", 3);
    let two = semaphore.acquire(2, PATIENCE).await.unwrap();
    let another = other.semaphore("it", 3);
    for after in [0, 1, 2, 3, 5, 8, 13, 21, 34, 80] {
        let _ = tokio::time::timeout(MS * after, another.acquire(2, PATIENCE)).await;
        assert!((&mut pin!(another.acquire(1, PATIENCE))).now_or_never().is_none_or(|won| won.is_ok()));
    }
    released(two.release()).await;
    nothing_is_left(&world, &client, 3).await;
    assert!(semaphore.acquire(3, PATIENCE).await.unwrap().is_held());
}

async fn holder_that_loses_one_permit_loses_all(world: impl World) {
    let (client, other) = (world.client_with(|builder| builder.ttl(world.ttl())).await, world.client().await);
    let semaphore = client.semaphore("it", 3);
    let two = semaphore.acquire(2, PATIENCE).await.unwrap();
    let (lease, cancelled) = (two.lease(), two.cancellation());
    let second = format!("it/{}", numbers(&two)[1]);
    world.answer(async || other.revoke(&second).await).await.unwrap();
    tokio::time::timeout(PATIENCE, lease.lost()).await.expect("the loss is told");
    assert!(!two.is_held() && cancelled.is_cancelled() && two.ensure(Duration::ZERO).unwrap_err().is_lost());
    assert_eq!(two.release().await.unwrap(), Released::AlreadyExpired);
    assert!(other.semaphore("it", 3).acquire(3, PATIENCE).await.is_ok());
}

async fn permits_are_renewed_for_as_long_as_they_are_held(world: impl World) {
    let (client, other) = (world.client_with(|builder| builder.ttl(300 * MS)).await, world.client().await);
    let guard = client.semaphore("it", 2).acquire(2, PATIENCE).await.unwrap();
    assert!(other.semaphore("it", 2).acquire(1, SECOND).await.unwrap_err().is_timeout());
    assert!(guard.is_held());
    // A waiter that holds the gate for longer than `max_hold` does not lose the gate either.
    let short = client.semaphore_with("it", 2, &client.options().max_hold(300 * MS)).unwrap();
    let mut waiting = pin!(short.acquire(2, PATIENCE));
    tokio::select! {
        _ = &mut waiting => panic!("none is free"),
        () = tokio::time::sleep(SECOND) => {}
    }
    released(guard.release()).await;
    assert!(waiting.await.unwrap().is_held());
}

async fn a_body_runs_with_its_permits_and_not_without(world: impl World) {
    let (client, other) = (world.client_with(|builder| builder.ttl(world.ttl())).await, world.client().await);
    let semaphore = client.semaphore("it", 2);
    let many = semaphore.run(2, PATIENCE, |lease| async move { lease.permits().len() }).await.unwrap();
    assert_eq!(many, 2);
    let failed: Result<(), Box<dyn std::error::Error>> =
        semaphore.try_run(1, PATIENCE, |_| async { Err("it fails".into()) }).await;
    assert_eq!(failed.unwrap_err().to_string(), "it fails");
    let body = semaphore.run(1, PATIENCE, async |lease: quorumlock::PermitsLease| {
        let permit = format!("it/{}", lease.permits()[0].number);
        world.answer(async || other.revoke(&permit).await).await.unwrap();
        std::future::pending::<()>().await;
    });
    assert!(body.await.unwrap_err().is_lost());
    nothing_is_left(&world, &other, 2).await;
}

async fn bad_permit_numbers_and_names_are_refused_with_a_hint(world: impl World) {
    // A busy machine takes seconds for the many names below.
    let client = world.client_with(|builder| builder.node_timeout(20 * SECOND)).await;
    let too_many = MAX_PERMITS + 1;
    let long = "x".repeat(1_024);
    for (semaphore, many, says) in [
        (client.semaphore("it", 0), 1, "has 0 permits; give it 1 to 1000"),
        (client.semaphore("it", too_many), 1, "has 1001 permits; give it 1 to 1000"),
        (client.semaphore("it", 3), 0, "it has 3: ask for 1 to 3"),
        (client.semaphore("it", 3), 4, "it has 3: ask for 1 to 3"),
        (client.semaphore("", 3), 1, "empty"),
        (client.semaphore(&long, 3), 1, "at most 1024"),
    ] {
        for error in [
            semaphore.acquire(many, SECOND).await.unwrap_err(),
            semaphore.acquire_default(many).await.unwrap_err(),
            semaphore.try_acquire(many).await.unwrap_err(),
        ] {
            assert!(error.is_config() && error.to_string().contains(says), "{error}");
        }
    }
    for permits in [0, too_many] {
        assert!(client.semaphore_with("it", permits, &client.options()).unwrap_err().is_config());
    }
    let options = client.options().round_timeout(5 * SECOND);
    let semaphore = client.semaphore_with("it", MAX_PERMITS, &options).unwrap();
    let all = semaphore.acquire(MAX_PERMITS, PATIENCE).await.unwrap();
    assert_eq!(all.permits().len(), MAX_PERMITS as usize);
}

async fn shutdown_ends_waiters_and_frees_held_permits(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let semaphore = client.semaphore("it", 2);
    let guard = semaphore.acquire(2, PATIENCE).await.unwrap();
    let mut waiting = pin!(semaphore.acquire(1, PATIENCE));
    tokio::select! {
        _ = &mut waiting => panic!("none is free"),
        () = eventually("it holds the gate", async || is_held(&other, "it").await) => {}
    }
    let (waiting, ()) = tokio::join!(waiting, client.shutdown(PATIENCE));
    assert!(waiting.unwrap_err().is_closed() && !guard.is_held());
    nothing_is_left(&world, &other, 2).await;
    assert!(semaphore.try_acquire(1).await.unwrap_err().is_closed());
}

async fn permits_are_held_by_a_majority_and_not_by_less(mut world: impl World) {
    let client = world.client().await;
    world.kill(2);
    let semaphore = client.semaphore("it", 2);
    let guard = one(&semaphore).await;
    assert!(one(&semaphore).await.is_held());
    world.kill(1);
    assert!(semaphore.try_acquire(1).await.unwrap_err().is_unavailable());
    let error = semaphore.acquire(1, 300 * MS).await.unwrap_err();
    assert!(error.is_unavailable() && error.nodes().len() == 3, "{error}");
    drop(guard);
}

both! {
    3 nodes:
        held_permits_never_exceed_the_semaphores_number,
        each_permit_has_one_holder_and_a_growing_token,
        several_permits_are_taken_together_or_not_at_all,
        first_waiter_is_served_first_whatever_it_requests,
        uncontended_permit_costs_each_node_a_claim_and_two_releases,
        a_permit_that_is_free_is_found_among_many_that_are_held,
        waiter_for_one_of_many_permits_wakes_at_any_release,
        waiter_for_more_permits_than_it_watches_gets_them,
        acquisition_cancelled_at_any_moment_leaves_nothing_behind,
        holder_that_loses_one_permit_loses_all,
        a_body_runs_with_its_permits_and_not_without,
        bad_permit_numbers_and_names_are_refused_with_a_hint,
        shutdown_ends_waiters_and_frees_held_permits,
        permits_are_held_by_a_majority_and_not_by_less;
    memory 3 nodes:
        waiter_for_more_permits_than_it_watches_waits_to_the_end,
        permits_are_renewed_for_as_long_as_they_are_held;
}
