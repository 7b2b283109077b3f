//! Counts what operations cost, instead of timing them. `scripts/check-cost` compares the counts
//! with `benches/cost.toml`.
//!
//! `lone N` makes N pairs over five nodes in memory. A pair is an acquisition and its release.
//! `crowd N TASKS` makes N pairs in each of TASKS tasks (256 by default) over five servers that
//! answer at once, and prints how many script calls all nodes got. Both subcommands do the same
//! work in each run: they use one thread, a clock that stands still, and random numbers from a
//! fixed seed. The script runs each under valgrind with two values of N. The difference of the two
//! runs is the cost of the added pairs, without the program's start and end.
//!
//! `times` prints how long the core takes on this machine. No check compares these times.
//!
//! `held N` holds N locks at once, over the servers of `crowd`. The script gets the program's
//! highest use of memory from valgrind.
//!
//! `alone N` and `together N` are `lone` and `crowd` over five real servers, for `scripts/profile`.
//!
//! `commands` prints how many commands and script calls one server carries out for each operation,
//! by the server's own count.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    reason = "this is a benchmark"
)]

mod commands;
mod host;
mod instant;
mod times;

#[path = "../../tests/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use quorumlock::Quorum;
use quorumlock::host::Host;
use quorumlock::node::redis::transport::Dialer;
use quorumlock::node::{MemoryNode, Node};

use host::Still;
use instant::Instant;

const NODES: usize = 5;
const TASKS: usize = 256;
const PATIENCE: Duration = Duration::from_secs(30);

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let what = arguments.next();
    let mut number = |usual| arguments.next().map_or(usual, |number| number.parse().expect("a number"));
    let (pairs, tasks) = (number(100), number(TASKS));
    match what.as_deref() {
        Some("lone") => still(lone(pairs)),
        Some("crowd") => still(crowd(pairs, tasks)),
        Some("held") => still(held(pairs)),
        Some("alone") => real(alone(pairs)),
        Some("together") => real(together(pairs)),
        Some("commands") => real(commands::told()),
        Some("times") => real(times::told()),
        // `cargo bench` names no subcommand: run each subcommand once.
        None => {
            still(lone(pairs));
            still(crowd(1, TASKS));
            still(held(1));
            real(alone(pairs));
            real(together(1));
            real(commands::told());
            real(times::told());
        }
        Some(other) => panic!("lone N, crowd N, held N, alone N, together N, commands or times, and not {other}"),
    }
}

/// Runs `work` on one thread, with a clock that moves only if there is nothing else to do.
fn still(work: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap().block_on(work);
}

fn real(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

async fn lone(pairs: usize) {
    let host = Arc::new(Still::new());
    let node = |number| -> Arc<dyn Node> { Arc::new(MemoryNode::new(&format!("memory://{number}"), host.clone())) };
    let quorum = Quorum::builder().over(host.clone(), (0..NODES).map(node).collect()).unwrap();
    again(&quorum, "lone", pairs).await;
}

async fn crowd(pairs: usize, tasks: usize) {
    let (quorum, calls) = instant().await;
    each_of(tasks, &quorum, pairs).await;
    println!("{}", calls.load(Ordering::Relaxed));
}

/// Runs `tasks` tasks, each of which makes `pairs` pairs.
async fn each_of(tasks: usize, quorum: &Quorum, pairs: usize) {
    let task = |number| {
        let quorum = quorum.clone();
        tokio::spawn(async move { again(&quorum, &format!("crowd/{number}"), pairs).await })
    };
    let ended = join_all((0..tasks).map(task)).await;
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
}

async fn held(locks: usize) {
    let (quorum, _) = instant().await;
    let mut guards = Vec::with_capacity(locks);
    for number in 0..locks {
        guards.push(quorum.lock(format!("held/{number:08}")).acquire(PATIENCE).await.unwrap());
    }
    assert!(guards.iter().all(|guard| guard.is_held()));
    // Do not release: releases need memory too, and only memory of held locks counts here.
    std::mem::forget(guards);
}

async fn alone(pairs: usize) {
    let servers = common::servers(NODES).await;
    let quorum = common::unguarded(&servers).connect().await.unwrap();
    quorum.ready(PATIENCE).await.unwrap();
    again(&quorum, "alone", pairs).await;
}

async fn together(pairs: usize) {
    let servers = common::servers(NODES).await;
    let quorum = common::unguarded(&servers).connect().await.unwrap();
    quorum.ready(PATIENCE).await.unwrap();
    each_of(TASKS, &quorum, pairs).await;
}

/// A quorum over servers that answer at once, and the number of script calls to these servers.
async fn instant() -> (Quorum, Arc<AtomicU64>) {
    let host: Arc<dyn Host> = Arc::new(Still::new());
    let calls = Arc::new(AtomicU64::new(0));
    let dialer = |number| -> Arc<dyn Dialer> { Arc::new(Instant::new(number, host.clone(), calls.clone())) };
    let dialers = (0..NODES).map(dialer).collect();
    let builder = Quorum::builder().max_ttl(Duration::ZERO);
    let quorum = builder.over_dialers(host.clone(), dialers, |_, node| Arc::new(node)).unwrap();
    quorum.ready(PATIENCE).await.unwrap();
    (quorum, calls)
}

/// Acquires and releases one name, `pairs` times.
async fn again(quorum: &Quorum, name: &str, pairs: usize) {
    let lock = quorum.lock(name);
    for _ in 0..pairs {
        lock.acquire(PATIENCE).await.unwrap().release().await.unwrap();
    }
}
