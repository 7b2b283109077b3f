//! Runs a body while a lock, permits, an office or a session is held.

use std::future::Future;

use crate::error::{Error, Result};
use crate::lease::{Lease, LockGuard, Released};
use crate::rules::LostReason;

/// A lock, or the like, that is held while a body runs. If the body panics, or its caller is
/// dropped, dropping this releases it and waits for nothing.
pub(super) trait Scope {
    /// What the body is given. Keeping this view does not keep the lock.
    type View;

    fn view(&self) -> Self::View;

    async fn until_lost(&self) -> LostReason;

    fn is_lost(&self) -> bool;

    fn lost_error(&self) -> Error;

    /// Releases it, and waits until a quorum has confirmed.
    async fn give_up(self) -> Result<Released>;
}

/// Runs `body` while `held` is held, then releases it. Drops the body the moment `held` is lost.
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
    // The validity may have ended together with the body.
    if held.is_lost() {
        return Err(held.lost_error());
    }
    if let Err(error) = held.give_up().await {
        tracing::warn!(%error, "released without confirmation by a quorum");
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
