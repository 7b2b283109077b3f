//! How locks end with their connections, and with the agent.

use std::io::Write;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::super::{at_once, done, over, until, until_released};
use super::{Agent, Client, IN_VAIN_MS, path, request, serve, wanted};
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
    // While further requests follow the waiting one, hyper reads nothing, and might miss the close.
    for pipelined in [0, 1, 1_000] {
        let mut waiter = agent.client();
        waiter.writes(post.clone());
        until("it waits", || agent.counts("waiting") == 1);
        waiter.writes(more.repeat(pipelined));
        drop(waiter);
        until("it does not wait", || agent.counts("waiting") == 0);
    }
    // A lock must not stay without an owner if its answer goes to a closed connection.
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

/// Makes the agent close a connection, and waits for the end.
fn makes_the_agent_close(client: &mut Client, how: &str) {
    client.writes(match how {
        "bad HTTP" => "this is no HTTP\r\n\r\n".to_owned(),
        "a large body" => "POST /v1/locks HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n".to_owned(),
        "a slow body" => "POST /v1/locks HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{".to_owned(),
        "a slow head" => "GET /healthz HTTP/1.1\r\nHo".to_owned(),
        _ => request("GET", "/healthz", "Connection: close\r\n", ""),
    });
    let status = |rest: &str| rest.split(' ').nth(1).map(str::to_owned);
    let expected = match how {
        "bad HTTP" => Some("400"),
        "a large body" => Some("413"),
        "a slow body" => Some("408"),
        "a slow head" => None,
        _ => Some("200"),
    };
    assert_eq!(status(&client.rest()).as_deref(), expected, "{how}");
}

#[tokio::test]
async fn lock_of_a_connection_that_the_agent_closed_stays() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    at_once(["bad HTTP", "a large body", "a slow body", "a slow head", "Connection: close"], |how| {
        let (mut client, mut other) = (agent.client(), agent.client());
        let lock = client.acquires(how, json!({ "ttl_ms": 60_000 }));
        makes_the_agent_close(&mut client, how);
        // The client's library closes its side by itself, while the client works on.
        drop(client);
        let (status, told) = other.asks("GET", &path(&lock), "");
        assert_eq!(status, 200, "{how}: {told}");
        let (status, told) = other.asks("POST", "/v1/locks", json!({ "names": [how], "timeout_ms": IN_VAIN_MS }));
        assert_eq!(status, 409, "{how}: {told}");
        assert_eq!(other.asks("DELETE", &path(&lock), ""), (200, json!({ "released": true })), "{how}");
        until_released(&servers, how);
    });
}

/// After the answer that its lock is lost, a client may need some time to end its work.
#[tokio::test]
async fn lost_lock_of_a_connection_that_the_agent_closed_stays() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    at_once(["bad HTTP", "Connection: close"], |how| {
        let (mut client, mut other) = (agent.client(), agent.client());
        let lock = client.acquires(how, json!({ "ttl_ms": 60_000 }));
        assert_eq!(done(over(&servers).args(["release", how, "--force", "--yes"])).0, 0);
        let wait = format!("{}?wait_ms={}", path(&lock), super::HOUR);
        assert_eq!(other.asks("GET", &wait, "").0, 410, "{how}");
        if how == "bad HTTP" {
            assert_eq!(client.asks("GET", &path(&lock), "").0, 410);
            makes_the_agent_close(&mut client, how);
        } else {
            client.writes(request("GET", &path(&lock), "Connection: close\r\n", ""));
            assert!(client.rest().starts_with("HTTP/1.1 410 "), "{how}");
        }
        drop(client);
        let (status, told) = other.asks("POST", "/v1/locks", json!({ "names": [how], "timeout_ms": IN_VAIN_MS }));
        assert_eq!(status, 409, "{how}: {told}");
        assert_eq!(other.asks("DELETE", &path(&lock), "").0, 410, "{how}");
        until_released(&servers, how);
    });
}

#[tokio::test]
async fn lock_of_a_connection_that_the_agent_closed_ends_in_time() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    at_once(["closes its side", "does not"], |who| {
        let (mut client, mut other) = (agent.client(), agent.client());
        let sent = Instant::now();
        let lock = client.acquires(who, json!({ "ttl_ms": 12_000 }));
        let deadline = sent + Duration::from_millis(lock["until_ms"].as_u64().unwrap());
        makes_the_agent_close(&mut client, "bad HTTP");
        let _client = (who == "does not").then_some(client);
        until_released(&servers, who);
        assert!(Instant::now() >= deadline, "the client could still work");
        let (status, told) = other.asks("GET", &path(&lock), "");
        assert_eq!((status, &told["reason"]), (410, &json!("disconnected")), "{who}: {told}");
    });
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
    let (mut slow, mut quick, mut unaware) = (agent.client(), agent.client(), agent.client());
    let mut careless = agent.client();
    slow.acquires("slow", Value::Null);
    unaware.acquires("unaware", Value::Null);
    let lock = quick.acquires("quick", Value::Null);
    quick.sends("GET", &format!("{}?wait_ms={}", path(&lock), super::HOUR), "");
    let lock = careless.acquires("careless", Value::Null);
    careless.sends("GET", &format!("{}?wait_ms={}", path(&lock), super::HOUR), "");
    until("they wait", || agent.counts("waiting") == 2);
    agent.process.send(Signal::TERM);
    // This client learns that its lock has ended, and lets go.
    let (status, told) = quick.hears();
    assert_eq!((status, &told["reason"]), (410, &json!("stopping")), "{told}");
    drop(quick);
    // The library of this client notices the end of its connection. The client does not.
    assert_eq!(unaware.rest(), "");
    drop(unaware);
    // The library of this client closes its side when the agent does, perhaps before its program
    // has read the answer. So the agent must not close first.
    assert_eq!(careless.head().0, 410);
    careless.rest();
    drop(careless);
    let (code, _, err) = agent.process.done();
    assert!(code == 0 && err.contains("have not let go"), "{code}: {err}");
    // If the machine stalls, the client of `quick` may let go too late.
    if err.contains("the clients of 3 locks have") {
        until_released(&servers, "quick");
    }
    for name in ["slow", "unaware", "careless"] {
        assert!(is_held(&servers, name), "the client of {name} may still work");
    }
    drop(slow);
}

#[tokio::test]
async fn ending_agent_serves_a_request_of_a_new_connection() {
    let servers = servers(3).await;
    let mut tries = 0;
    // The agent runs for another second. If the machine stalls, the agent may end too early.
    until("the lock is released", || {
        tries += 1;
        let mut agent = Agent::start(&servers, &["--grace", "0"]);
        let (mut holder, mut new) = (agent.client(), agent.client());
        let lock = holder.acquires(&format!("try {tries}"), Value::Null);
        until("the new connection is accepted", || agent.counts("clients") == 3);
        holder.sends("GET", &format!("{}?wait_ms=3600000", path(&lock)), "");
        until("it waits", || agent.counts("waiting") == 1);
        agent.process.send(Signal::TERM);
        assert_eq!(holder.hears().0, 410, "the agent has stopped");
        new.writer.write_all(request("DELETE", &path(&lock), "", "").as_bytes()).is_ok()
            && new.rest().starts_with("HTTP/1.1 200 ")
    });
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
    let (code, _, err) = done(serve(&[], folder.path()).env_remove("QUORUMLOCK_NODES"));
    assert!(code == 64 && err.contains("no node is configured"), "{code}: {err}");
}
