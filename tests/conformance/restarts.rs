//! Nodes that lost their memory do not vote on claims until every hold that they may have forgotten
//! has ended.

use std::time::Duration;

use quorumlock::{LostReason, NodeState, Quorum, QuorumBuilder};

use crate::common::{PATIENCE, answered, eventually};
use crate::world::World;

fn quarantined(client: &Quorum, node: usize) -> bool {
    matches!(client.nodes()[node].state, NodeState::Quarantined { .. })
}

/// The ttl of locks that must be held when a scenario ends. A real machine may stall for most of
/// this time.
fn ttl(world: &impl World) -> Duration {
    2 * world.ttl()
}

/// The longest ttl. Quarantines last this long, so that tests see them even if the machine stalls.
fn max_ttl(world: &impl World) -> Duration {
    2 * ttl(world)
}

/// A client of nodes that have been up for so long that all vote.
async fn settled(world: &impl World) -> Quorum {
    let client = world.client_with(|builder: QuorumBuilder| builder.max_ttl(max_ttl(world)).ttl(ttl(world))).await;
    eventually("all nodes vote", async || client.nodes().iter().all(|node| node.state == NodeState::Up)).await;
    client
}

async fn a_node_that_restarts_empty_is_healed_and_quarantined(mut world: impl World) {
    let client = settled(&world).await;
    let guard = client.lock("kept").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("kept").await;
    let holder = world.look(0, "kept").await.holder;
    world.restart(4, max_ttl(&world)).await;
    eventually("the node is back, and doubted", async || quarantined(&client, 4)).await;
    // A renewal would heal the node. So this lock is not renewed.
    let manual = client.options().ttl(max_ttl(&world)).auto_renew(false);
    let new = client.lock_with("new", &manual).unwrap().acquire(PATIENCE).await.unwrap();
    eventually("the others granted", async || world.holders("new").await == 4).await;
    assert_eq!(world.look(4, "new").await.fence, 0, "it was asked for no claim");
    drop(new);
    let other = client.lock("other").acquire(PATIENCE).await.unwrap();
    eventually("the node is healed", async || world.look(4, "kept").await.holder == holder).await;
    eventually("the node votes again", async || client.nodes()[4].state == NodeState::Up).await;
    assert!(guard.is_held() && other.is_held());
    let _last = client.lock("last").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("last").await;
}

async fn forgetful_node_grants_no_lock_that_is_still_held(mut world: impl World) {
    let (first, second) = (settled(&world).await, settled(&world).await);
    let lock = first.lock_with("kept", &first.options().ttl(max_ttl(&world)).auto_renew(false)).unwrap();
    world.take(2, "kept").await;
    let guard = answered(|| lock.try_acquire()).await.expect("nodes 0 and 1 grant");
    world.delete(2, "kept").await;
    world.restart(1, max_ttl(&world)).await;
    eventually("the node is back", async || second.nodes()[1].state.is_admitted()).await;
    // The votes of this client are split, so it makes rounds for two round timeouts. Make these
    // short.
    let options = second.options().round_timeout(Duration::from_millis(200));
    loop {
        let held = guard.is_held();
        let won = second.lock_with("kept", &options).unwrap().try_acquire().await;
        assert!(!matches!(won, Ok(Some(_))) || !guard.is_held(), "granted to two");
        if !held {
            break;
        }
    }
    assert!(second.lock("kept").acquire(PATIENCE).await.is_ok(), "after the quarantine");
}

/// Node 1 dies before node 2 comes back empty. So the lock cannot be renewed before the doubt of
/// node 2 ends, and this doubt ends after the deadline. Returns whether node 2 was healed before
/// the deadline.
async fn ends_by_its_deadline(world: &mut impl World) -> bool {
    let client = settled(world).await;
    let options = client.options().ttl(world.ttl() * 3 / 4);
    let guard = client.lock_with("kept", &options).unwrap().acquire(PATIENCE).await.unwrap();
    world.held_everywhere("kept").await;
    world.kill(1);
    world.restart(2, max_ttl(world)).await;
    let healed = async || world.look(2, "kept").await.holder.is_some();
    let healed = tokio::select! {
        biased;
        () = eventually("the node is healed", healed) => true,
        _ = guard.lost() => false,
    };
    // The node holds the name again, and replies `extended`. But another client's round may still
    // count a grant that the node forgot.
    let lost = tokio::time::timeout(PATIENCE, guard.lost()).await;
    assert_eq!(lost.expect("it is not renewed"), LostReason::Expired);
    eventually("the node has released", async || world.look(2, "kept").await.holder.is_none()).await;
    healed
}

async fn a_lock_does_not_outlive_its_deadline_by_a_node_that_has_just_restarted<W: World>(mut world: W) {
    // If the machine stalls, the node may come back after the deadline. In this case, try again.
    for _ in 0..5 {
        if ends_by_its_deadline(&mut world).await {
            return;
        }
        world = W::start(3).await;
    }
    panic!("the node was never healed before the deadline");
}

async fn restarted_node_renews_again_once_its_doubt_is_over(mut world: impl World) {
    let client = settled(&world).await;
    let guard = client.lock("kept").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("kept").await;
    world.restart(2, max_ttl(&world)).await;
    eventually("the node is back, and doubted", async || quarantined(&client, 2)).await;
    eventually("the node is healed", async || world.look(2, "kept").await.holder.is_some()).await;
    eventually("the doubt is over", async || client.nodes()[2].state == NodeState::Up).await;
    world.kill(1);
    // A renewal that was under way may still have counted node 1. The next renewal cannot.
    let deadline = || tokio::time::Instant::now() + guard.remaining();
    let before = deadline();
    eventually("nodes 0 and 2 renew it", async || deadline() >= before + ttl(&world) / 2).await;
    drop(guard);
    eventually("the node has released", async || world.look(2, "kept").await.holder.is_none()).await;
}

both! {
    5 nodes: a_node_that_restarts_empty_is_healed_and_quarantined;
    3 nodes: forgetful_node_grants_no_lock_that_is_still_held, a_lock_does_not_outlive_its_deadline_by_a_node_that_has_just_restarted,
        restarted_node_renews_again_once_its_doubt_is_over;
}
