//! Runs a body while a lock, permits, an office or a session is held.

use std::future::Future;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::lease::{Lease, LockGuard, Released};

/// A lock, permits, an office or a session, held while a body runs. If the body panics or the call
/// is cancelled, this value is dropped. Dropping it releases the lock, and waits for nothing.
pub(super) trait Scope {
    /// The view that the body gets. Keeping this view does not keep the lock.
    type View;

    fn view(&self) -> Self::View;

    /// Waits until the lock is lost. Returns the error that reports the loss.
    async fn until_lost(&self) -> Error;

    fn not_lost(&self) -> Result<()>;

    /// Releases the lock, and waits until a quorum has confirmed.
    async fn give_up(self) -> Result<Released>;
}

/// Runs `body`, and then releases `held`. If `held` is lost, drops the body at once.
pub(super) async fn under<S, F, Fut>(held: S, body: F) -> Result<Fut::Output>
where
    S: Scope,
    F: FnOnce(S::View) -> Fut,
    Fut: Future,
{
    let output = tokio::select! {
        biased;
        lost = held.until_lost() => return Err(lost),
        output = body(held.view()) => output,
    };
    // The validity may have ended at the same moment as the body.
    held.not_lost()?;
    if let Err(error) = held.give_up().await {
        tracing::warn!(%error, "a lock was released, and no quorum confirmed this");
    }
    Ok(output)
}

impl Scope for LockGuard {
    type View = Lease;

    fn view(&self) -> Lease {
        self.lease()
    }

    async fn until_lost(&self) -> Error {
        self.lost().await;
        self.lost_error()
    }

    fn not_lost(&self) -> Result<()> {
        self.ensure(Duration::ZERO)
    }

    async fn give_up(self) -> Result<Released> {
        self.release().await
    }
}
