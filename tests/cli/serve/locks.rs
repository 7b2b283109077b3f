//! The plain lock, by the agent.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::super::{at_once, done, over, send, until, until_released};
use super::{Agent, IN_VAIN_MS, path, wanted};
use crate::common::{later, servers};

#[tokio::test]
async fn lock_excludes_others_and_is_released() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    let (mut first, mut second) = (agent.client(), agent.client());
    let lock = first.acquires("orders/42", Value::Null);
    assert_eq!((&lock["names"], &lock["state"]), (&json!(["orders/42"]), &json!("held")), "{lock}");
    assert_eq!(lock["tokens"]["orders/42"], lock["token"]);
    assert!((1..30_000).contains(&lock["until_ms"].as_u64().unwrap()), "{lock}");
    let (status, held) = second.asks("POST", "/v1/locks", json!({ "names": ["orders/42"], "timeout_ms": 0 }));
    assert_eq!((status, &held["error"]), (409, &json!("held")), "{held}");
    let note = format!("pid {} (uid {}) of the agent", std::process::id(), rustix::process::getuid().as_raw());
    assert_eq!(held["note"], note, "{held}");
    assert!(held["holder"].as_str().unwrap().contains('/'), "{held}");
    let (status, told) = second.asks("GET", &path(&lock), "");
    assert_eq!((status, &told["token"]), (200, &lock["token"]), "any connection of the uid may look: {told}");
    assert_eq!(first.asks("DELETE", &path(&lock), ""), (200, json!({ "released": true })));
    assert_eq!(first.asks("DELETE", &path(&lock), "").0, 404);
    assert_eq!(first.asks("GET", &path(&lock), "").0, 404);
    let next = second.acquires("orders/42", Value::Null);
    assert!(next["token"].as_u64() > lock["token"].as_u64(), "{next} after {lock}");
    // The note of a client is shown instead of its pid.
    second.asks("DELETE", &path(&next), "");
    first.acquires("orders/42", json!({ "note": "deploy #812" }));
    let (_, held) = second.asks("POST", "/v1/locks", json!({ "names": ["orders/42"], "timeout_ms": 0 }));
    assert_eq!(held["note"], "deploy #812", "{held}");
}

#[tokio::test]
async fn waiters_get_the_lock_in_order_and_tokens_grow() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    let mut holder = agent.client();
    let mut lock = holder.acquires("a", Value::Null);
    let mut waiters = Vec::new();
    for number in 1..=3 {
        let mut waiter = agent.client();
        waiter.sends("POST", "/v1/locks", wanted("a", Value::Null));
        until("it waits", || agent.counts("waiting") == number);
        later().await;
        waiters.push(waiter);
    }
    for mut waiter in waiters {
        assert_eq!(holder.asks("DELETE", &path(&lock), "").0, 200);
        let (status, next) = waiter.hears();
        assert_eq!(status, 200, "{next}");
        assert!(next["token"].as_u64() > lock["token"].as_u64(), "{next} after {lock}");
        (holder, lock) = (waiter, next);
    }
}

#[tokio::test]
async fn agent_holds_each_kind_of_lock_as_requested() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    at_once(["set", "readers", "permits", "once"], |kind| {
        let (mut one, mut other, mut third) = (agent.client(), agent.client(), agent.client());
        let try_one = |name: &str| json!({ "names": [name], "timeout_ms": 0 });
        match kind {
            "set" => {
                let body = json!({ "names": ["set/b", "set/a", "set/b"], "ttl_ms": 20_000 });
                let (status, lock) = one.asks("POST", "/v1/locks", body);
                assert_eq!((status, &lock["names"]), (200, &json!(["set/a", "set/b"])), "{lock}");
                let body = json!({ "names": ["set/b", "set/c"], "timeout_ms": 0 });
                let (status, held) = other.asks("POST", "/v1/locks", body);
                assert_eq!((status, &held["holders"][0]["name"]), (409, &json!("set/b")), "{held}");
            }
            "readers" => {
                one.acquires("read", json!({ "mode": "shared" }));
                other.acquires("read", json!({ "mode": "shared" }));
                assert_eq!(third.asks("POST", "/v1/locks", try_one("read")).0, 409);
            }
            "permits" => {
                let first = one.acquires("licences", json!({ "permits": 2 }));
                let second = other.acquires("licences", json!({ "permits": 2 }));
                assert_ne!(first["permit"], second["permit"], "{first} {second}");
                let body = json!({ "names": ["licences"], "permits": 2, "timeout_ms": IN_VAIN_MS });
                assert_eq!(third.asks("POST", "/v1/locks", body).0, 409);
            }
            _ => {
                let body = json!({ "name": "report", "period_ms": 3_300_000 });
                let (status, permit) = one.asks("POST", "/v1/once", &body);
                assert_eq!(status, 200, "{permit}");
                assert_eq!(one.asks("DELETE", &(path(&permit) + "?undo=1"), "").0, 200);
                let (_, permit) = other.asks("POST", "/v1/once", &body);
                assert_eq!(other.asks("DELETE", &path(&permit), ""), (200, json!({ "released": true })));
                let (status, told) = one.asks("POST", "/v1/once", &body);
                assert_eq!((status, &told["error"]), (409, &json!("done")), "{told}");
            }
        }
    });
}

#[tokio::test]
async fn agent_without_a_quorum_reports_unavailable() {
    let mut servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    servers[1..].iter_mut().for_each(crate::common::server::Server::kill);
    until("no quorum votes", || agent.client().asks("GET", "/healthz", "").0 == 503);
    let (status, told) = agent.client().asks("POST", "/v1/locks", json!({ "names": ["a"], "timeout_ms": 0 }));
    assert_eq!((status, &told["error"]), (503, &json!("unavailable")), "{told}");
    let (status, told) = agent.client().asks("GET", "/v1/status", "");
    assert_eq!((status, &told["quorum_votes"]), (200, &json!(false)), "{told}");
}

#[tokio::test]
async fn loss_is_told_to_the_request_that_waits() {
    let servers = servers(3).await;
    let mut agent = Agent::start(&servers, &[]);
    let (mut holder, mut watcher) = (agent.client(), agent.client());
    let lock = holder.acquires("a", Value::Null);
    watcher.sends("GET", &format!("{}?wait_ms={}", path(&lock), super::HOUR), "");
    until("it waits", || agent.counts("waiting") == 1);
    assert_eq!(done(over(&servers).args(["release", "a", "--force", "--yes"])).0, 0);
    let (status, told) = watcher.hears();
    assert_eq!((status, &told["error"], &told["reason"]), (410, &json!("lost"), &json!("revoked")), "{told}");
    agent.logs(&lock, "a client of the agent lost its lock");
    assert_eq!(watcher.asks("POST", &format!("{}/keep", path(&lock)), "").0, 410);
    // Until the client lets go, nobody else gets the lock.
    let (status, told) = watcher.asks("POST", "/v1/locks", json!({ "names": ["a"], "timeout_ms": 0 }));
    assert_eq!(status, 409, "{told}");
    assert_eq!(holder.asks("DELETE", &path(&lock), "").0, 410);
    until_released(&servers, "a");
    let wait = format!("{}?wait_ms=1", path(&watcher.acquires("a", Value::Null)));
    assert_eq!(watcher.asks("GET", &wait, "").0, 200, "the wait is over");
}

#[tokio::test]
async fn stopped_agent_loses_its_locks_and_says_so() {
    let servers = servers(3).await;
    let mut agent = Agent::start(&servers, &[]);
    let mut client = agent.client();
    let lock = client.acquires("a", json!({ "ttl_ms": 12_000 }));
    send(agent.process.child(), Signal::STOP);
    let is_over = || servers.iter().filter(|server| server.hold("a").is_none()).count() > 1;
    until("the lock's ttl is over", is_over);
    send(agent.process.child(), Signal::CONT);
    let (status, told) = client.asks("GET", &path(&lock), "");
    assert_eq!((status, &told["error"]), (410, &json!("lost")), "{told}");
}
