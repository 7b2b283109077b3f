//! Storage that refuses stale tokens: Debian's PostgreSQL and Redis, and stand-ins for S3.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

#[path = "../common/mod.rs"]
mod common;

mod bucket;
mod postgres;
mod redis;
mod s3;
mod writers;

use std::time::Duration;

use common::PATIENCE;
use quorumlock::{LockGuard, Quorum};

/// Returns a guard whose lock has ended while its holder was paused, and the guard of the next
/// holder.
async fn paused_and_next(quorum: &Quorum) -> (LockGuard, LockGuard) {
    let paused = quorum.options().ttl(Duration::from_millis(100)).auto_renew(false);
    let early = quorum.lock_with("orders/42", &paused).unwrap().acquire(PATIENCE).await.unwrap();
    let late = held(quorum).await;
    assert!(late.token() > early.token());
    (early, late)
}

/// A guard whose lock does not end, even if the test stalls.
async fn held(quorum: &Quorum) -> LockGuard {
    let options = quorum.options().ttl(Duration::from_secs(60));
    quorum.lock_with("orders/42", &options).unwrap().acquire(PATIENCE).await.unwrap()
}
