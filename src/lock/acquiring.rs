//! What acquisitions of locks and of sessions have in common: they end with the quorum, and their
//! latency is recorded.

use std::sync::Arc;

use super::inner::Inner;
use crate::config::Rules;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::Ended;
use crate::node::Name;
use crate::protocol::{Claimant, Grant, Open, Patience};
use crate::rules::Tick;

impl Inner {
    /// Acquires `names`, and has them held by `hold`.
    pub(super) async fn acquire<T>(
        &self,
        names: Result<&Arc<[Name]>>,
        rules: &Arc<Rules>,
        patience: Patience,
        hold: impl FnOnce(Grant, Open) -> Result<T>,
    ) -> Result<T> {
        self.usable()?;
        let mut timing = Timing { inner: self, since: self.host.now(), outcome: Ended::Cancelled };
        let won = tokio::select! {
            biased;
            () = self.shut.cancelled() => None,
            won = self.try_until(names, rules, patience) => Some(won),
        };
        let acquired = won.unwrap_or_else(|| Err(Error::closed())).and_then(|(grant, open)| hold(grant, open));
        timing.outcome = match &acquired {
            Ok(_) => Ended::Acquired,
            Err(error) => outcome(error.kind()),
        };
        acquired
    }

    async fn try_until(
        &self,
        names: Result<&Arc<[Name]>>,
        rules: &Arc<Rules>,
        patience: Patience,
    ) -> Result<(Grant, Open)> {
        let claimant =
            Claimant { voters: &self.leases.voters, queue: &self.queue, names: names?, rules, shut: &self.shut };
        claimant.acquire(patience).await
    }
}

/// An acquisition's latency, recorded however it ends.
struct Timing<'a> {
    inner: &'a Inner,
    since: Tick,
    outcome: Ended,
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        self.inner.leases.voters.meters.acquire(self.outcome, self.inner.host.now().since(self.since));
    }
}

const fn outcome(kind: ErrorKind) -> Ended {
    match kind {
        ErrorKind::Contended => Ended::Contended,
        ErrorKind::Timeout => Ended::Timeout,
        ErrorKind::Unavailable => Ended::Unavailable,
        _ => Ended::Error,
    }
}
