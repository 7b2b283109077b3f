//! Nodes that lost their memory: no vote on a claim until every hold they could have forgotten has
//! ended.

use std::time::Duration;

use quorumlock::{LockGuard, LostReason, NodeState};
use quorumlock::{Quorum, QuorumBuilder};

use crate::common::{PATIENCE, eventually};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

fn quarantined(client: &Quorum, node: usize) -> bool {
    matches!(client.nodes()[node].state, NodeState::Quarantined { .. })
}

/// A client of nodes that have been up for long enough.
async fn settled(world: &impl World) -> Quorum {
    let client = world.client_with(|builder: QuorumBuilder| builder.max_ttl(world.ttl()).ttl(world.ttl())).await;
    eventually("all nodes vote", async || client.nodes().iter().all(|node| node.state == NodeState::Up)).await;
    client
}

async fn a_node_that_restarts_empty_is_healed_and_quarantined(mut world: impl World) {
    let client = settled(&world).await;
    let guard = client.lock("kept").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("kept").await;
    let holder = world.look(0, "kept").await.holder;
    world.restart(4, world.ttl()).await;
    eventually("the node is back, and doubted", async || quarantined(&client, 4)).await;
    let other = client.lock("new").acquire(PATIENCE).await.unwrap();
    eventually("the others granted", async || world.holders("new").await == 4).await;
    assert_eq!(world.look(4, "new").await.fence, 0, "it was asked for no claim");
    eventually("the node is healed", async || world.look(4, "kept").await.holder == holder).await;
    eventually("the node votes again", async || client.nodes()[4].state == NodeState::Up).await;
    assert!(guard.is_held() && other.is_held());
    let _last = client.lock("last").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("last").await;
}

async fn a_node_that_forgot_does_not_grant_again_what_is_held(mut world: impl World) {
    let (first, second) = (settled(&world).await, settled(&world).await);
    let lock = first.lock_with("kept", &first.options().auto_renew(false)).unwrap();
    world.take(2, "kept").await;
    let guard = lock.try_acquire().await.unwrap().expect("nodes 0 and 1 grant");
    world.delete(2, "kept").await;
    world.restart(1, world.ttl()).await;
    eventually("the node is back", async || second.nodes()[1].state.is_admitted()).await;
    let mut tries = 0;
    // Its votes are split, so it makes rounds for two of these.
    let options = second.options().round_timeout(Duration::from_millis(200));
    while guard.is_held() {
        let won = second.lock_with("kept", &options).unwrap().try_acquire().await;
        assert!(!matches!(won, Ok(Some(_))) || !guard.is_held(), "granted to two");
        tries += 1;
    }
    assert!(tries > 0);
    assert!(second.lock("kept").acquire(PATIENCE).await.is_ok(), "after the quarantine");
}

/// A client that holds "kept" on all nodes, of which node 2 has just come back empty and was
/// healed.
async fn healed(world: &mut impl World) -> (Quorum, LockGuard) {
    let client = settled(world).await;
    // Shorter than the doubt, so that it cannot wait for its end.
    let options = client.options().ttl(world.ttl() / 2);
    let guard = client.lock_with("kept", &options).unwrap().acquire(PATIENCE).await.unwrap();
    world.held_everywhere("kept").await;
    world.restart(2, world.ttl()).await;
    eventually("the node is back, and doubted", async || quarantined(&client, 2)).await;
    eventually("the node is healed", async || world.look(2, "kept").await.holder.is_some()).await;
    (client, guard)
}

async fn a_lock_does_not_outlive_its_deadline_by_a_node_that_has_just_restarted(mut world: impl World) {
    let (_client, guard) = healed(&mut world).await;
    world.kill(1);
    // The node holds it and says so; but another client's round may count what it has forgotten.
    assert_eq!(guard.lost().await, LostReason::Expired);
    eventually("the node has released", async || world.look(2, "kept").await.holder.is_none()).await;
}

async fn a_node_that_restarted_renews_again_once_no_round_counts_what_it_forgot(mut world: impl World) {
    let (client, guard) = healed(&mut world).await;
    eventually("the doubt is over", async || client.nodes()[2].state == NodeState::Up).await;
    world.kill(1);
    let until = tokio::time::Instant::now() + world.ttl() + SECOND;
    eventually("a ttl passes", async || tokio::time::Instant::now() >= until).await;
    assert!(guard.is_held());
    drop(guard);
    eventually("the node has released", async || world.look(2, "kept").await.holder.is_none()).await;
}

both! {
    5 nodes: a_node_that_restarts_empty_is_healed_and_quarantined;
    3 nodes: a_node_that_forgot_does_not_grant_again_what_is_held, a_lock_does_not_outlive_its_deadline_by_a_node_that_has_just_restarted,
        a_node_that_restarted_renews_again_once_no_round_counts_what_it_forgot;
}
