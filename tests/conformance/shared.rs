//! How one caller affects others: by a corrupt fence, a shutdown, a future that nobody polls, or a
//! wrong wall clock.

use std::pin::pin;
use std::time::Duration;

use futures::FutureExt;
use quorumlock::QuorumBuilder;

use crate::common::{PATIENCE, answered, eventually, released};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);
/// The highest possible token: no token below 2^53 is above it.
const CORRUPT: u64 = (1 << 53) - 1;
const DAY: u64 = 24 * 3_600 * 1_000_000;

fn now() -> u64 {
    let wall = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(wall.as_micros()).unwrap()
}

async fn corrupt_fence_on_one_node_blocks_no_name(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    world.raise(0, "corrupt", CORRUPT).await;
    for client in [&client, &other, &client] {
        for name in ["corrupt", "sound"] {
            let guard = client.lock(name).acquire(PATIENCE).await.unwrap();
            assert!(guard.token() < now() + DAY, "{}", guard.token());
            released(guard.release()).await;
        }
    }
}

async fn corrupt_fences_on_a_quorum_block_only_that_name_with_a_hint(world: impl World) {
    let client = world.client().await;
    for node in 0..2 {
        world.raise(node, "corrupt", CORRUPT).await;
    }
    eventually("it says what to do", async || {
        let error = client.lock("corrupt").acquire(Duration::ZERO).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        error.to_string().contains("delete the name's key")
    })
    .await;
    let guard = client.lock("sound").acquire(PATIENCE).await.unwrap();
    assert!(guard.token() < now() + DAY);
}

async fn a_fence_two_days_ahead_lifts_the_tokens_of_its_name_only(world: impl World) {
    let client = world.client().await;
    let fence = now() + 2 * DAY;
    for node in 0..3 {
        world.raise(node, "ahead", fence).await;
    }
    let mut last = fence;
    for _ in 0..3 {
        let ahead = client.lock("ahead").acquire(PATIENCE).await.unwrap();
        assert!(ahead.token() > last);
        last = ahead.token();
        released(ahead.release()).await;
        let sound = client.lock("sound").acquire(PATIENCE).await.unwrap();
        assert!(sound.token() < now() + DAY);
        released(sound.release()).await;
    }
}

async fn a_claim_under_way_at_a_shutdown_leaves_the_name_free(world: impl World) {
    let other = world.client().await;
    for _ in 0..20 {
        let client = world.client_with(|builder| builder.ttl(600 * SECOND)).await;
        let lock = client.lock("it");
        let (acquired, ()) = tokio::join!(lock.acquire(PATIENCE), client.shutdown(PATIENCE));
        assert!(acquired.map_or(true, |guard| !guard.is_held()));
        let lock = other.lock("it");
        let guard = answered(|| lock.try_acquire()).await.expect("nobody holds it");
        released(guard.release()).await;
    }
}

async fn unpolled_caller_keeps_the_lock_from_no_other_client(world: impl World) {
    let (client, other) = (world.client_with(|builder| builder.ttl(600 * SECOND)).await, world.client().await);
    let lock = client.lock("it");
    let guard = lock.acquire(PATIENCE).await.unwrap();
    let mut next = pin!(lock.acquire(600 * SECOND));
    assert!((&mut next).now_or_never().is_none());
    released(guard.release()).await;
    // The lock must be free long before a ttl has passed.
    let guard = other.lock("it").acquire(PATIENCE).await.unwrap();
    released(guard.release()).await;
    assert!(next.await.unwrap().is_held());
}

async fn a_try_beside_a_caller_whom_no_quorum_answers_is_unavailable(world: impl World) {
    let settings = |builder: QuorumBuilder| builder.ttl(SECOND / 2).node_timeout(SECOND);
    let client = world.client_with(settings).await;
    world.hang(0);
    world.hang(1);
    let lock = client.lock("it");
    let first = tokio::spawn(async move { lock.acquire(600 * SECOND).await });
    for _ in 0..10 {
        let tried = client.lock("it").try_acquire().await;
        assert!(tried.as_ref().is_err_and(quorumlock::Error::is_unavailable), "{tried:?}");
    }
    first.abort();
    world.resume(0);
    world.resume(1);
}

async fn clients_with_other_prefixes_do_not_see_each_others_locks(world: impl World) {
    let (client, other) = (world.client().await, world.client_with(|builder| builder.key_prefix("other:")).await);
    let guard = client.lock("it").acquire(PATIENCE).await.unwrap();
    let lock = other.lock("it");
    let another = answered(|| lock.try_acquire()).await.expect("it is another lock");
    assert!(answered(|| lock.try_acquire()).await.is_none() && guard.is_held());
    released(another.release()).await;
}

/// In memory only: these tests count the operations that are sent to a dead node.
mod down {
    use quorumlock::node::Verb;
    use tokio::time::sleep;

    use super::*;
    use crate::world::Memory;

    #[tokio::test(start_paused = true)]
    async fn node_down_through_hold_and_renewals_gets_one_release() {
        let mut world = Memory::start(3).await;
        world.kill(2);
        let client = world.client_with(|builder| builder.ttl(9 * SECOND)).await;
        let outer = client.lock("it").acquire(PATIENCE).await.unwrap();
        let inner = outer.reenter().unwrap();
        sleep(10 * SECOND).await;
        assert!(world.faults[2].asked(Verb::Renew) >= 3);
        released(inner.release()).await;
        released(outer.release()).await;
        sleep(20 * SECOND).await;
        assert_eq!(world.faults[2].asked(Verb::Release), 1, "it holds nothing for sure");
        client.quiet().await;
    }

    #[tokio::test(start_paused = true)]
    async fn node_healed_by_a_renewal_gets_releases_until_it_confirms() {
        let mut world = Memory::start(3).await;
        world.kill(2);
        let client = world.client_with(|builder| builder.ttl(9 * SECOND)).await;
        let guard = client.lock("it").acquire(PATIENCE).await.unwrap();
        world.faults[2].reconnect();
        sleep(4 * SECOND).await;
        assert!(world.look(2, "it").await.holder.is_some(), "healed");
        world.faults[2].kill();
        released(guard.release()).await;
        sleep(SECOND).await;
        world.faults[2].reconnect();
        world.freed("it").await;
        assert!(world.faults[2].asked(Verb::Release) > 1);
    }
}

both! {
    3 nodes: corrupt_fence_on_one_node_blocks_no_name,
        corrupt_fences_on_a_quorum_block_only_that_name_with_a_hint, a_fence_two_days_ahead_lifts_the_tokens_of_its_name_only,
        a_claim_under_way_at_a_shutdown_leaves_the_name_free, unpolled_caller_keeps_the_lock_from_no_other_client,
        a_try_beside_a_caller_whom_no_quorum_answers_is_unavailable,
        clients_with_other_prefixes_do_not_see_each_others_locks;
}
