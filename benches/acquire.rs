//! Measures how long an acquisition and its release take, over memory nodes and over real servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    missing_docs,
    reason = "this is a benchmark"
)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use quorumlock::{Quorum, QuorumLock, Transport};
use tokio::runtime::Runtime;

const PATIENCE: Duration = Duration::from_secs(30);

async fn section(lock: &QuorumLock) {
    let guard = lock.acquire(PATIENCE).await.unwrap();
    guard.release().await.unwrap();
}

fn memory(c: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    for nodes in [1, 5] {
        let quorum = runtime.block_on(async { Quorum::in_memory(nodes).unwrap() });
        let lock = quorum.lock("bench");
        c.bench_function(&format!("memory/{nodes} nodes/section"), |b| b.to_async(&runtime).iter(|| section(&lock)));
    }
}

fn redis(c: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let servers = runtime.block_on(common::servers(5));
    for &transport in Transport::ALL {
        let quorum = runtime.block_on(common::unguarded(&servers).transport(transport).connect()).unwrap();
        let lock = quorum.lock("bench");
        c.bench_function(&format!("{transport}/5 nodes/section"), |b| b.to_async(&runtime).iter(|| section(&lock)));
        let locks: Vec<_> = (0..64).map(|number| quorum.lock(format!("bench/{number}"))).collect();
        c.bench_function(&format!("{transport}/5 nodes/64 sections at once"), |b| {
            b.to_async(&runtime).iter(|| futures::future::join_all(locks.iter().map(section)));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(40).measurement_time(Duration::from_secs(4));
    targets = memory, redis
}
criterion_main!(benches);
