//! What all acquisitions have in common: they end at a shutdown, and their latency is recorded.

use std::sync::Arc;

use tracing::{Instrument, Span};

use super::inner::Inner;
use super::set::Set;
use crate::config::Rules;
use crate::error::{ErrorKind, Result};
use crate::metrics::{Class, Ended};
use crate::node::Name;
use crate::protocol::{ClaimKind, Claimant, Grant, Open, Patience};
use crate::rules::Tick;
use crate::spans;
use crate::words::listed;

impl Inner {
    /// A request for these names, without a note. The arrival is made when the acquisition begins.
    pub(super) fn claimant<'a>(&'a self, names: &'a Arc<[Name]>, rules: &'a Rules, who: ClaimKind<'a>) -> Claimant<'a> {
        let (voters, queue, shut) = (&self.leases.voters, &self.queue, &self.shut);
        Claimant { voters, queue, names, told: names, who, rules, may_have_note: false, arrival: None, shut }
    }

    /// Acquires the names of `all`, and passes the grant to `hold`. `all` is an error if a name is
    /// bad.
    pub(super) async fn acquire<T>(
        &self,
        all: Result<Claimant<'_>>,
        rules: &Rules,
        patience: Patience,
        hold: impl FnOnce(Grant, Open) -> Result<T>,
    ) -> Result<T> {
        let span = self.span(rules, || all.as_ref().map(|all| listed(all.names)).unwrap_or_default());
        let work = async {
            let (grant, open) = self.try_until(all?, patience).await?;
            spans::record(&span, "token", grant.token());
            hold(grant, open)
        };
        self.timed(rules.class, &span, work).await
    }

    /// The span of an acquisition. `name` is called only if the span records the names.
    pub(super) fn span(&self, rules: &Rules, name: impl FnOnce() -> String) -> Span {
        let span = spans::acquire(self.leases.voters.meters.quorum());
        if rules.trace_name && !span.is_disabled() {
            spans::record(&span, "name", name());
        }
        span
    }

    /// Runs `work`, an acquisition, until it ends or a shutdown ends it. Records its latency.
    pub(super) async fn timed<T>(&self, class: Class, span: &Span, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.usable()?;
        let work = work.instrument(span.clone());
        let mut timing = Timing { inner: self, class, span, since: self.host.now(), outcome: Ended::Cancelled };
        let acquired = tokio::select! {
            biased;
            () = self.shut.cancelled() => Err(self.closed()),
            acquired = work => acquired.map_err(|error| if error.is_closed() { self.closed() } else { error }),
        };
        timing.outcome = match &acquired {
            Ok(_) => Ended::Acquired,
            Err(error) => outcome(error.kind()),
        };
        acquired
    }

    /// Returns `acquired`, unless a shutdown has begun. The shutdown may have missed this new lock,
    /// so `give_up` ends the lock here. The shutdown waits until `open` is dropped.
    pub(super) fn unless_shut<T>(&self, acquired: T, open: Open, give_up: impl FnOnce(T)) -> Result<T> {
        if !self.shut.is_cancelled() {
            return Ok(acquired);
        }
        give_up(acquired);
        drop(open);
        Err(self.closed())
    }

    /// The arrival of an acquisition that began at `began`. Nodes order waiters by arrivals.
    pub(super) fn arrival(&self, began: Tick) -> u64 {
        let ago = u64::try_from(self.host.now().since(began).as_micros()).unwrap_or(u64::MAX);
        self.leases.voters.arrival().saturating_sub(ago)
    }

    /// Acquires the names in one claim, or as a [`Set`] if the caller waits and there are several
    /// names.
    pub(super) async fn try_until(&self, all: Claimant<'_>, patience: Patience) -> Result<(Grant, Open)> {
        match patience {
            Patience::Until(end) if all.names.len() > 1 => Box::pin(Set { inner: self, all }.until(end)).await,
            _ => all.acquire(patience).await,
        }
    }
}

/// Records the latency of an acquisition when this value is dropped, even if the call was
/// cancelled.
struct Timing<'a> {
    inner: &'a Inner,
    class: Class,
    span: &'a Span,
    since: Tick,
    outcome: Ended,
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        let took = self.inner.host.now().since(self.since);
        self.inner.leases.voters.meters.acquire(self.class, self.outcome, took);
        spans::record(self.span, "outcome", self.outcome.as_str());
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
