//! Rounds of claims: which rounds win, which fail, and which grants they leave behind.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures::poll;
use quorumlock::node::Verb;
use quorumlock::{LockOptions, Quorum, Released};

use crate::common::{PATIENCE, answered, eventually, released};
use crate::semaphores::later_hellos;
use crate::world::{FOREIGNER, Memory, World};

const SECOND: Duration = Duration::from_secs(1);

/// Tests a quorum of nodes, and one node less, for each number of nodes from 1 to 9. A quorum is a
/// majority of all the client's nodes, including the nodes that are down. (Here, five of ten nodes
/// are down.)
async fn quorum_table_of_one_to_nine_nodes(mut world: impl World) {
    (5..10).for_each(|node| world.kill(node));
    for (nodes, quorum) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4), (8, 5), (9, 5)] {
        let with = |live: usize| (0..live).chain(5..5 + nodes - live).collect::<Vec<_>>();
        world.forget_lists();
        let builder = || crate::common::builder().max_ttl(Duration::ZERO);
        let client = world.connect(builder(), &with(quorum)).await;
        let name = format!("table/{nodes}");
        let guard = client.lock(&name).try_acquire().await.unwrap().expect("a quorum is up");
        assert_eq!(guard.release().await.unwrap(), Released::Released, "{nodes} nodes");
        // Now one of these nodes refuses. Since other nodes are down, the client may not be able to
        // tell who holds the lock. But the client must not get the lock.
        eventually("it is released", async || world.look(0, &name).await.holder.is_none()).await;
        world.take(0, &name).await;
        let refused = client.lock(&name).try_acquire().await;
        assert!(!matches!(refused, Ok(Some(_))), "{nodes} nodes, {} of them agree", quorum - 1);
        // Shut this client down: it would put its list in force again, and the next client has
        // another list.
        client.shutdown(PATIENCE).await;
    }
}

async fn claim_wins_only_if_a_foreigner_holds_a_minority_of_nodes(world: impl World) {
    let client = world.client().await;
    for mask in 0..32 {
        let name = format!("mask/{mask:05b}");
        let foreign: Vec<_> = (0..5).filter(|node| mask & (1 << node) != 0).collect();
        for &node in &foreign {
            world.take(node, &name).await;
        }
        let lock = client.lock(&name);
        let won = answered(|| lock.try_acquire()).await;
        assert_eq!(won.is_some(), foreign.len() <= 2, "{name}");
        if let Some(guard) = won {
            assert_eq!(released(guard.release()).await, Released::Released, "{name}");
        }
        client.quiet().await;
        for node in 0..5 {
            let holder = world.look(node, &name).await.holder;
            assert_eq!(holder.as_deref(), foreign.contains(&node).then_some(FOREIGNER), "{name}, node {node}");
        }
    }
}

async fn a_grant_that_arrives_after_the_round_failed_is_released(world: impl World) {
    let client = world.client().await;
    for node in 0..3 {
        world.take(node, "late").await;
    }
    world.hang(4);
    let lock = client.lock("late");
    assert!(answered(|| lock.try_acquire()).await.is_none());
    world.resume(4);
    client.quiet().await;
    for node in [3, 4] {
        eventually("the claim arrived", async || world.look(node, "late").await.fence > 0).await;
        assert_eq!(world.look(node, "late").await.holder, None);
    }
}

async fn a_slow_majority_fails_even_if_it_grants(world: impl World) {
    let client = world.client_with(|builder| builder.ttl(10 * SECOND)).await;
    let lock = client.lock_with("slow", &client.options().round_timeout(Duration::from_millis(200))).unwrap();
    (2..5).for_each(|node| world.hang(node));
    let error = lock.try_acquire().await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    (2..5).for_each(|node| world.resume(node));
    client.quiet().await;
    for node in 2..5 {
        eventually("the claim arrived", async || world.look(node, "slow").await.fence > 0).await;
    }
    world.freed("slow").await;
}

async fn lock_on_five_nodes_works_with_one_hung_and_one_dead(mut world: impl World) {
    let client = world.client().await;
    world.hang(3);
    world.kill(4);
    let mut quick = 0;
    for _ in 0..20 {
        let began = tokio::time::Instant::now();
        let guard = client.lock("two out").acquire(PATIENCE).await.unwrap();
        assert_eq!(released(guard.release()).await, Released::Released);
        quick += u32::from(began.elapsed() < SECOND);
    }
    // A timeout takes 2 s. If the machine stalls, some rounds are slow, but not most.
    let least = if world.slack().is_zero() { 20 } else { 10 };
    assert!(quick >= least, "most waited for a timeout: {quick} of 20 were quick");
}

async fn stale_fences_cost_one_more_round_trip_and_no_failure(world: impl World) {
    // The one try must succeed even if the machine stalls.
    let patient = LockOptions::default().round_timeout(5 * SECOND);
    let client = world.client_with(|builder| builder.options(patient).node_timeout(20 * SECOND)).await;
    let ahead = 1 << 52;
    for node in world.all() {
        world.raise(node, "stale", ahead).await;
    }
    let before: Vec<_> = world.all().into_iter().map(|node| world.asked(node)).collect();
    let began = Instant::now();
    let guard = client.lock("stale").try_acquire().await.unwrap().expect("a higher ballot wins");
    assert!(guard.token() > ahead);
    for (node, before) in before.into_iter().enumerate() {
        eventually("both claims arrived", async || world.look(node, "stale").await.fence == guard.token()).await;
        // Both claims may have gone to a slow server in one call.
        let asked = world.asked(node) - before;
        assert!(
            (1..=2 + world.hellos() + later_hellos(&world, began)).contains(&asked),
            "node {node}: one claim that was stale, one that was not: {asked}"
        );
    }
}

async fn tokens_grow_from_holder_to_holder_across_clients(world: impl World) {
    let clients = [world.client().await, world.client().await];
    let mut last = 0;
    for turn in 0..20 {
        let guard = clients[turn % 2].lock("tokens").acquire(PATIENCE).await.unwrap();
        assert!(guard.token() > last, "{} after {last}", guard.token());
        last = guard.token();
        released(guard.release()).await;
    }
}

async fn clients_that_split_the_votes_all_get_their_turn(world: impl World) {
    let clients = [world.client().await, world.client().await, world.client().await];
    let inside = std::cell::Cell::new(0);
    let work = async |client: &Quorum| {
        for _ in 0..10 {
            let guard = client.lock("split").acquire(PATIENCE).await.unwrap();
            assert_eq!(inside.replace(1), 0, "two inside");
            tokio::task::yield_now().await;
            inside.set(0);
            released(guard.release()).await;
        }
    };
    tokio::join!(work(&clients[0]), work(&clients[1]), work(&clients[2]));
}

/// Polls `future` this many times, and then drops it. Between polls, other tasks run and some time
/// passes.
async fn polled<F: Future>(future: F, times: u32) {
    let mut future = pin!(future);
    for turn in 0..times {
        if poll!(&mut future).is_ready() {
            return;
        }
        if turn % 2 == 0 {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn an_acquisition_dropped_at_any_point_leaves_nothing_behind(world: impl World) {
    let client = world.client_with(|builder| builder.ttl(600 * SECOND)).await;
    let lock = client.lock("dropped");
    for times in 0..40 {
        polled(lock.acquire(10 * SECOND), times).await;
        // Poll the same calls while another caller of this process holds the lock. (Below, a caller
        // of another process holds it.)
        let guard = lock.acquire(PATIENCE).await.unwrap();
        polled(lock.acquire(10 * SECOND), times).await;
        polled(lock.try_acquire(), times).await;
        released(guard.release()).await;
    }
    for node in 0..3 {
        world.take(node, "dropped").await;
    }
    for times in 0..40 {
        polled(lock.acquire(10 * SECOND), times).await;
    }
    for node in 0..3 {
        world.delete(node, "dropped").await;
    }
    client.quiet().await;
    assert_eq!(client.in_use(), (0, 0, 0));
    world.freed("dropped").await;
}

both! {
    5 nodes: claim_wins_only_if_a_foreigner_holds_a_minority_of_nodes, a_grant_that_arrives_after_the_round_failed_is_released,
        a_slow_majority_fails_even_if_it_grants, lock_on_five_nodes_works_with_one_hung_and_one_dead,
        stale_fences_cost_one_more_round_trip_and_no_failure, clients_that_split_the_votes_all_get_their_turn,
        an_acquisition_dropped_at_any_point_leaves_nothing_behind;
    3 nodes: tokens_grow_from_holder_to_holder_across_clients;
    memory 10 nodes: quorum_table_of_one_to_nine_nodes;
}

/// Tests that need a network which loses, reorders and delays messages on demand.
mod in_memory {
    use super::*;

    /// In memory only: a real connection keeps the order, and a test cannot make a broken
    /// connection deliver late.
    #[tokio::test(start_paused = true)]
    async fn a_claim_that_its_own_release_overtook_is_refused() {
        let world = Memory::start(5).await;
        let client = world.client().await;
        for node in 0..3 {
            world.take(node, "overtaken").await;
        }
        world.faults[4].hold_back(Verb::Claim);
        assert!(client.lock("overtaken").try_acquire().await.unwrap().is_none());
        client.quiet().await;
        world.faults[4].let_go();
        let told = world.look(4, "overtaken").await;
        assert!(told.holder.is_none() && told.fence > 0, "{told:?}");
    }

    /// In memory only: a test cannot make a broken connection deliver late.
    #[tokio::test(start_paused = true)]
    async fn late_withdrawal_of_a_failed_round_spares_the_winning_round() {
        let world = Memory::start(5).await;
        let client = world.client_with(|builder| builder.ttl(600 * SECOND)).await;
        for node in 0..3 {
            world.take(node, "rounds").await;
        }
        world.faults[3].hold_back(Verb::Withdraw);
        let lock = client.lock("rounds");
        let freed = async {
            eventually("the first round was granted", async || world.look(3, "rounds").await.holder.is_some()).await;
            // After this pause, the withdrawal of this round is on its way.
            tokio::time::sleep(Duration::from_millis(1)).await;
            for node in 0..4 {
                world.delete(node, "rounds").await;
            }
        };
        let (guard, ()) = tokio::join!(lock.acquire(60 * SECOND), freed);
        let guard = guard.unwrap();
        let holder = world.look(0, "rounds").await.holder;
        eventually("the round that won is on the node", async || world.look(3, "rounds").await.holder == holder).await;
        world.faults[3].let_go();
        assert_eq!(world.look(3, "rounds").await.holder, holder);
        assert!(guard.is_held());
    }

    /// In memory only: a test cannot drop a single reply of a real connection.
    #[tokio::test(start_paused = true)]
    async fn a_grant_whose_reply_was_lost_is_released() {
        let world = Memory::start(3).await;
        let client = world.client_with(|builder| builder.ttl(600 * SECOND)).await;
        (0..2).for_each(|node| world.faults[node].lose_replies(1));
        let error = client.lock("unheard").try_acquire().await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        client.quiet().await;
        world.freed("unheard").await;
    }

    /// In memory only: this test needs a network that reorders and loses messages.
    #[tokio::test(start_paused = true)]
    async fn network_with_delay_loss_and_reordering_lets_one_holder_in() {
        let world = Memory::start(5).await;
        let options = LockOptions::default().ttl(2 * SECOND);
        let clients = [world.client().await, world.client().await];
        let (inside, sections) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
        for faults in &world.faults {
            faults.timeout(Duration::from_millis(200));
            faults.delay(Duration::from_millis(20), Duration::from_millis(20));
            faults.reorder(true);
        }
        let work = async |client: &Quorum| {
            let lock = client.lock_with("bad network", &options).unwrap();
            for turn in 0..30 {
                world.faults[turn % 5].lose_requests(1);
                world.faults[(turn + 2) % 5].lose_replies(1);
                let Ok(guard) = lock.acquire(60 * SECOND).await else { continue };
                assert_eq!(inside.replace(1), 0, "two inside");
                tokio::time::sleep(Duration::from_millis(5)).await;
                assert!(guard.is_held());
                inside.set(0);
                sections.set(sections.get() + 1);
                let _ = guard.release().await;
            }
        };
        tokio::join!(work(&clients[0]), work(&clients[1]));
        assert!(sections.get() > 40, "{} sections", sections.get());
    }
}
