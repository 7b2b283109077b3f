//! How locks end with their connections, and with the agent.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::super::{until, until_released};
use super::{Agent, path, request, serve, wanted};
use crate::common::server::Server;
use crate::common::servers;

fn is_held(servers: &[Server], name: &str) -> bool {
    servers.iter().filter(|server| server.hold(name).is_some()).count() > servers.len() / 2
}

#[tokio::test]
async fn lock_of_a_closed_connection_is_released() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    for half in [false, true] {
        let (mut holder, mut waiter) = (agent.client(), agent.client());
        let lock = holder.acquires("a", Value::Null);
        waiter.sends("POST", "/v1/locks", wanted("a", Value::Null));
        if half {
            holder.closes_half();
        } else {
            drop(holder);
        }
        assert_eq!(waiter.hears().0, 200);
        let (status, told) = waiter.asks("GET", &path(&lock), "");
        assert_eq!((status, &told["reason"]), (410, &json!("disconnected")), "{told}");
        drop(waiter);
        until_released(&servers, "a");
    }
}

#[tokio::test]
async fn request_of_a_closed_connection_is_withdrawn() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    let mut holder = agent.client();
    let lock = holder.acquires("a", Value::Null);
    let post = request("POST", "/v1/locks", "", &wanted("a", Value::Null).to_string());
    let more = request("GET", "/healthz", "", "");
    // hyper does not read on while requests are behind the one that waits.
    for pipelined in [0, 1, 1_000] {
        let mut waiter = agent.client();
        waiter.writes(post.clone());
        until("it waits", || agent.counts("waiting") == 1);
        waiter.writes(more.repeat(pipelined));
        drop(waiter);
        until("it does not wait", || agent.counts("waiting") == 0);
    }
    // The answer to a closed connection is no lock without an owner.
    let mut waiter = agent.client();
    waiter.writes(post.clone() + &post);
    until("it waits", || agent.counts("waiting") == 1);
    holder.asks("DELETE", &path(&lock), "");
    waiter.head();
    until("it waits for itself", || agent.counts("waiting") == 1 && agent.counts("locks") == 1);
    drop(waiter);
    until_released(&servers, "a");
    until("no lock is left", || agent.counts("locks") == 0);
}

#[tokio::test]
async fn lock_stays_while_the_agent_has_closed_its_connection() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    let (mut client, mut other) = (agent.client(), agent.client());
    let lock = client.acquires("a", Value::Null);
    client.writes("this is no HTTP\r\n\r\n");
    assert!(client.rest().starts_with("HTTP/1.1 400 "), "the agent closes the connection");
    // The client may still work, since it has not closed its side.
    assert_eq!(other.asks("GET", &path(&lock), "").0, 200);
    assert!(is_held(&servers, "a"));
    drop(client);
    until_released(&servers, "a");
    // A client that never closes its side loses the lock, but not before its deadline.
    let mut client = agent.client();
    let lock = client.acquires("a", json!({ "ttl_ms": 12_000 }));
    client.writes("this is no HTTP\r\n\r\n");
    client.rest();
    until_released(&servers, "a");
    let (status, told) = other.asks("GET", &path(&lock), "");
    assert_eq!((status, &told["reason"]), (410, &json!("disconnected")), "{told}");
}

#[tokio::test]
async fn agent_that_is_told_to_end_waits_for_its_clients() {
    let servers = servers(3).await;
    let mut agent = Agent::start(&servers, &["--grace", "1h"]);
    let (mut holder, mut waiter, mut other) = (agent.client(), agent.client(), agent.client());
    let lock = holder.acquires("a", Value::Null);
    waiter.sends("POST", "/v1/locks", wanted("a", Value::Null));
    until("it waits", || agent.counts("waiting") == 1);
    agent.process.send(Signal::TERM);
    let (status, told) = waiter.hears();
    assert_eq!((status, &told["error"]), (503, &json!("stopping")), "{told}");
    let (status, told) = other.asks("POST", "/v1/locks", wanted("b", Value::Null));
    assert_eq!((status, &told["error"]), (503, &json!("stopping")), "{told}");
    assert_eq!(other.asks("GET", &path(&lock), "").0, 200);
    assert_eq!(agent.client().asks("DELETE", &path(&lock), "").0, 200);
    let socket = agent.socket();
    let (code, _, err) = agent.process.done();
    assert_eq!(code, 0, "{err}");
    assert!(!socket.exists());
    until_released(&servers, "a");
}

#[tokio::test]
async fn locks_that_clients_keep_end_by_their_ttl() {
    let servers = servers(3).await;
    let mut agent = Agent::start(&servers, &["--grace", "0"]);
    let (mut slow, mut quick, mut watcher) = (agent.client(), agent.client(), agent.client());
    let lock = slow.acquires("slow", Value::Null);
    quick.acquires("quick", Value::Null);
    watcher.sends("GET", &format!("{}?wait_ms={}", path(&lock), super::HOUR), "");
    until("it waits", || agent.counts("waiting") == 1);
    agent.process.send(Signal::TERM);
    let (status, told) = watcher.hears();
    assert_eq!((status, &told["reason"]), (410, &json!("stopping")), "{told}");
    // This client notices the end of its connection, and lets go.
    assert_eq!(quick.rest(), "");
    drop(quick);
    let (code, _, err) = agent.process.done();
    assert!(code == 0 && err.contains("have not let go"), "{code}: {err}");
    // On a machine that stalls, it was not quick enough.
    if err.contains("the clients of 1 lock have") {
        until_released(&servers, "quick");
    }
    assert!(is_held(&servers, "slow"), "its client may still work");
    drop(slow);
}

#[tokio::test]
async fn killed_agent_leaves_its_locks_to_their_ttl() {
    let servers = servers(3).await;
    let mut agent = Agent::start(&servers, &[]);
    let mut client = agent.client();
    client.acquires("a", json!({ "ttl_ms": 12_000 }));
    agent.process.child().kill().unwrap();
    assert_eq!(client.rest(), "", "the connection breaks");
    agent.process.child().wait().unwrap();
    // A new agent takes over the socket, and then the lock.
    let folder = std::mem::replace(&mut agent.folder, tempfile::tempdir().unwrap());
    let agent = Agent::within(folder, &servers, &[]);
    agent.client().acquires("a", Value::Null);
}

#[tokio::test]
async fn agent_without_nodes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, err) = super::super::done(serve(&[], folder.path()).env_remove("QUORUMLOCK_NODES"));
    assert!(code == 64 && err.contains("no node is configured"), "{code}: {err}");
}
