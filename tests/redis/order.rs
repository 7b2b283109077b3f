//! First come, first served between processes whose wall clocks differ.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorumlock::Quorum;

use crate::common::clockwork::library;
use crate::common::program::command;
use crate::common::server::Server;
use crate::common::{ConnectAll, eventually, later, released, servers, unguarded};

const NODES: &str = "QUORUMLOCK_TEST_NODES";
const HOUR: Duration = Duration::from_secs(3_600);

fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Starts a process whose wall clock is an hour slow. The process acquires the lock.
fn slow(servers: &[Server]) -> Child {
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    command(std::env::current_exe().unwrap())
        .args(["--exact", "order::child_that_acquires", "--ignored", "--nocapture"])
        .env(NODES, urls.join(","))
        .env("LD_PRELOAD", library())
        .env("FAKETIME", "-1h")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The token that the process got, and the time of its wall clock.
fn told(output: ChildStdout) -> (u64, u64) {
    // Read to the end, so that the process can write all its output.
    let lines: Vec<_> = BufReader::new(output).lines().map(Result::unwrap).collect();
    let line = lines.iter().find(|line| line.starts_with("acquired")).expect("it acquires");
    let numbers: Vec<_> = line.split(' ').skip(1).map(|number| number.parse().unwrap()).collect();
    (numbers[0], numbers[1])
}

async fn waiting(quorum: &Quorum, count: u32) {
    eventually("so many wait on each node", async || {
        let seen = quorum.inspect("order").await.unwrap();
        seen.nodes.iter().all(|(_, said)| said.as_ref().is_ok_and(|said| said.waiting == count))
    })
    .await;
}

#[tokio::test]
async fn process_with_a_slow_clock_is_served_after_an_earlier_waiter() {
    let servers = servers(3).await;
    let (holder, early) = (unguarded(&servers).connect_all().await, unguarded(&servers).connect_all().await);
    let guard = holder.lock("order").acquire(HOUR).await.unwrap();
    let lock = early.lock("order");
    let first = tokio::spawn(async move { lock.acquire(HOUR).await.unwrap().token() });
    waiting(&holder, 1).await;
    later().await;
    let mut child = slow(&servers);
    waiting(&holder, 2).await;
    released(guard.release()).await;
    let output = child.stdout.take().unwrap();
    let (token, its_wall) = tokio::task::spawn_blocking(move || told(output)).await.unwrap();
    assert!(its_wall + 3_000 < wall(), "its clock is slow");
    assert!(first.await.unwrap() < token, "it was served first");
    assert!(child.wait().unwrap().success());
}

/// Point 7 of "What is not promised".
#[tokio::test]
async fn slow_clock_gives_a_lower_token_if_all_nodes_forgot() {
    let servers = servers(3).await;
    let earlier = unguarded(&servers).connect_all().await;
    let token = earlier.lock("order").acquire(HOUR).await.unwrap().token();
    earlier.shutdown(HOUR).await;
    for server in &servers {
        server.command(&["FLUSHALL"]);
    }
    let mut child = slow(&servers);
    let output = child.stdout.take().unwrap();
    let (later, _) = tokio::task::spawn_blocking(move || told(output)).await.unwrap();
    assert!(later < token, "{later} comes after {token}");
    assert!(child.wait().unwrap().success());
}

#[tokio::test]
#[ignore = "the other half of process_with_a_slow_clock_is_served_after_an_earlier_waiter, which starts it"]
async fn child_that_acquires() {
    let Ok(nodes) = std::env::var(NODES) else { return };
    let quorum = crate::common::builder().nodes(nodes.split(',')).max_ttl(Duration::ZERO).connect().await.unwrap();
    let guard = quorum.lock("order").acquire(HOUR).await.unwrap();
    println!("\nacquired {} {}", guard.token(), wall());
    released(guard.release()).await;
}
