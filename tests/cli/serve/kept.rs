//! Locks that end unless their clients send `keep` in time.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::{until, until_released};
use super::{Agent, path};
use crate::common::program::command;
use crate::common::servers;

#[tokio::test]
async fn lock_that_is_not_kept_lapses() {
    let servers = servers(3).await;
    let mut agent = Agent::start(&servers, &[]);
    let mut client = agent.client();
    let lock = client.acquires("a", json!({ "keep_ms": 3_000 }));
    // The bound is far above 3 s, because `until_ms` also counts the time of the acquisition.
    assert!(lock["until_ms"].as_u64().unwrap() < 30_000, "{lock}");
    let (status, told) = client.asks("GET", &format!("{}?wait_ms={}", path(&lock), super::HOUR), "");
    assert_eq!((status, &told["reason"]), (410, &json!("not_kept")), "{told}");
    assert_eq!(client.asks("POST", &format!("{}/keep", path(&lock)), "").0, 410);
    until_released(&servers, "a");
    agent.logs(&lock, "a lock is released: its client did not keep it in time");
    let counted =
        |reason: &str, count: u32| format!("quorumlock_agent_locks_ended_total{{reason=\"{reason}\"}} {count}");
    let (_, text) = client.asks("GET", "/metrics", "");
    let has = |line: &str| text.as_str().unwrap().lines().any(|it| it == line);
    assert!(has(&counted("not_kept", 1)) && has(&counted("disconnected", 0)), "{text}");
}

#[tokio::test]
async fn lock_that_is_kept_outlives_its_connection() {
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    let more = json!({ "keep_ms": 20_000, "connection": false });
    let lock = agent.client().acquires("a", more.clone());
    let (status, told) = agent.client().asks("POST", &format!("{}/keep", path(&lock)), "{}");
    assert_eq!(status, 200, "{told}");
    assert!(told["until_ms"].as_u64().unwrap() > 0, "{told}");
    assert_eq!(agent.client().asks("DELETE", &path(&lock), "").0, 200);
    let mut client = agent.client();
    let (began, keep) = (Instant::now(), Duration::from_secs(12));
    let lock = client.acquires("b", json!({ "keep_ms": 12_000, "connection": false }));
    until("it lives for longer than one keep", || {
        assert_eq!(client.asks("POST", &format!("{}/keep", path(&lock)), "").0, 200);
        began.elapsed() > keep + Duration::from_secs(1)
    });
    drop(client);
    until_released(&servers, "b");
}

/// A shell with curl, whose connection ends with each call.
#[tokio::test]
async fn curl_holds_a_lock_by_keep() {
    if command("curl").arg("--version").output().is_err() {
        eprintln!("skipped: curl is missing");
        return;
    }
    let servers = servers(3).await;
    let agent = Agent::start(&servers, &[]);
    let curl = |arguments: &[&str]| -> Value {
        let mut curl: Command = command("curl");
        curl.args(["-sS", "--unix-socket"]).arg(agent.socket()).args(arguments);
        serde_json::from_slice(&curl.output().unwrap().stdout).unwrap()
    };
    let body = r#"{"names": ["a"], "keep_ms": 30000, "connection": false, "timeout_ms": 3600000}"#;
    let lock = curl(&["-d", body, "http://agent/v1/locks"]);
    let url = format!("http://agent{}", path(&lock));
    assert!(curl(&["-X", "POST", &format!("{url}/keep")])["until_ms"].as_u64().unwrap() > 0);
    assert_eq!(curl(&["-X", "DELETE", &url]), json!({ "released": true }));
    until("it is free", || servers.iter().all(|server| server.holder("a").is_none()));
}
