//! Waits until a lock, or the locks of a session, are lost.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::schedule::Timed;
use crate::host::{Host, can_wait, sleep_until};
use crate::rules::LostReason;

/// A lock, or the locks of a session, whose loss a caller can wait for.
pub(super) trait Watched: Timed + 'static {
    /// Why the lock is lost; `None` if it is not. A lock whose time is over is lost, even if no
    /// timer has fired yet.
    fn lost(&self) -> Option<LostReason>;

    /// If the lock's time is over, loses the lock now. Returns why the lock is lost; `None` if it
    /// is not.
    fn time_is_over(&self) -> Option<LostReason> {
        let reason = self.lost()?;
        self.lose(reason);
        Some(reason)
    }

    /// A `CancellationToken` that is cancelled when the lock is lost or released; `None` if the
    /// lock has already ended.
    fn over(&self) -> Option<CancellationToken>;

    /// Cancelled when the lock is lost.
    fn ended(&self) -> &CancellationToken;

    fn host(&self) -> &Arc<dyn Host>;

    /// Notified when the deadline moves to an earlier moment; `None` if it never does.
    fn sooner(&self) -> Option<&Notify> {
        None
    }
}

/// Waits until the lock is lost. Never ends if the lock is released first.
///
/// Watches the deadline on the runtime that polls this future.
///
/// # Cancel safety
/// Safe.
pub(super) async fn lost(held: &impl Watched) -> LostReason {
    tokio::select! {
        biased;
        () = held.ended().cancelled() => held.lost().unwrap_or(LostReason::Expired),
        reason = expired(held) => reason,
    }
}

/// Waits until the lock has ended. Returns why it was lost, or `None` if it was released.
///
/// # Cancel safety
/// Safe.
#[cfg(feature = "blocking")]
pub(super) async fn outcome(held: &impl Watched) -> Option<LostReason> {
    let reason = match held.over() {
        Some(over) => over.run_until_cancelled(lost(held)).await,
        None => None,
    };
    // A loss also cancels `over`, perhaps before `lost(held)` has returned. So look for a reason.
    reason.or_else(|| held.lost())
}

/// Waits until the deadline has passed, even if it moves during the wait.
async fn expired(held: &impl Watched) -> LostReason {
    loop {
        // Subscribe before the deadline is read, so that no notification is missed.
        let sooner = held.sooner().map(Notify::notified);
        let Some(deadline) = held.deadline().filter(|_| can_wait()) else { break };
        match sooner {
            None => sleep_until(held.host(), deadline).await,
            Some(sooner) => tokio::select! {
                biased;
                () = sooner => {}
                () = sleep_until(held.host(), deadline) => {}
            },
        }
        if let Some(reason) = held.time_is_over() {
            return reason;
        }
    }
    match held.lost() {
        Some(reason) => reason,
        None => std::future::pending().await,
    }
}

/// A `CancellationToken` that is cancelled when the lock is lost. If the caller is on another
/// runtime than the quorum's, starts a task on the caller's runtime that watches for the loss.
pub(super) fn cancellation(held: &Arc<impl Watched>) -> CancellationToken {
    let token = held.ended().child_token();
    if let Some(runtime) = held.host().elsewhere()
        && let Some(over) = held.over()
    {
        runtime.spawn(watch(held.clone(), token.clone(), over));
    }
    token
}

/// Watches the deadline, and cancels `held.ended()`, and so `token`, at a loss. Ends when the lock
/// ends, or when `token` is cancelled.
async fn watch(held: Arc<impl Watched>, token: CancellationToken, over: CancellationToken) {
    over.run_until_cancelled(token.run_until_cancelled(lost(&*held))).await;
}
