//! Acquires several names for a caller that waits: in one claim if all are free, else in order.
//!
//! A claim of several names never waits in a queue. So a set waits for one name at a time, as a
//! single lock does. During this wait, the set renews the names that it holds. All sets take their
//! names in the same order, that of `Inner::names`, so they never wait in a circle. After each
//! wait, the set claims several of the next names together, without waiting. So if only one name
//! was held, the set does not need a round trip for each name.
//!
//! When the set holds all names, one renewal with the highest of their tokens gives the set one
//! token. If a name is lost before this renewal succeeds, all names are released, and the set
//! begins anew. The set keeps its arrival, and so its turn in the queues, but each of its claims
//! gets a new owner id.

use std::pin::pin;
use std::sync::Arc;

use super::inner::Inner;
use super::permits::Holding;
use crate::config::Rules;
use crate::error::{Error, ErrorKind, NodeReport, Result};
use crate::host::before;
use crate::lease::Locks;
use crate::node::Name;
use crate::protocol::{Claimant, Grant, Open, Patience};
use crate::rules::Tick;
use crate::words::listed;

pub(super) struct Set<'a> {
    pub(super) inner: &'a Inner,
    /// The request for all names.
    pub(super) all: Claimant<'a>,
}

impl Set<'_> {
    /// Acquires the whole set, or fails at `end`.
    pub(super) async fn until(&self, end: Tick) -> Result<(Grant, Open)> {
        let (began, is_over) = (self.inner.host.now(), || self.inner.host.now() >= end);
        match pin!(self.acquire(self.all.names, Patience::First, None)).await {
            Err(error) if may_pass(&error) && !is_over() && !self.all.rules.spent(1) => {}
            won => return won,
        }
        let arrival = self.all.arrival.unwrap_or_else(|| self.inner.arrival(began));
        loop {
            match self.gathered(end, arrival).await {
                // After a shutdown, each attempt is lost at once. Without this arm, the loop would
                // spin.
                Err(error) if error.is_lost() && self.inner.shut.is_cancelled() => return Err(self.inner.closed()),
                // A name was lost before the set had its token: begin anew.
                Err(error) if error.is_lost() && !is_over() => {}
                Err(error) if error.is_lost() => return Err(self.out_of_time(error.nodes())),
                won => return won,
            }
        }
    }

    async fn gathered(&self, end: Tick, arrival: u64) -> Result<(Grant, Open)> {
        // Renew the names that the set holds while it waits for other names, even if the caller's
        // options turn renewals off.
        let rules = Rules { auto_renew: true, max_hold: None, ..self.all.rules.clone() };
        let parts = Holding { locks: Locks::begin("set that is acquired", &self.inner.leases, &Arc::new(rules)) };
        // `until` has already tried a claim of all names, so begin with half of them.
        let (mut left, mut many) = (&**self.all.names, self.all.names.len() / 2);
        while !left.is_empty() {
            if self.inner.host.now() >= end {
                return Err(self.out_of_time(&[]));
            }
            let (next, behind) = left.split_at(many.clamp(1, left.len()));
            let won = tokio::select! {
                biased;
                () = parts.locks.ending().cancelled() => return Err(parts.locks.lost_error()),
                won = self.next(next, end, arrival) => won?,
            };
            match won {
                Some((grant, open)) => {
                    parts.add(self.inner, grant, open)?;
                    (left, many) = (behind, next.len() * 2);
                }
                None => many = next.len() / 2,
            }
        }
        let united = before(&self.inner.host, end, parts.locks.unite()).await;
        united.unwrap_or_else(|| Err(self.out_of_time(&[])))
    }

    /// Acquires the next names. Waits for a single name. Claims several names together, without
    /// waiting: while a set waits for a name, it must not hold later names, or sets would deadlock.
    async fn next(&self, names: &[Name], end: Tick, arrival: u64) -> Result<Option<(Grant, Open)>> {
        let names: Arc<[Name]> = names.into();
        if let [_] = *names {
            return self.acquire(&names, Patience::Until(end), Some(arrival)).await.map(Some);
        }
        match before(&self.inner.host, end, self.acquire(&names, Patience::First, None)).await {
            Some(Err(error)) if !may_pass(&error) => Err(error),
            tried => Ok(tried.and_then(Result::ok)),
        }
    }

    async fn acquire(&self, names: &Arc<[Name]>, patience: Patience, arrival: Option<u64>) -> Result<(Grant, Open)> {
        Claimant { names, arrival, ..self.all }.acquire(patience).await
    }

    fn out_of_time(&self, reports: &[NodeReport]) -> Error {
        let names = listed(self.all.names);
        let why = format!("cannot acquire {names}: the time ended before all names were held at once");
        Error::new(ErrorKind::Timeout, why).with_nodes(reports.to_vec())
    }
}

/// Whether a caller that waits goes on after this error.
fn may_pass(error: &Error) -> bool {
    error.is_timeout() || error.is_unavailable()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use super::*;
    use crate::lock::Quorum;
    use crate::node::Mode;
    use crate::protocol::ClaimKind;

    const SECOND: Duration = Duration::from_secs(1);

    /// A shutdown on another thread may come between the check in `timed` and this poll.
    #[tokio::test]
    async fn set_that_waits_ends_with_a_shutdown_that_its_caller_missed() {
        let quorum = Quorum::in_memory(3).unwrap();
        let inner = &*quorum.0;
        let _held = quorum.lock("b").acquire(SECOND).await.unwrap();
        let names = inner.names(["a", "b"]).unwrap();
        let (voters, queue, rules, shut) = (&inner.leases.voters, &inner.queue, &inner.rules, &inner.shut);
        let (names, who, may_have_note, arrival) = (&names, ClaimKind::Next(Mode::Exclusive), false, None);
        let all = Claimant { voters, queue, names, told: names, who, rules, may_have_note, arrival, shut };
        let set = Set { inner, all };
        let mut waiting = pin!(set.until(inner.host.now() + 2 * SECOND));
        while quorum.lock("a").try_acquire().await.unwrap().is_some() {
            assert!(futures::poll!(&mut waiting).is_pending());
            tokio::task::yield_now().await;
        }
        quorum.shutdown(Duration::ZERO).await;
        let error = waiting.await.map(drop).unwrap_err();
        assert!(error.is_closed(), "{error}");
    }
}
