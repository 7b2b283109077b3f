//! Notes: texts in which holders describe themselves.

use std::cell::RefCell;
use std::time::Duration;

use futures::future::join_all;
use quorumlock::{Error, Inspected, MAX_NOTE, Quorum};
use tokio::time::Instant;

use crate::common::server::Server;
use crate::common::{PATIENCE, eventually, inspected, is_taken, released};
use crate::world::{Redis, World};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

async fn looked_at(client: &Quorum, name: &str) -> Inspected {
    client.inspect(name).await.unwrap()
}

async fn says(client: &Quorum, name: &str) -> Option<String> {
    inspected(client, name).await.description().map(|told| told.says.to_string())
}

/// Waits until every node has stored the holder's note.
async fn known_everywhere(client: &Quorum, name: &str, expected: &str) {
    eventually("every node knows it", async || {
        let nodes = looked_at(client, name).await.nodes;
        let knows = |said: &quorumlock::Inspection| said.description.as_ref().is_some_and(|it| *it.says == *expected);
        nodes.iter().all(|(_, said)| said.as_ref().is_ok_and(knows))
    })
    .await;
}

async fn a_note_is_shown_while_its_lock_is_held_with_token_and_age(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    assert_eq!(says(&other, "a").await, None);
    let guard = client.lock("a").describe("deploy #812").acquire(PATIENCE).await.unwrap();
    known_everywhere(&other, "a", "deploy #812").await;
    let described = async || inspected(&other, "a").await.description().cloned().unwrap();
    let told = described().await;
    assert_eq!((told.token, told.number), (guard.token(), 0));
    tokio::time::sleep(20 * MS).await;
    let later = described().await.since;
    assert!(later >= told.since + 19 * MS && later < 60 * SECOND, "{:?} {later:?}", told.since);
    released(guard.release()).await;
    world.freed("a").await;
    assert_eq!(says(&other, "a").await, None);
    let _plain = client.lock("a").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("a").await;
    assert_eq!(says(&other, "a").await, None, "the next holder says nothing");
}

async fn a_note_is_shown_under_each_name_of_a_set(world: impl World) {
    let client = world.client().await;
    let guard = client.lock_all(["a", "b"]).describe("both").acquire(PATIENCE).await.unwrap();
    for name in ["a", "b"] {
        known_everywhere(&client, name, "both").await;
    }
    eventually("it is told", async || {
        let error = client.lock_all(["b", "c"]).acquire(100 * MS).await.unwrap_err();
        error.is_timeout() && error.holder_says() == Some("both")
    })
    .await;
    released(guard.release()).await;
}

async fn refused_caller_gets_the_note_of_the_holder(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let guard = client.lock("a").describe("deploy #812").acquire(PATIENCE).await.unwrap();
    known_everywhere(&other, "a", "deploy #812").await;
    let told = |error: &Error| error.is_timeout() && error.holder_says() == Some("deploy #812");
    for patience in [Duration::ZERO, 100 * MS] {
        // Try again: a caller does not wait for nodes that take longer than 500 ms to return the
        // note.
        eventually("it is told", async || {
            let error = other.lock("a").acquire(patience).await.unwrap_err();
            told(&error) && error.to_string().contains("says \"deploy #812\", and has held it for ")
        })
        .await;
    }
    assert!(is_taken(&other.lock("a")).await);
    let lock = other.lock("a");
    eventually("the others of its process know what the first was told", async || {
        let all = [1, 2, 2].map(|part| lock.acquire(world.ttl() / part));
        join_all(all).await.into_iter().all(|refused| told(&refused.unwrap_err()))
    })
    .await;
    drop(guard);
    world.freed("a").await;
    let _plain = client.lock("a").acquire(PATIENCE).await.unwrap();
    let error = world.answer(async || other.lock("a").acquire(Duration::ZERO).await).await.unwrap_err();
    assert!(error.is_timeout() && error.holder_says().is_none(), "{error}");
    let _guard = client.lock("b").describe("mine").acquire(PATIENCE).await.unwrap();
    known_everywhere(&client, "b", "mine").await;
    eventually("who wants to read is told", async || {
        let error = other.rw_lock("b").read(Duration::ZERO).await.unwrap_err();
        error.is_timeout() && error.holder_says() == Some("mine")
    })
    .await;
}

async fn a_note_that_a_node_forgot_is_stored_again(mut world: impl World) {
    // A renewal stores the note again. The lock must not be lost before this renewal.
    let client = world.client_with(|builder| builder.ttl(3 * world.ttl())).await;
    let guard = client.lock("a").describe("deploy #812").acquire(PATIENCE).await.unwrap();
    known_everywhere(&client, "a", "deploy #812").await;
    world.kill(1);
    world.restart(1, Duration::ZERO).await;
    known_everywhere(&client, "a", "deploy #812").await;
    assert!(guard.is_held());
}

async fn a_note_goes_with_the_lock_from_hand_to_hand(world: impl World) {
    let (one, other) = (world.client().await, world.client().await);
    let first = one.lock("a").describe("first").acquire(PATIENCE).await.unwrap();
    known_everywhere(&one, "a", "first").await;
    let (lock, looks) = (other.lock("a").describe("second"), one.clone());
    let waiting = tokio::spawn(async move { lock.acquire(PATIENCE).await.unwrap() });
    eventually("it waits", async || {
        let nodes = looked_at(&looks, "a").await.nodes;
        nodes.iter().all(|(_, said)| said.as_ref().is_ok_and(|said| said.waiting == 1))
    })
    .await;
    released(first.release()).await;
    let second = waiting.await.unwrap();
    known_everywhere(&one, "a", "second").await;
    assert!(second.is_held());
}

async fn a_bad_note_is_refused_by_its_fault(world: impl World) {
    let client = world.client().await;
    let longest = "x".repeat(MAX_NOTE);
    let guard = client.lock("a").describe(&longest).acquire(PATIENCE).await.unwrap();
    known_everywhere(&client, "a", &longest).await;
    released(guard.release()).await;
    let long = longest + "x";
    for (note, told) in [(&*long, "257 bytes; use at most 256"), ("a\nb", "control character '\\n'"), ("\0", "'\\0'")] {
        let lock = client.lock("a").describe(note);
        for error in [lock.acquire(SECOND).await.unwrap_err(), lock.try_acquire().await.unwrap_err()] {
            assert!(error.is_config() && error.to_string().contains(told), "{error}");
        }
    }
    assert!(client.lock("").describe("fine").acquire(SECOND).await.unwrap_err().to_string().contains("empty"));
}

async fn a_lock_without_a_note_costs_no_operation_more(world: impl World) {
    let (client, other) = (world.client().await, world.client().await);
    let asked = || world.all().iter().map(|&node| world.asked(node)).collect::<Vec<_>>();
    for number in 0.. {
        let (name, began, before) = (format!("a/{number}"), Instant::now(), asked());
        let guard = client.lock(&name).acquire(PATIENCE).await.unwrap();
        // A node that gets this claim late would grant the next claim, and would get one more
        // operation: a withdrawal.
        world.held_everywhere(&name).await;
        let refused = world.answer(async || other.lock(&name).acquire(Duration::ZERO).await).await;
        assert!(refused.unwrap_err().is_timeout());
        released(guard.release()).await;
        // The three operations are a claim, a claim that is refused, and a release.
        let three_more: Vec<_> = before.iter().map(|before| before + 3).collect();
        let come = async || asked().iter().zip(&three_more).all(|(now, then)| now >= then);
        eventually("each node was asked", come).await;
        let now = asked();
        // If the machine stalled, there may be more rounds, renewals and hellos.
        if began.elapsed() < 2 * SECOND {
            // Each of the two clients may send hellos. A node that is slow to refuse the second
            // claim also gets the withdrawal.
            let most = |then: &u64| then + 3 * world.hellos();
            assert!(now.iter().zip(&three_more).all(|(now, then)| *now <= most(then)), "{before:?}, {now:?}");
            return;
        }
        assert!(number < 20, "the machine is too slow");
        client.quiet().await;
        other.quiet().await;
    }
}

async fn held_names_are_found_with_the_notes_of_their_holders(mut world: impl World) {
    let client = world.client().await;
    let _held = client.lock_all(["b", "[a*]", "{x}:queue"]).acquire(PATIENCE).await.unwrap();
    let _described = client.lock("c").describe("deploy #812").acquire(PATIENCE).await.unwrap();
    known_everywhere(&client, "c", "deploy #812").await;
    let _read = client.rw_lock("read").read(PATIENCE).await.unwrap();
    // All nodes must hold the names, so that two nodes are a quorum when the third is killed.
    world.held_everywhere("b").await;
    world.held_everywhere("read").await;
    released(client.lock("free").acquire(PATIENCE).await.unwrap().release()).await;
    world.freed("free").await;
    for killed in [None, Some(2)] {
        if let Some(node) = killed {
            world.kill(node);
        }
        let found = found(&client, killed.is_some()).await;
        let names: Vec<_> = found.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["[a*]", "b", "c", "read", "{x}:queue"]);
        let says = |at: usize| found[at].1.description().map(|told| told.says.to_string());
        assert_eq!((says(1), says(2)), (None, Some("deploy #812".to_owned())));
        assert!(found.iter().all(|(_, inspected)| inspected.holder().is_some()));
    }
    world.kill(1);
    eventually("two nodes are unread", async || {
        let mut names = client.held_names();
        while names.next().await.unwrap().is_some() {}
        assert!(!names.is_complete());
        names.unread().len() == 2
    })
    .await;
}

/// Lists the names, until all nodes have answered in time, except one node if `unread`.
async fn found(client: &Quorum, unread: bool) -> Vec<(String, Inspected)> {
    let found = RefCell::new(Vec::new());
    eventually("the nodes list their names", async || {
        found.borrow_mut().clear();
        let mut names = client.held_names();
        while let Some(page) = names.next().await.unwrap() {
            found.borrow_mut().extend(page);
        }
        assert!(names.looked_at() > 0);
        let known = |(_, inspected): &(String, Inspected)| inspected.holder().is_some();
        let unread = names.unread().len() == usize::from(unread);
        unread && names.is_complete() && found.borrow().iter().all(known)
    })
    .await;
    let mut found = found.into_inner();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found
}

#[tokio::test]
async fn keys_of_other_programs_are_no_names_that_are_held() {
    let world = Redis::start(3).await;
    for server in &world.servers {
        server.command(&["SET", "quorumlock:{text}", "of another program"]);
        server.command(&["RPUSH", "quorumlock:{list}", "of another program"]);
    }
    let client = world.client().await;
    let _guard = client.lock("a").acquire(PATIENCE).await.unwrap();
    let found = found(&client, false).await;
    assert_eq!(found.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["a"]);
}

/// Nodes keep a note for 105 s after the end of the hold with which it was stored last.
#[tokio::test]
async fn a_note_outlasts_the_hold_that_it_was_stored_with_and_no_more() {
    let world = Redis::start(3).await;
    let client = world.client_with(|builder| builder.ttl(30 * SECOND)).await;
    let guard = client.lock("a").describe("deploy #812").acquire(PATIENCE).await.unwrap();
    known_everywhere(&client, "a", "deploy #812").await;
    let left = |server: &Server| server.command(&["PTTL", "quorumlock:{a}:note"]).parse::<u32>().unwrap();
    assert!(world.servers.iter().all(|server| (105_000..=135_000).contains(&left(server))));
    released(guard.release()).await;
    world.freed("a").await;
    assert!(world.servers.iter().all(|server| server.command(&["EXISTS", "quorumlock:{a}:note"]) == "0"));
}

both! {
    3 nodes:
        a_note_is_shown_while_its_lock_is_held_with_token_and_age,
        a_note_is_shown_under_each_name_of_a_set,
        refused_caller_gets_the_note_of_the_holder,
        a_note_that_a_node_forgot_is_stored_again,
        a_note_goes_with_the_lock_from_hand_to_hand,
        held_names_are_found_with_the_notes_of_their_holders,
        a_bad_note_is_refused_by_its_fault,
        a_lock_without_a_note_costs_no_operation_more;
}
