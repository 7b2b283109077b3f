//! Work while something is held: the same for locks, permits, offices and sessions.

use std::future::Future;

use crate::error::{Error, Result};
use crate::lease::{Lease, LockGuard, Released};
use crate::rules::LostReason;

/// What is held while a body runs. Dropping it gives it up, and waits for nothing: where the body
/// panics, or is dropped with whoever waits for it.
pub(super) trait Scope {
    /// What the body is given. Keeping this view does not keep the lock.
    type View;

    fn view(&self) -> Self::View;

    /// Waits until it is lost.
    async fn until_lost(&self) -> LostReason;

    fn is_lost(&self) -> bool;

    fn lost_error(&self) -> Error;

    /// Gives it up, and waits until a quorum has confirmed that.
    async fn give_up(self) -> Result<Released>;
}

/// Runs `body` while it is held, and gives it up. The body is dropped the moment it is lost.
pub(super) async fn under<S, F, Fut>(held: S, body: F) -> Result<Fut::Output>
where
    S: Scope,
    F: FnOnce(S::View) -> Fut,
    Fut: Future,
{
    let output = tokio::select! {
        biased;
        _ = held.until_lost() => return Err(held.lost_error()),
        output = body(held.view()) => output,
    };
    // Its time may have been over when the body ended.
    if held.is_lost() {
        return Err(held.lost_error());
    }
    if let Err(error) = held.give_up().await {
        tracing::warn!(%error, "released without confirmation");
    }
    Ok(output)
}

impl Scope for LockGuard {
    type View = Lease;

    fn view(&self) -> Lease {
        self.lease()
    }

    async fn until_lost(&self) -> LostReason {
        self.lost().await
    }

    fn is_lost(&self) -> bool {
        !self.is_held()
    }

    fn lost_error(&self) -> Error {
        Lease::lost_error(self)
    }

    async fn give_up(self) -> Result<Released> {
        self.release().await
    }
}
