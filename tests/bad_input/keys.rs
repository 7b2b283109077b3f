//! Keys on a node that have a wrong type or content.

use std::time::Duration;

use quorumlock::{ErrorKind, Released};

use crate::SECOND;
use crate::common::server::Server;
use crate::common::{
    ConnectAll, PATIENCE, confirmed, eventually, inspected, new_servers, released, servers, unguarded,
};

/// Applies `harm` to the keys of one node, and then of a second node. The lock survives the first
/// harm. After the second, errors contain `hint`.
async fn one_is_survived_and_a_majority_is_told(name: &str, hint: &str, harm: impl Fn(&Server)) {
    let servers = servers(3).await;
    // The client repeats a refused release until the ttl has passed, so the ttl is short.
    let quorum = unguarded(&servers).ttl(12 * SECOND).connect_all().await;
    harm(&servers[0]);
    let guard = quorum.lock(name).acquire(PATIENCE).await.expect("two of three grant");
    assert_eq!(released(guard.release()).await, Released::Released);
    harm(&servers[1]);
    eventually(hint, async || {
        let error = quorum.lock(name).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        error.to_string().contains(hint)
    })
    .await;
    let error = quorum.lock(name).acquire(Duration::from_millis(100)).await.unwrap_err();
    assert!(error.is_unavailable() && error.nodes().len() == 3, "{error}");
    quorum.quiet().await;
    assert_eq!(servers[2].holder(name), None, "nothing is left");
}

#[tokio::test]
async fn a_key_of_another_type_in_the_way() {
    let harm = |server: &Server| {
        server.command(&["DEL", "quorumlock:{wrong}"]);
        server.command(&["RPUSH", "quorumlock:{wrong}", "somebody"]);
    };
    one_is_survived_and_a_majority_is_told(
        "wrong",
        "the key quorumlock:{wrong} is a list (a key of another type is in the way",
        harm,
    )
    .await;
    let servers = servers(1).await;
    harm(&servers[0]);
    let quorum = unguarded(&servers).connect_all().await;
    assert!(quorum.lock("wrong").acquire(Duration::ZERO).await.is_err());
    assert!(quorum.force_release("wrong").await.is_err());
    assert_eq!(servers[0].command(&["LRANGE", "quorumlock:{wrong}", "0", "-1"]), "somebody", "nothing is lost");
    assert!(quorum.lock("right").acquire(PATIENCE).await.is_ok(), "and no other name is in its way");
}

#[tokio::test]
async fn another_programs_hash_in_the_way() {
    let harm = |server: &Server| {
        server.command(&["DEL", "quorumlock:{theirs}"]);
        server.command(&["HSET", "quorumlock:{theirs}", "precious", "1"]);
    };
    one_is_survived_and_a_majority_is_told("theirs", "no lock of this protocol", harm).await;
    let servers = servers(1).await;
    harm(&servers[0]);
    let quorum = unguarded(&servers).connect_all().await;
    assert!(quorum.lock("theirs").acquire(Duration::ZERO).await.is_err());
    assert!(quorum.force_release("theirs").await.is_err());
    assert_eq!(servers[0].command(&["HGETALL", "quorumlock:{theirs}"]), "precious 1", "nothing is lost");
}

#[tokio::test]
async fn a_queue_of_another_type_in_the_way_leaves_no_hold_behind() {
    let servers = servers(1).await;
    servers[0].command(&["SET", "quorumlock:{queue}:queue", "precious"]);
    let quorum = unguarded(&servers).connect_all().await;
    let guard = quorum.lock("queue").acquire(PATIENCE).await.unwrap();
    let other = unguarded(&servers).connect_all().await;
    for client in [&quorum, &other] {
        eventually("the key is named", async || {
            let told = client.lock("queue").acquire(Duration::from_millis(100)).await.unwrap_err().to_string();
            told.contains("the key quorumlock:{queue}:queue is a string") && told.contains("another type is in the way")
        })
        .await;
    }
    assert_eq!(released(guard.release()).await, Released::Released);
    other.quiet().await;
    assert_eq!(servers[0].holder("queue"), None);
    assert_eq!(servers[0].command(&["GET", "quorumlock:{queue}:queue"]), "precious");
}

/// The key that has a wrong type is the hash of the waiters.
#[tokio::test]
async fn foreign_key_in_place_of_the_waiters_leaves_the_lock_usable() {
    let servers = servers(1).await;
    servers[0].command(&["SET", "quorumlock:{hands}:waiting", "precious"]);
    let quorum = unguarded(&servers).connect_all().await;
    let guard = quorum.lock("hands").acquire(PATIENCE).await.unwrap();
    let other = unguarded(&servers).connect_all().await;
    eventually("the key is named", async || {
        let error = other.lock("hands").acquire(Duration::from_millis(100)).await.unwrap_err();
        error.to_string().contains("the key quorumlock:{hands}:waiting is a string")
    })
    .await;
    assert_eq!(servers[0].command(&["EXISTS", "quorumlock:{hands}:queue"]), "0", "nobody waits");
    assert_eq!(released(guard.release()).await, Released::Released);
    other.quiet().await;
    assert!(other.lock("hands").acquire(PATIENCE).await.is_ok());
    assert_eq!(servers[0].command(&["GET", "quorumlock:{hands}:waiting"]), "precious");
}

#[tokio::test]
async fn a_key_in_the_place_of_a_nodes_record_is_named() {
    let put = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    for (words, said) in [
        (put(&["HSET", "quorumlock:node", "a", "b"]), "the key quorumlock:node is no record of this protocol"),
        (put(&["SET", "quorumlock:node", "precious"]), "the key quorumlock:node is a string"),
    ] {
        let servers = new_servers(1).await;
        servers[0].command(&words.iter().map(String::as_str).collect::<Vec<_>>());
        eventually(said, async || {
            let error = match unguarded(&servers).connect_timeout(2 * SECOND).connect().await {
                Ok(quorum) => quorum.lock("any").acquire(Duration::from_millis(100)).await.unwrap_err(),
                Err(error) => error,
            };
            error.is_unavailable() && error.to_string().contains(said)
        })
        .await;
        assert_ne!(servers[0].command(&["EXISTS", words[1].as_str()]), "0", "nothing is lost");
    }
}

#[tokio::test]
async fn a_node_without_memory() {
    let harm = |server: &Server| {
        server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    };
    one_is_survived_and_a_majority_is_told("full", "raise maxmemory", harm).await;
}

/// Waits until each server holds each name.
async fn held_everywhere(servers: &[Server], names: &[&str]) {
    let held = async || servers.iter().all(|server| names.iter().all(|name| server.holder(name).is_some()));
    eventually("each node holds it", held).await;
}

/// Waits until each server has renewed the hold of each name twice.
async fn renewed_twice(servers: &[Server], names: &[&str]) {
    let ends =
        || -> Vec<u128> { servers.iter().flat_map(|server| names.iter().map(move |name| server.ends(name))).collect() };
    for _ in 0..2 {
        let before = ends();
        eventually("each node renews it", async || ends().iter().zip(&before).all(|(now, then)| now > then)).await;
    }
}

/// The ttl is long, so that no lock is lost if the machine stalls.
#[tokio::test]
async fn nodes_that_run_out_of_memory_still_renew_and_release() {
    let servers = servers(3).await;
    let quorum = unguarded(&servers).ttl(24 * SECOND).connect_all().await;
    let guard = quorum.lock("full").acquire(PATIENCE).await.unwrap();
    held_everywhere(&servers, &["full"]).await;
    servers.iter().for_each(|server| assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]), "OK"));
    renewed_twice(&servers, &["full"]).await;
    assert!(guard.is_held());
    assert_eq!(released(guard.release()).await, Released::Released);
}

/// Without free memory, Redis refuses claims only. So renewals go on, and store the notes that they
/// carry.
#[tokio::test]
async fn notes_are_stored_by_nodes_without_memory() {
    let servers = servers(3).await;
    let quorum = unguarded(&servers).ttl(24 * SECOND).connect_all().await;
    let guard = quorum.lock("full").describe("what it is for").acquire(PATIENCE).await.unwrap();
    let leader = quorum.election("office").campaign(PATIENCE).await.unwrap();
    held_everywhere(&servers, &["full", "office"]).await;
    eventually("it is stored", async || inspected(&quorum, "full").await.description().is_some()).await;
    servers.iter().for_each(|server| {
        server.command(&["DEL", "quorumlock:{full}:note"]);
        assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    });
    confirmed(leader.proclaim("here")).await;
    eventually("the value is stored", async || {
        inspected(&quorum, "office").await.description().is_some_and(|told| &*told.says == "here")
    })
    .await;
    eventually("it is stored again", async || inspected(&quorum, "full").await.description().is_some()).await;
    renewed_twice(&servers, &["full", "office"]).await;
    assert!(guard.is_held() && leader.is_held());
    assert_eq!(released(guard.release()).await, Released::Released);
    assert_eq!(released(leader.resign()).await, Released::Released);
    // A release ends with a quorum, so the last node may be late.
    let gone = |server: &Server| server.command(&["EXISTS", "quorumlock:{office}:note"]) == "0";
    eventually("no node has the note", async || servers.iter().all(gone)).await;
}

#[tokio::test]
async fn a_key_in_the_place_of_a_note_keeps_nobody_from_the_lock() {
    for [command, name] in [["RPUSH", "list"], ["SET", "text"]] {
        let (servers, key) = (servers(1).await, format!("quorumlock:{{{name}}}:note"));
        servers[0].command(&[command, &key, "precious"]);
        let quorum = unguarded(&servers).connect_all().await;
        let leader = quorum.election(name).campaign(PATIENCE).await.unwrap();
        confirmed(leader.proclaim("here")).await;
        let seen = inspected(&quorum, name).await;
        assert!(seen.holder().is_some() && seen.description().is_none());
        assert_eq!(released(leader.resign()).await, Released::Released);
        assert_eq!(servers[0].command(&["EXISTS", &key]), "1", "nothing is lost");
        assert!(quorum.lock(name).describe("what it is for").acquire(PATIENCE).await.is_ok());
    }
}

#[tokio::test]
async fn fence_near_its_end_grants_nothing_and_names_the_fix() {
    let servers = servers(1).await;
    servers[0].set_fence("used", (1 << 53) - 1);
    let quorum = unguarded(&servers).connect_all().await;
    eventually("it says what to do", async || {
        let error = quorum.lock("used").try_acquire().await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        error.to_string().contains("delete the name's key")
    })
    .await;
    assert!(quorum.lock("other").acquire(PATIENCE).await.is_ok(), "no other name is harmed");
}
