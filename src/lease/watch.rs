//! Waiting until what is held is lost, by whoever wants to know.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::host::{Host, can_wait, sleep_until};
use crate::rules::{LostReason, Tick};

/// What is held until it is given up or lost.
pub(super) trait Watched: Send + Sync + 'static {
    /// Why it is lost, if it is: also where its time is over and no timer has said so yet.
    fn lost(&self) -> Option<LostReason>;

    /// Until when it may be relied on, unless it has ended.
    fn deadline(&self) -> Option<Tick>;

    /// If its time is over, it is lost now.
    fn time_is_over(&self) -> Option<LostReason>;

    /// A token that is cancelled when it is over, however it ends; `None` where it has ended.
    fn over(&self) -> Option<CancellationToken>;

    /// Cancelled when it is lost.
    fn ended(&self) -> &CancellationToken;

    fn host(&self) -> &Arc<dyn Host>;

    /// Whoever waits for the deadline is notified by this where that comes sooner than it was told,
    /// if that can be.
    fn sooner(&self) -> Option<&Notify> {
        None
    }
}

/// Waits until it is lost. Never ends if it is given up first.
///
/// It watches the deadline itself, on the runtime that polls it.
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

/// Waits until it is over: why it was lost, or `None` where it was given up.
///
/// # Cancel safety
/// Safe.
#[cfg(feature = "blocking")]
pub(super) async fn outcome(held: &impl Watched) -> Option<LostReason> {
    let reason = match held.over() {
        Some(over) => over.run_until_cancelled(lost(held)).await,
        None => None,
    };
    // A loss ends it too.
    reason.or_else(|| held.lost())
}

/// Waits until the deadline has passed, wherever it moves to.
async fn expired(held: &impl Watched) -> LostReason {
    loop {
        // Before the deadline is read: from here on it is notified.
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

/// A token that is cancelled when it is lost. Elsewhere than on the quorum's runtime, a task there
/// watches for it.
pub(super) fn cancellation(held: &Arc<impl Watched>) -> CancellationToken {
    let token = held.ended().child_token();
    if let Some(runtime) = held.host().elsewhere()
        && let Some(over) = held.over()
    {
        runtime.spawn(watch(held.clone(), token.clone(), over));
    }
    token
}

/// Notices the loss, which cancels the token; ends with the token, and with what is held.
async fn watch(held: Arc<impl Watched>, token: CancellationToken, over: CancellationToken) {
    over.run_until_cancelled(token.run_until_cancelled(lost(&*held))).await;
}
