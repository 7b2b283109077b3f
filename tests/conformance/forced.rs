//! Revoking a name and releasing it by force, also on nodes with faults.

use std::time::Duration;

use crate::common::{PATIENCE, eventually, inspected};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// The highest possible token: no token below 2^53 is above it.
const CORRUPT: u64 = (1 << 53) - 1;
const DAY: u64 = 24 * 3_600 * 1_000_000;

fn now() -> u64 {
    let wall = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(wall.as_micros()).unwrap()
}

async fn corrupt_fence_on_one_node_does_not_prevent_forced_release(world: impl World) {
    let client = world.client().await;
    let guard = client.lock("corrupt").acquire(PATIENCE).await.unwrap();
    world.raise(0, "corrupt", CORRUPT).await;
    match world.confirmed(client.force_release("corrupt")).await {
        Some(taken) => assert_eq!(taken.left, Some(Duration::ZERO)),
        None => _ = world.answer(async || client.force_release("corrupt").await).await.unwrap(),
    }
    drop(guard);
}

async fn a_revoked_holder_keeps_others_out_until_it_has_let_go(world: impl World) {
    let client = world.client().await;
    let lock = client.lock("revoked");
    let guard = lock.acquire(PATIENCE).await.unwrap();
    let holder = inspected(&client, "revoked").await.holder().unwrap().to_owned();
    let taken = world.answer(async || client.revoke("revoked").await).await.unwrap();
    assert!(taken.left.expect("it is held") > Duration::ZERO && guard.is_held(), "{taken:?}");
    assert_eq!(taken.from, [holder]);
    let said = inspected(&client, "revoked").await;
    assert_eq!(said.fence(), taken.fence);
    assert!(said.revoked() && said.holder().is_some() && said.fence() > guard.token());
    let next = lock.acquire(2 * PATIENCE).await.unwrap();
    assert!(!guard.is_held(), "two hold it");
    assert!(next.token() > said.fence());
    assert!(!client.inspect("revoked").await.unwrap().revoked(), "that was another hold");
}

async fn a_free_name_that_is_revoked_has_its_fence_raised(world: impl World) {
    let client = world.client().await;
    let taken = world.answer(async || client.revoke("free").await).await.unwrap();
    assert!(taken.left.is_none() && taken.from.is_empty(), "{taken:?}");
    let fence = inspected(&client, "free").await.fence();
    assert!(fence == taken.fence && client.lock("free").acquire(PATIENCE).await.unwrap().token() > fence);
}

async fn a_forced_release_raises_a_fence_that_is_days_ahead(world: impl World) {
    let client = world.client().await;
    let ahead = now() + 2 * DAY;
    for node in world.all() {
        world.raise(node, "ahead", ahead).await;
    }
    let taken = world.answer(async || client.force_release("ahead").await).await.unwrap();
    assert_eq!(taken.left, None, "nobody holds it");
    let fence = inspected(&client, "ahead").await.fence();
    assert!(fence > ahead && fence < ahead + DAY, "{fence}");
}

async fn more_readers_than_nodes_name_are_all_released(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let lock = client.rw_lock("read");
    let mut readers = Vec::new();
    for _ in 0..30 {
        readers.push(lock.read(PATIENCE).await.unwrap());
    }
    // Wait for all claims: the third node may get a claim late, and would grant a claim that comes
    // after its reader's release.
    for node in world.all() {
        eventually("the node has all readers", async || world.look(node, "read").await.count == 30).await;
    }
    match world.confirmed(other.force_release("read")).await {
        Some(taken) => assert_eq!((taken.left, taken.from.len()), (Some(Duration::ZERO), 30), "{taken:?}"),
        // Some readers may be left.
        None => _ = world.answer(async || other.force_release("read").await).await.unwrap(),
    }
    let theirs = other.rw_lock("read");
    let writer = world.answer(async || theirs.try_write().await).await.unwrap().expect("all have gone");
    for reader in &readers {
        reader.lost().await;
    }
    assert!(writer.is_held());
}

both! {
    3 nodes: corrupt_fence_on_one_node_does_not_prevent_forced_release,
        a_revoked_holder_keeps_others_out_until_it_has_let_go,
        a_free_name_that_is_revoked_has_its_fence_raised,
        a_forced_release_raises_a_fence_that_is_days_ahead,
        more_readers_than_nodes_name_are_all_released;
}

/// These tests run in memory only, because they lose requests.
mod lost {
    use super::*;
    use crate::world::Memory;

    /// Releasing all readers takes longer than a round may take.
    #[tokio::test(start_paused = true)]
    async fn readers_that_far_nodes_name_one_by_one_are_all_released() {
        let world = Memory::start(3).await;
        let (client, other) = (world.client().await, world.client().await);
        world.faults.iter().for_each(|node| node.delay(100 * MS, 100 * MS));
        let lock = client.rw_lock("read");
        let mut readers = Vec::new();
        for _ in 0..30 {
            readers.push(lock.read(PATIENCE).await.unwrap());
        }
        let taken = other.force_release("read").await.unwrap();
        assert_eq!((taken.left, taken.from.len()), (Some(Duration::ZERO), 30), "{taken:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_forced_release_that_a_node_did_not_hear_of_is_tried_again() {
        let world = Memory::start(3).await;
        let client = world.client_with(|builder| builder.ttl(600 * SECOND).max_ttl(600 * SECOND)).await;
        let guard = client.lock("forced").acquire(PATIENCE).await.unwrap();
        world.held_everywhere("forced").await;
        // The node loses two requests: the first inspection and the revocation.
        world.faults[0].lose_requests(2);
        assert!(client.force_release("forced").await.unwrap().left.is_some());
        tokio::time::timeout(60 * SECOND, world.freed("forced")).await.expect("long before its ttl ends");
        drop(guard);
    }
}
