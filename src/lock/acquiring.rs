//! What acquisitions of locks and of sessions have in common: they end with the quorum, and their
//! latency is recorded.

use std::sync::Arc;

use super::inner::Inner;
use crate::config::Rules;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::{Class, Ended};
use crate::node::Name;
use crate::protocol::{Claimant, Grant, Open, Patience, Who};
use crate::rules::Tick;

/// What is acquired, and as whom.
pub(super) struct Wanted<'a> {
    pub(super) names: Result<&'a Arc<[Name]>>,
    pub(super) rules: &'a Arc<Rules>,
    pub(super) who: Who<'a>,
    pub(super) may_have_note: bool,
}

impl Inner {
    /// Acquires what is wanted, and has it held by `hold`.
    pub(super) async fn acquire<T>(
        &self,
        wanted: Wanted<'_>,
        patience: Patience,
        hold: impl FnOnce(Grant, Open) -> Result<T>,
    ) -> Result<T> {
        let class = wanted.rules.class;
        self.timed(class, async { self.try_until(wanted, patience).await.and_then(|(grant, open)| hold(grant, open)) })
            .await
    }

    /// Acquires something as `work` does. It ends with the quorum, and its latency is recorded.
    pub(super) async fn timed<T>(&self, class: Class, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.usable()?;
        let mut timing = Timing { inner: self, class, since: self.host.now(), outcome: Ended::Cancelled };
        let acquired = tokio::select! {
            biased;
            () = self.shut.cancelled() => Err(Error::closed()),
            acquired = work => acquired,
        };
        timing.outcome = match &acquired {
            Ok(_) => Ended::Acquired,
            Err(error) => outcome(error.kind()),
        };
        acquired
    }

    /// Wins a round of what is wanted, if it can.
    pub(super) async fn try_until(&self, wanted: Wanted<'_>, patience: Patience) -> Result<(Grant, Open)> {
        let Wanted { names, rules, who, may_have_note } = wanted;
        let (voters, queue, shut) = (&self.leases.voters, &self.queue, &self.shut);
        let claimant = Claimant { voters, queue, names: names?, who, rules, may_have_note, shut };
        claimant.acquire(patience).await
    }
}

/// An acquisition's latency, recorded however it ends.
struct Timing<'a> {
    inner: &'a Inner,
    class: Class,
    since: Tick,
    outcome: Ended,
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        let took = self.inner.host.now().since(self.since);
        self.inner.leases.voters.meters.acquire(self.class, self.outcome, took);
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
