//! The lock itself.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::inner::Inner;
use crate::config::Rules;
use crate::error::{Error, Result};
use crate::lease::{Lease, LockGuard};
use crate::node::Name;
use crate::protocol::{Grant, Open, Patience};

/// A lock on a name, or on several, held by at most one at a time across all clients of the same
/// nodes.
///
/// Cheap to clone, `Send` and `Sync`. Every acquisition has an owner of its own: two tasks that use
/// the same `QuorumLock`, or clones of it, exclude each other. To hold a lock more than once, see
/// [`LockGuard::reenter`].
#[derive(Clone)]
pub struct QuorumLock {
    inner: Arc<Inner>,
    names: Result<Arc<[Name]>, String>,
    rules: Arc<Rules>,
}

impl QuorumLock {
    pub(super) fn new(inner: Arc<Inner>, names: Result<Arc<[Name]>>, rules: Arc<Rules>) -> Self {
        Self { inner, names: names.map_err(|error| error.to_string()), rules }
    }

    /// Acquires the lock, waiting for `timeout` at most.
    ///
    /// The wait never sets the ttl: a caller that waits for a second gets the whole ttl. A
    /// `timeout` of zero makes one try, and `Duration::MAX` waits for ever. One round of votes is
    /// always made whole once it is this caller's turn in this process, so a call may take up to
    /// the round timeout where `timeout` is shorter.
    ///
    /// # Errors
    /// `Timeout` if others held it until the time ended; `Unavailable` if too few nodes could vote
    /// at that time; `Config` for a bad name or outside of a Tokio runtime; `Closed` after a
    /// shutdown.
    ///
    /// # Cancel safety
    /// Safe at any point: what was granted is released in the background, and the place in the
    /// queue given up.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let lock = quorum.lock("orders/42");
    /// let guard = lock.acquire(Duration::from_secs(5)).await?;
    /// let late = lock.acquire(Duration::ZERO).await.unwrap_err();
    /// assert!(late.is_timeout());
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self, timeout: Duration) -> Result<LockGuard> {
        self.timed(Patience::Until(self.inner.host.now() + timeout)).await
    }

    /// Makes one try, and waits for nobody.
    ///
    /// `None` means that somebody else holds the lock or is about to; an error means that nobody
    /// can tell.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes could vote; `Config` for a bad name or outside of a Tokio
    /// runtime; `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// Safe: what was granted is released in the background.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        match self.timed(Patience::Once).await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.is_contended() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acquires the lock, runs `body`, and releases it. The body is dropped the moment the lock is
    /// lost.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and `Lost` if the lock was lost before the body ended. A
    /// release that no quorum confirms is not an error here: the body's work was done while the
    /// lock was held.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the lock released in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let lock = quorum.lock("orders/42");
    /// let token = lock.run(Duration::from_secs(5), |lease| async move { lease.token() }).await?;
    /// # assert!(token > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F, Fut>(&self, timeout: Duration, body: F) -> Result<Fut::Output>
    where
        F: FnOnce(Lease) -> Fut,
        Fut: Future,
    {
        let guard = self.acquire(timeout).await?;
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

    async fn timed(&self, patience: Patience) -> Result<LockGuard> {
        let names = self.names.as_ref().map_err(Error::config);
        self.inner.acquire(names, &self.rules, patience, |grant, open| self.hold(grant, open)).await
    }

    /// Holds what was won. A lock that was won while the quorum shut down may have come too late to
    /// be lost with the others: it is released, and the shutdown waits until that has been sent.
    fn hold(&self, grant: Grant, open: Open) -> Result<LockGuard> {
        let guard = LockGuard::new(&self.inner.leases, &self.rules, grant);
        if self.inner.shut.is_cancelled() {
            drop(guard);
            drop(open);
            return Err(Error::closed());
        }
        Ok(guard)
    }
}

impl fmt::Debug for QuorumLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumLock").field("names", &self.names).field("rules", &self.rules).finish_non_exhaustive()
    }
}
