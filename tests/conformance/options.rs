//! Options of locks and quorums: default timeouts, the bound on rounds, and key formats.

use std::pin::pin;
use std::time::Duration;

use futures::FutureExt;
use quorumlock::node::Verb;

use crate::common::{PATIENCE, eventually, inspected, is_taken, released};
use crate::world::{Memory, World};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

async fn a_default_wait_is_that_of_the_quorum_or_of_the_lock(world: impl World) {
    let client = world.client_with(|builder| builder.wait(Duration::ZERO)).await;
    let lock = client.lock("it");
    let guard = world.answer(async || lock.acquire_default().await).await.unwrap();
    let refused = world.answer(async || lock.acquire_default().await).await;
    assert!(refused.unwrap_err().is_timeout());
    let patient = client.lock_with("it", &client.options().wait(PATIENCE)).unwrap();
    let mut waits = pin!(patient.acquire_default());
    assert!((&mut waits).now_or_never().is_none());
    let (next, _) = tokio::join!(waits, released(guard.release()));
    assert!(next.unwrap().is_held());
}

async fn a_caller_whose_rounds_are_used_up_gives_up_and_says_so(world: impl World) {
    let (client, other) = (world.client_with(|builder| builder.ttl(300 * MS)).await, world.client().await);
    let guard = other.lock("it").acquire(PATIENCE).await.unwrap();
    for (most, fair) in [(1, true), (3, true), (3, false)] {
        let options = client.options().max_rounds(most).fair(fair);
        let lock = client.lock_with("it", &options).unwrap();
        let error = lock.acquire(60 * SECOND).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        assert!(error.to_string().contains(&format!("max_rounds ({most}) ended the wait")), "{error}");
        assert_eq!(error.nodes().len(), 3, "{error}");
        assert!(lock.try_acquire().await.unwrap().is_none());
        // The timeout ended the wait before `max_rounds` was reached.
        let error = lock.acquire(Duration::ZERO).await.unwrap_err();
        assert!(error.is_timeout() && !error.to_string().contains("max_rounds"), "{error}");
    }
    let waiting = async || {
        let nodes = other.inspect("it").await.unwrap().nodes;
        nodes.iter().all(|(_, said)| said.as_ref().is_ok_and(|it| it.waiting == 0))
    };
    eventually("it has left all lines", waiting).await;
    guard.release().await.unwrap();
    let lock = client.lock_with("it", &client.options().max_rounds(1)).unwrap();
    eventually("it is free again", async || lock.acquire(60 * SECOND).await.is_ok()).await;
}

/// In memory only: with memory nodes, tests can count claims apart from other operations.
#[tokio::test(start_paused = true)]
async fn each_node_gets_one_claim_a_round_up_to_max_rounds() {
    let world = Memory::start(3).await;
    let (client, other) = (world.client().await, world.client().await);
    let _guard = other.lock("it").acquire(PATIENCE).await.unwrap();
    let claims = || world.faults.iter().map(|node| node.asked(Verb::Claim)).collect::<Vec<_>>();
    for most in [1, 2, 5] {
        let before = claims();
        let lock = client.lock_with("it", &client.options().max_rounds(most)).unwrap();
        assert!(lock.acquire(600 * SECOND).await.unwrap_err().is_timeout());
        let rounds: Vec<_> = claims().iter().zip(before).map(|(now, before)| now - before).collect();
        assert_eq!(rounds, [u64::from(most); 3]);
    }
}

async fn max_rounds_bound_the_wait_for_a_turn_in_this_process(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let guard = other.lock("it").acquire(PATIENCE).await.unwrap();
    let first = client.lock("it");
    let mut first = pin!(first.acquire(PATIENCE));
    assert!((&mut first).now_or_never().is_none());
    let options = client.options().max_rounds(2).round_timeout(100 * MS);
    let second = client.lock_with("it", &options).unwrap();
    let error = tokio::select! {
        _ = &mut first => panic!("another client holds it"),
        second = second.acquire(60 * SECOND) => second.unwrap_err(),
    };
    let said = error.to_string();
    assert!(error.is_timeout() && said.contains("before this caller until max_rounds (2) ended the wait"), "{said}");
    let (first, _) = tokio::join!(first, released(guard.release()));
    assert!(first.unwrap().is_held());
}

async fn rounds_that_no_quorum_answers_are_unavailable(mut world: impl World) {
    let client = world.client().await;
    (0..2).for_each(|node| world.kill(node));
    let options = client.options().max_rounds(2).round_timeout(100 * MS);
    let error = client.lock_with("it", &options).unwrap().acquire(60 * SECOND).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("max_rounds (2)"), "{error}");
}

async fn a_key_format_keeps_tenants_apart_on_the_same_nodes(world: impl World) {
    let tenant = |format: &'static str| world.client_with(move |builder| builder.key_format(format));
    let (acme, umbrella, plain) = (tenant("acme/{name}").await, tenant("umbrella/{name}").await, world.client().await);
    let guard = acme.lock("it").acquire(PATIENCE).await.unwrap();
    assert_eq!(guard.name(), "acme/it");
    let lock = umbrella.lock("it");
    let theirs = world.answer(async || lock.try_acquire().await).await.unwrap().expect("another tenant's");
    assert!(acme.lock("it").try_acquire().await.unwrap().is_none());
    assert!(is_taken(&plain.lock("acme/it")).await);
    let error = acme.lock_all(["it", ""]).acquire(SECOND).await.unwrap_err();
    assert!(error.is_config() && error.to_string().contains("name is empty"), "{error}");
    drop(theirs);
    // A hand-over of this name works too.
    let (waits, lock) = (tenant("acme/{name}").await, plain.lock("acme/it"));
    let waits = waits.lock("it");
    let mut next = pin!(waits.acquire(2 * PATIENCE));
    assert!((&mut next).now_or_never().is_none());
    let (next, _) = tokio::join!(next, released(guard.release()));
    assert!(next.unwrap().is_held());
    eventually("it is free", async || !is_taken(&lock).await).await;
}

async fn names_are_reported_without_the_key_format_of_the_client(world: impl World) {
    let tenant = |format: &'static str| world.client_with(move |builder| builder.key_format(format));
    let (acme, umbrella) = (tenant("acme/{name}z").await, tenant("umbrella/{name}z").await);
    let session = acme.session().grant(PATIENCE).await.unwrap();
    session.lock(["ab", "a"], PATIENCE).await.unwrap();
    let _theirs = umbrella.lock("a").acquire(PATIENCE).await.unwrap();
    let held: Vec<_> = session.held().into_iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(held, ["a", "ab"]);
    let another = acme.session().grant(PATIENCE).await.unwrap();
    eventually("it is told which is held", async || {
        let error = another.try_lock(["a"]).await.unwrap_err();
        error.conflicts().first().is_some_and(|held| &*held.name == "a")
    })
    .await;
    let mut names = acme.held_names();
    let mut found = Vec::new();
    while let Some(page) = names.next().await.unwrap() {
        found.extend(page.into_iter().map(|(name, _)| name));
    }
    assert_eq!(found, ["a", "ab"]);
    assert!(inspected(&acme, &found[0]).await.holder().is_some());
    assert!(session.token(&held[0]).is_some());
    world.confirmed(session.unlock(&held)).await;
    assert!(session.held().is_empty());
}

both! {
    3 nodes:
        a_default_wait_is_that_of_the_quorum_or_of_the_lock,
        max_rounds_bound_the_wait_for_a_turn_in_this_process,
        rounds_that_no_quorum_answers_are_unavailable,
        a_key_format_keeps_tenants_apart_on_the_same_nodes,
        names_are_reported_without_the_key_format_of_the_client;
    memory 3 nodes: a_caller_whose_rounds_are_used_up_gives_up_and_says_so;
}
