//! Locks on several names at once: all of them, or none.

use std::pin::pin;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use quorumlock::{MAX_NAMES, Quorum, Released};
use tokio::time::Instant;

use crate::common::{PATIENCE, answered, eventually, later, released};
use crate::semaphores::later_hellos;
use crate::world::World;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// The longest allowed `round_timeout`.
const LONG_ROUND: Duration = Duration::from_secs(5);

/// Whether nobody holds `name` or waits for it.
async fn is_free(quorum: &Quorum, name: &str) -> bool {
    let lock = quorum.lock(name);
    answered(|| lock.try_acquire()).await.is_some()
}

async fn a_set_is_held_as_a_whole_or_not_at_all(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let guard = other.lock("b").acquire(PATIENCE).await.unwrap();
    let both = client.lock_all(["a", "b"]);
    assert!(answered(|| both.try_acquire()).await.is_none());
    eventually("it is told which is held, and by whom", async || {
        let error = client.lock_all(["a", "b"]).acquire(100 * MS).await.unwrap_err();
        let (says, held) = (error.to_string(), error.conflicts());
        let held: Vec<_> = held.iter().map(|held| (&*held.name, held.left.is_some())).collect();
        let of_b = held == [("b", true)] && says.contains("; \"b\" is held by ");
        error.is_timeout() && says.contains("\"a\", \"b\"") && of_b
    })
    .await;
    eventually("a is free", async || is_free(&other, "a").await).await;
    released(guard.release()).await;
    let set = client.lock_all(["a", "b"]).acquire(PATIENCE).await.unwrap();
    for name in ["a", "b"] {
        assert!(!is_free(&other, name).await);
    }
    released(set.release()).await;
    for name in ["a", "b"] {
        world.freed(name).await;
        assert!(is_free(&other, name).await);
    }
}

async fn set_ignores_the_order_and_repeats_of_its_names(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let guard = client.lock_all(["b", "a", "b"]).acquire(PATIENCE).await.unwrap();
    assert_eq!(guard.names().collect::<Vec<_>>(), ["a", "b"]);
    for (names, free) in [(["a", "b"], false), (["c", "b"], false), (["c", "d"], true)] {
        let lock = other.lock_all(names);
        assert_eq!(answered(|| lock.try_acquire()).await.is_some(), free, "{names:?}");
    }
    drop(guard);
    assert!(other.lock_all(["c", "b"]).acquire(PATIENCE).await.is_ok());
}

async fn a_sets_token_is_above_all_earlier_tokens_of_its_names(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let mut last = 0;
    for _ in 0..5 {
        for names in [&["a"][..], &["b"], &["a", "b"], &["b", "c"], &["c"]] {
            let quorum = if names.len() == 1 { &client } else { &other };
            let guard = quorum.lock_all(names).acquire(PATIENCE).await.unwrap();
            assert!(guard.token() > last, "{names:?}");
            last = guard.token();
            released(guard.release()).await;
        }
    }
}

async fn a_set_that_waits_keeps_the_names_before_that_one(world: impl World) {
    let (client, other, late) = (world.client().await, world.client().await, world.client().await);
    let guard = client.lock("b").acquire(PATIENCE).await.unwrap();
    let lock = other.lock_all(["a", "b"]);
    let mut set = pin!(lock.acquire(600 * SECOND));
    let waits = async || crate::semaphores::waits(&client, "b").await;
    let holds = async || client.inspect("a").await.unwrap().holder().is_some();
    tokio::select! {
        _ = &mut set => panic!("b is held"),
        () = eventually("it holds a and waits for b", async || holds().await && waits().await) => {}
    }
    // A caller that comes later does not get `a` before the set.
    let lock = late.lock("a");
    assert!(answered(|| lock.try_acquire()).await.is_none());
    later().await;
    let mut single = pin!(lock.acquire(600 * SECOND));
    tokio::select! {
        _ = &mut set => panic!("b is held"),
        _ = &mut single => panic!("the set has a"),
        () = tokio::time::sleep(300 * MS) => {
            released(guard.release()).await;
        }
    }
    let won = tokio::select! {
        biased;
        _ = &mut single => panic!("the set has a"),
        won = &mut set => won.unwrap(),
    };
    released(won.release()).await;
    assert!(single.await.is_ok());
}

async fn a_set_is_not_starved_by_locks_on_its_names(world: impl World) {
    let names = ["a", "b", "c", "d", "e", "f"];
    let clients = join_all((0..3).map(|_| world.client())).await;
    let busy = clients.iter().flat_map(|client| {
        names.map(|name| async move {
            loop {
                let guard = client.lock(name).acquire(PATIENCE).await.unwrap();
                tokio::time::sleep(20 * MS).await;
                released(guard.release()).await;
            }
        })
    });
    let mut busy = pin!(join_all(busy).map(|_: Vec<()>| ()));
    let patient = world.client().await;
    let set = patient.lock_all(names);
    for _ in 0..3 {
        tokio::select! {
            () = &mut busy => unreachable!("they never end"),
            acquired = set.acquire(PATIENCE) => drop(acquired.expect("it is its turn some time")),
        }
    }
}

async fn a_set_that_gives_up_leaves_nothing(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let guard = client.lock("b").acquire(PATIENCE).await.unwrap();
    let _ = tokio::time::timeout(50 * MS, other.lock_all(["a", "b", "c"]).acquire(600 * SECOND)).await;
    for name in ["a", "c"] {
        eventually("nobody waits", async || is_free(&client, name).await).await;
    }
    drop(guard);
}

async fn sets_that_overlap_do_not_deadlock(world: impl World) {
    let sets = [["a", "b"], ["b", "c"], ["c", "a"], ["b", "a"]];
    let clients = join_all(sets.map(|_| world.client())).await;
    let rounds = clients.iter().zip(sets).map(|(client, names)| async move {
        for _ in 0..10 {
            let guard = client.lock_all(names).acquire(PATIENCE).await.unwrap();
            tokio::time::sleep(2 * MS).await;
            released(guard.release()).await;
        }
    });
    join_all(rounds).await;
}

async fn overlapping_sets_in_one_process_do_not_deadlock(world: impl World) {
    let client = world.client().await;
    let sets = [["a", "b"], ["b", "c"], ["c", "a"], ["b", "a"]];
    let rounds = sets.map(|names| {
        let client = client.clone();
        async move {
            for _ in 0..10 {
                drop(client.lock_all(names).acquire(PATIENCE).await.unwrap());
            }
        }
    });
    join_all(rounds).await;
}

async fn set_that_loses_one_name_loses_all(world: impl World) {
    let (client, other) = (world.client_with(|builder| builder.ttl(world.ttl())).await, world.client().await);
    let guard = client.lock_all(["a", "b"]).acquire(PATIENCE).await.unwrap();
    world.answer(async || other.revoke("b").await).await.unwrap();
    guard.lost().await;
    assert!(!guard.is_held());
    drop(guard);
    assert!(other.lock_all(["a", "b"]).acquire(PATIENCE).await.is_ok());
}

async fn a_set_that_no_node_holds_as_a_whole_is_held(world: impl World) {
    let ttl = 2 * world.ttl();
    let client = world.client_with(|builder| builder.ttl(ttl)).await;
    // Owners that died hold c on one node and a on another. Only on the third node are both names
    // free.
    for (node, name) in [(0, "c"), (2, "a")] {
        world.take(node, name).await;
    }
    let set = client.lock_all(["a", "c"]);
    let guard = set.acquire(PATIENCE).await.unwrap();
    // Each name is renewed by a quorum of its own, and each is released.
    tokio::time::sleep(ttl * 3 / 2).await;
    assert!(guard.is_held());
    assert_eq!(released(guard.release()).await, Released::Released);
    client.quiet().await;
    for (name, node) in [("a", 0), ("c", 2)] {
        assert_eq!(world.look(node, name).await.holder, None);
        assert_eq!(world.look(1, name).await.holder, None);
    }
}

async fn a_set_that_waited_has_one_token_that_nodes_know(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let held = client.lock("a").acquire(PATIENCE).await.unwrap();
    let lock = other.lock_all(["a", "b", "c"]);
    let mut set = pin!(lock.acquire(PATIENCE));
    tokio::select! {
        _ = &mut set => panic!("a is held"),
        () = eventually("it waits", async || crate::semaphores::waits(&client, "a").await) => {}
    }
    released(held.release()).await;
    let guard = set.await.unwrap();
    for name in ["a", "b", "c"] {
        let has = |said: &quorumlock::Inspection| said.holder.is_some() && said.ballot == guard.token();
        eventually("a quorum knows the token", async || {
            let seen = client.inspect(name).await.unwrap();
            let with = seen.nodes.iter().filter(|(_, said)| said.as_ref().is_ok_and(has)).count();
            with >= 2 && seen.fence() >= guard.token()
        })
        .await;
    }
    let again = guard.lease();
    drop(guard);
    assert!(!again.is_held());
    for name in ["a", "b", "c"] {
        eventually("it is released", async || is_free(&client, name).await).await;
    }
}

async fn a_set_is_renewed_as_a_whole(world: impl World) {
    let (client, other) = (world.client_with(|builder| builder.ttl(300 * MS)).await, world.client().await);
    let guard = client.lock_all(["a", "b", "c"]).acquire(PATIENCE).await.unwrap();
    assert!(other.lock_all(["c", "d"]).acquire(SECOND).await.unwrap_err().is_timeout());
    assert!(guard.is_held());
    released(guard.release()).await;
}

async fn a_thousand_names_are_one_claim_and_more_are_refused(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let names = |many: usize| (0..many).map(|number| format!("name/{number}"));
    let options = client.options().round_timeout(LONG_ROUND);
    let guard = client.lock_all_with(names(MAX_NAMES), &options).unwrap().acquire(PATIENCE).await.unwrap();
    assert_eq!(guard.names().count(), MAX_NAMES);
    assert!(!is_free(&other, "name/999").await);
    let began = Instant::now();
    // On a busy machine, nodes may need longer than a round for this many names.
    if let Err(error) = guard.release().await {
        assert!(began.elapsed() >= LONG_ROUND && error.to_string().contains("was not confirmed"), "{error}");
    }
    eventually("it is released", async || is_free(&other, "name/999").await).await;
    let said = async |names: Vec<String>| client.lock_all(names).acquire(SECOND).await.unwrap_err();
    for (names, says) in [
        (names(MAX_NAMES + 1).collect(), "more than 1000 names"),
        (Vec::new(), "a lock has no name"),
        (vec!["a".to_owned(), String::new()], "empty"),
    ] {
        let error = said(names).await;
        assert!(error.is_config() && error.to_string().contains(says), "{error}");
    }
    let options = client.options();
    assert!(client.lock_all_with(Vec::<String>::new(), &options).unwrap_err().is_config());
    assert!(client.lock_all_with(["a", "b"], &options.ttl(5 * SECOND)).unwrap().acquire(PATIENCE).await.is_ok());
}

async fn uncontended_set_costs_each_node_a_claim_and_a_release(world: impl World) {
    let client = world.client().await;
    let asked = || world.all().iter().map(|&node| world.asked(node)).collect::<Vec<_>>();
    for many in [2, 100] {
        let (before, began) = (asked(), std::time::Instant::now());
        let names = (0..many).map(|number| format!("name/{number}"));
        let guard = client.lock_all(names).acquire(PATIENCE).await.unwrap();
        released(guard.release()).await;
        let more: Vec<_> = before.iter().map(|before| before + 1 + world.releases(many)).collect();
        eventually("each node was asked", async || asked().iter().zip(&more).all(|(now, then)| now >= then)).await;
        let most = |then: &u64| then + world.hellos() + later_hellos(&world, began);
        assert!(asked().iter().zip(&more).all(|(now, then)| *now <= most(then)), "{before:?}, {:?}", asked());
    }
}

/// A set without time to wait joins no queue of this process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_without_time_to_wait_keeps_no_caller_from_its_names() {
    let quorum = Quorum::in_memory(3).unwrap();
    // An unfair caller keeps its turn in this process until the lock is released.
    let unfair = quorum.options().fair(false);
    let b = quorum.lock_with("b", &unfair).unwrap().acquire(PATIENCE).await.unwrap();
    let set = quorum.lock_all(["a", "b"]);
    let tries = tokio::spawn(async move {
        while set.acquire(Duration::ZERO).await.is_err() {
            tokio::task::yield_now().await;
        }
    });
    for _ in 0..2_000 {
        quorum.lock("a").acquire(Duration::ZERO).await.unwrap().release().await.unwrap();
    }
    released(b.release()).await;
    tries.await.unwrap();
}

both! {
    3 nodes:
        uncontended_set_costs_each_node_a_claim_and_a_release,
        a_set_is_held_as_a_whole_or_not_at_all,
        set_ignores_the_order_and_repeats_of_its_names,
        a_sets_token_is_above_all_earlier_tokens_of_its_names,
        a_set_that_waits_keeps_the_names_before_that_one,
        a_set_that_gives_up_leaves_nothing,
        a_set_is_not_starved_by_locks_on_its_names,
        sets_that_overlap_do_not_deadlock,
        overlapping_sets_in_one_process_do_not_deadlock,
        set_that_loses_one_name_loses_all,
        a_set_that_no_node_holds_as_a_whole_is_held,
        a_set_that_waited_has_one_token_that_nodes_know,
        a_thousand_names_are_one_claim_and_more_are_refused;
    memory 3 nodes: a_set_is_renewed_as_a_whole;
}
