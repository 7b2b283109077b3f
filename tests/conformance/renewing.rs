//! Renewal and loss: how long a client counts a lock as held, and when the holder learns of the
//! loss.

use std::time::Duration;

use futures::poll;
use quorumlock::{LockGuard, LostReason, Quorum, Released};
use tokio::time::Instant;

use crate::common::{PATIENCE, eventually, inspected, released};
use crate::world::World;

async fn client(world: &impl World) -> Quorum {
    world.client_with(|builder| builder.ttl(world.ttl())).await
}

/// The ttl of locks that must be held when a scenario ends. A real machine may stall for most of
/// this time.
fn long_ttl(world: &impl World) -> Duration {
    world.ttl() * 2
}

async fn long_client(world: &impl World) -> Quorum {
    world.client_with(|builder| builder.ttl(long_ttl(world))).await
}

/// Waits until the loss is reported, which must happen by the deadline.
async fn lost(world: &impl World, guard: &LockGuard) -> LostReason {
    let deadline = Instant::now() + guard.remaining();
    let reason = tokio::time::timeout(PATIENCE, guard.lost()).await.expect("the loss is told");
    let late = Instant::now().saturating_duration_since(deadline);
    assert!(late <= world.slack(), "told {late:?} after the deadline");
    assert!(!guard.is_held() && guard.remaining().is_zero());
    assert!(guard.cancellation().is_cancelled());
    reason
}

async fn passed(time: Duration) {
    let until = Instant::now() + time;
    eventually("time passes", async || Instant::now() >= until).await;
}

async fn a_renewed_lock_outlives_its_ttl(world: impl World) {
    let client = long_client(&world).await;
    let guard = client.lock("renewed").acquire(PATIENCE).await.unwrap();
    let ttl = long_ttl(&world);
    passed(ttl * 2).await;
    assert!(guard.is_held());
    assert!(guard.remaining() <= ttl && guard.ensure(ttl).is_err());
    eventually("much of its ttl is left", async || guard.ensure(ttl / 4).is_ok()).await;
    world.held_everywhere("renewed").await;
    assert_eq!(released(guard.release()).await, Released::Released);
    world.freed("renewed").await;
}

async fn a_lock_without_renewal_ends_by_its_deadline(world: impl World) {
    let client = client(&world).await;
    let lock = client.lock_with("manual", &client.options().auto_renew(false)).unwrap();
    let guard = lock.acquire(PATIENCE).await.unwrap();
    let ttl = world.ttl();
    assert!(guard.remaining() <= ttl - ttl / 100 - Duration::from_millis(2), "drift is taken off");
    assert_eq!(lost(&world, &guard).await, LostReason::Expired);
    world.freed("manual").await;
}

async fn a_lock_is_not_renewed_past_its_longest_hold(world: impl World) {
    let client = client(&world).await;
    let ttl = world.ttl();
    let lock = client.lock_with("longest", &client.options().max_hold(ttl * 2)).unwrap();
    let guard = lock.acquire(PATIENCE).await.unwrap();
    let began = Instant::now();
    let reason = tokio::time::timeout(PATIENCE, guard.lost()).await.expect("the loss is told");
    assert_eq!(reason, LostReason::MaxHold);
    assert!((ttl * 2..=ttl * 3).contains(&began.elapsed()), "lost after {:?}", began.elapsed());
}

async fn loss_is_told_by_the_deadline_when_nodes_hang(world: impl World) {
    let client = client(&world).await;
    let guard = client.lock("hung").acquire(PATIENCE).await.unwrap();
    (0..3).for_each(|node| world.hang(node));
    assert_eq!(lost(&world, &guard).await, LostReason::Expired);
    (0..3).for_each(|node| world.resume(node));
    client.quiet().await;
    world.freed("hung").await;
}

async fn loss_is_told_by_the_deadline_when_nodes_die(mut world: impl World) {
    let client = client(&world).await;
    let guard = client.lock("dead").acquire(PATIENCE).await.unwrap();
    (0..3).for_each(|node| world.kill(node));
    assert_eq!(lost(&world, &guard).await, LostReason::Expired);
    eventually("the rest is released", async || {
        world.look(3, "dead").await.holder.is_none() && world.look(4, "dead").await.holder.is_none()
    })
    .await;
}

/// `healed` and `lost` count together. After N - quorum + 1 of them, no quorum of nodes can have
/// held the lock without a break, so it is lost now.
async fn loss_by_deleted_keys_is_reported_by_the_next_renewal(world: impl World) {
    let client = long_client(&world).await;
    let guard = client.lock("deleted").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("deleted").await;
    let deadline = Instant::now() + guard.remaining();
    for node in 0..3 {
        world.delete(node, "deleted").await;
    }
    assert_eq!(lost(&world, &guard).await, LostReason::Forgotten);
    assert!(Instant::now() < deadline, "told with the renewal, not by the deadline");
    client.quiet().await;
    world.freed("deleted").await;
}

async fn loss_to_other_holders_is_reported_by_the_next_renewal(world: impl World) {
    let client = long_client(&world).await;
    let guard = client.lock("taken").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("taken").await;
    for node in 0..3 {
        world.delete(node, "taken").await;
        if node < 2 {
            world.take(node, "taken").await;
        }
    }
    assert_eq!(lost(&world, &guard).await, LostReason::Forgotten, "one healed and two taken count together");
    drop(guard);
    client.quiet().await;
    assert_eq!(world.holders("taken").await, 2, "the foreigner's two; ours are released");
}

async fn a_minority_that_forgot_is_healed_by_renewal(world: impl World) {
    let client = long_client(&world).await;
    let guard = client.lock("healed").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("healed").await;
    let holder = world.look(0, "healed").await.holder;
    for node in 3..5 {
        world.delete(node, "healed").await;
    }
    for node in 3..5 {
        eventually("the node is healed", async || world.look(node, "healed").await.holder == holder).await;
    }
    passed(long_ttl(&world)).await;
    assert!(guard.is_held());
}

async fn a_healed_node_counts_from_the_next_renewal_on(mut world: impl World) {
    let client = client(&world).await;
    let guard = client.lock("next").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("next").await;
    (0..2).for_each(|node| world.kill(node));
    world.delete(2, "next").await;
    // In the first renewal, two nodes extend, one heals and two are silent: this is no quorum. In
    // the next renewal, the healed node extends too: three nodes are a quorum.
    passed(world.ttl() * 2).await;
    assert!(guard.is_held());
    assert_eq!(world.look(2, "next").await.holder, world.look(3, "next").await.holder);
}

async fn a_lock_that_expired_is_not_revived_by_nodes_that_come_back(world: impl World) {
    let client = client(&world).await;
    let guard = client.lock("final").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("final").await;
    world.all().into_iter().for_each(|node| world.hang(node));
    assert_eq!(lost(&world, &guard).await, LostReason::Expired);
    world.all().into_iter().for_each(|node| world.resume(node));
    // Renewals that were sent in time arrive now, and heal the nodes. The release that follows
    // frees the name again.
    client.quiet().await;
    world.freed("final").await;
    let next = world.client().await.lock("final").acquire(PATIENCE).await.unwrap();
    assert!(next.token() > guard.token());
    passed(world.ttl()).await;
    assert!(next.is_held() && !guard.is_held());
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyExpired);
    assert!(next.is_held());
}

async fn a_release_in_flight_with_a_renewal_leaves_nothing_behind(world: impl World) {
    // The lock must not end before its release.
    let client = long_client(&world).await;
    let guard = client.lock("both").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("both").await;
    world.all().into_iter().for_each(|node| world.hang(node));
    // The first renewal is sent when two thirds are left.
    eventually("a renewal is under way", async || guard.remaining() < long_ttl(&world) * 5 / 8).await;
    let ends = Instant::now() + guard.remaining();
    let mut release = Box::pin(guard.release());
    assert!(poll!(&mut release).is_pending());
    world.all().into_iter().for_each(|node| world.resume(node));
    // If the machine stalls, the lock may end before its release.
    let released = released(release).await;
    assert!(released == Released::Released || Instant::now() >= ends, "{released:?}");
    client.quiet().await;
    world.freed("both").await;
}

async fn a_forced_release_tells_the_old_holder_and_kills_its_token(world: impl World) {
    let (holder, other) = (long_client(&world).await, client(&world).await);
    let guard = holder.lock("forced").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("forced").await;
    let force = async || world.answer(async || other.force_release("forced").await).await.unwrap();
    let taken = match world.confirmed(other.force_release("forced")).await {
        Some(taken) => {
            assert_eq!((taken.left, taken.from.len()), (Some(Duration::ZERO), 1), "{taken:?}");
            taken
        }
        // Some nodes may have freed the name.
        None => force().await,
    };
    assert!(taken.fence > guard.token() && inspected(&other, "forced").await.fence() == taken.fence);
    assert_eq!(lost(&world, &guard).await, LostReason::Revoked);
    holder.quiet().await;
    world.freed("forced").await;
    assert_eq!(force().await.left, None, "nobody holds it");
    let next = other.lock("forced").acquire(PATIENCE).await.unwrap();
    assert!(next.token() > guard.token() + 1, "and the fence was raised once more");
}

both! {
    5 nodes: a_renewed_lock_outlives_its_ttl, a_lock_without_renewal_ends_by_its_deadline,
        loss_is_told_by_the_deadline_when_nodes_hang,
        loss_is_told_by_the_deadline_when_nodes_die,
        loss_by_deleted_keys_is_reported_by_the_next_renewal,
        loss_to_other_holders_is_reported_by_the_next_renewal,
        a_minority_that_forgot_is_healed_by_renewal;
    3 nodes: a_lock_that_expired_is_not_revived_by_nodes_that_come_back,
        a_release_in_flight_with_a_renewal_leaves_nothing_behind,
        a_forced_release_tells_the_old_holder_and_kills_its_token;
    memory 5 nodes: a_lock_is_not_renewed_past_its_longest_hold, a_healed_node_counts_from_the_next_renewal_on;
}
