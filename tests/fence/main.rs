//! Storage that refuses stale tokens: PostgreSQL and Redis as Debian has them, and stand-ins for
//! S3.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

#[path = "../common/mod.rs"]
mod common;

mod bucket;
mod postgres;
mod redis;
mod s3;
mod writers;

use std::time::Duration;

use quorumlock::{LockGuard, Quorum};

/// A holder that was paused, and whose lock has ended meanwhile; and the next one.
async fn paused_and_next(quorum: &Quorum) -> (LockGuard, LockGuard) {
    let paused = quorum.options().ttl(Duration::from_millis(100)).auto_renew(false);
    let early = quorum.lock_with("orders/42", &paused).unwrap().acquire_default().await.unwrap();
    let late = quorum.lock("orders/42").acquire_default().await.unwrap();
    assert!(late.token() > early.token());
    (early, late)
}
