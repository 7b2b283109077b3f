//! Work under a lock that is held.

use std::future::Future;

use crate::error::Result;
use crate::lease::{Lease, LockGuard};

/// Runs `body` under the lock, and releases that. The body is dropped the moment the lock is lost.
pub(super) async fn under<F, Fut>(guard: LockGuard, body: F) -> Result<Fut::Output>
where
    F: FnOnce(Lease) -> Fut,
    Fut: Future,
{
    let lease = guard.lease();
    let output = tokio::select! {
        biased;
        _ = lease.lost() => return Err(lease.lost_error()),
        output = body(guard.lease()) => output,
    };
    if !lease.is_held() {
        return Err(lease.lost_error());
    }
    if let Err(error) = guard.release().await {
        tracing::warn!(%error, "released without confirmation");
    }
    Ok(output)
}
