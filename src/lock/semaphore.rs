//! A semaphore: a fixed number of permits, each a lock of its own.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tracing::Span;

use super::inner::Inner;
use super::permit_names::Pool;
use super::permits::{Holding, PermitsGuard, PermitsLease};
use super::permits_acquire::{TOO_LATE, Taking};
use super::quorum::Quorum;
use super::scoped::under;
use crate::config::{LockOptions, Rules};
use crate::error::{Error, ErrorKind, Result};

/// A fixed number of permits on a name, for all clients of the same nodes. Each permit has at most
/// one holder.
///
/// **Nodes count nothing.** Each permit is a lock on a name of its own, `name/0`, `name/1` and so
/// on, with a quorum, an expiry and a fencing token. So a semaphore is as safe as a lock, and
/// [`inspect`](crate::Quorum::inspect) and [`revoke`](crate::Quorum::revoke) work on each permit.
/// Use these names for nothing else: while you hold a lock on such a name, no caller gets its
/// permit. (Counting on nodes would not be safe: with three nodes that each grant two permits,
/// three holders could each get two votes, so all three would have a quorum.)
///
/// Waiters get permits in the order in which they called, even if they want different numbers of
/// permits. All waiters wait for the *gate*, a lock on the semaphore's own name, and only the
/// holder of the gate waits for permits. So waiters get their permits one after the other, in about
/// two round trips each. If there are no waiters, one claim takes the permits in one round trip, as
/// for a lock.
///
/// Cheap to clone, `Send` and `Sync`. Clones share a record of held permits, and claim free permits
/// first. So keep one semaphore, and do not make a new one for each acquisition.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let licences = quorum.semaphore("licences", 3);
/// let two = licences.acquire(2, Duration::from_secs(5)).await?;
/// let one = licences.acquire(1, Duration::from_secs(5)).await?;
/// assert!(licences.try_acquire(1).await?.is_none());
/// // No two held permits have the same number.
/// assert_ne!(one.permits()[0].number, two.permits()[0].number);
/// two.release().await?;
/// assert!(licences.try_acquire(2).await?.is_some());
/// # drop(one);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct QuorumSemaphore {
    inner: Shared,
    pool: Result<Arc<Pool>, String>,
    rules: Arc<Rules>,
}

impl Quorum {
    /// The semaphore on `name` with `permits` permits: 1 to [`MAX_PERMITS`](crate::MAX_PERMITS). A
    /// bad name or number is refused at the first acquisition.
    ///
    /// **All clients must use the same number.** Nodes do not store the number: if clients use
    /// different numbers, the largest is the limit. While the semaphore's name is held as a lock,
    /// an acquisition of permits fails with `Config`. While the name is held as the gate, an
    /// acquisition of a lock on the name fails with `Config`.
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> QuorumSemaphore {
        let pool = Pool::new(&self.0, name.as_ref(), permits).map_err(|error| error.to_string());
        QuorumSemaphore::new(self, pool, self.0.rules.clone())
    }

    /// The semaphore on `name` with options of its own, which apply to each of its permits.
    ///
    /// With [`auto_renew`](LockOptions::auto_renew) off, a caller that waits for more permits does
    /// not renew those that it has got. So the missing permits must become free within one ttl.
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with), and `Config` for a bad number.
    pub fn semaphore_with(
        &self,
        name: impl AsRef<str>,
        permits: u32,
        options: &LockOptions,
    ) -> Result<QuorumSemaphore> {
        let pool = Pool::new(&self.0, name.as_ref(), permits)?;
        Ok(QuorumSemaphore::new(self, Ok(pool), self.0.rules_of(options)?))
    }
}

impl QuorumSemaphore {
    fn span(&self) -> Span {
        let name = || self.pool.as_ref().map(|pool| pool.gate.text().to_string()).unwrap_or_default();
        self.inner.0.span(&self.rules, name)
    }

    fn new(quorum: &Quorum, pool: Result<Pool, String>, rules: Arc<Rules>) -> Self {
        Self { inner: Shared(quorum.0.clone()), pool: pool.map(Arc::new), rules }
    }

    /// Acquires `many` permits, or none. This call waits for free permits and for earlier callers.
    /// `timeout` limits the wait, as for [`QuorumLock::acquire`](crate::QuorumLock::acquire).
    ///
    /// Take all permits that you need in one call: two callers that hold permits and acquire more
    /// may wait for each other.
    ///
    /// # Errors
    /// `Timeout` if too few permits became free in time; `Unavailable` if too few nodes could vote;
    /// `Config` for a bad name, if `many` is zero or above the number of permits, if the name is
    /// held as a lock, or outside of a Tokio runtime; `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// Safe: granted permits are released in the background, and the place in the queue is given
    /// up.
    pub async fn acquire(&self, many: u32, timeout: Duration) -> Result<PermitsGuard> {
        let end = self.inner.0.host.now() + timeout;
        let taking = self.taking(many)?;
        let span = self.span();
        let taken = self.inner.0.timed(self.rules.class, &span, taking.until(end)).await;
        let holding = taken.map_err(|error| self.explained(many, error))?;
        self.guard(many, holding)
    }

    /// As [`acquire`](Self::acquire), with the timeout [`LockOptions::wait`]: 10 s by default.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Safe, as [`acquire`](Self::acquire).
    pub async fn acquire_default(&self, many: u32) -> Result<PermitsGuard> {
        self.acquire(many, self.rules.wait).await
    }

    /// Takes `many` permits if so many are free, without waiting. If a permit of the first claim is
    /// held, the call takes two more round trips to find free permits and to claim them.
    ///
    /// Returns `None` in two cases. First, a quorum of nodes names holders for so many permits that
    /// fewer than `many` are left. Second, a quorum has named the same holder of the gate for a
    /// whole round timeout. If votes are split, or other callers are just taking permits, this call
    /// tries again after random pauses, for two round timeouts at most (4 s by default).
    ///
    /// # Errors
    /// `Unavailable` if too few nodes could vote, or if there is no result after two round
    /// timeouts; otherwise as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Safe: granted permits are released in the background.
    pub async fn try_acquire(&self, many: u32) -> Result<Option<PermitsGuard>> {
        let taking = self.taking(many)?;
        let span = self.span();
        let taken = self.inner.0.timed(self.rules.class, &span, taking.at_once()).await;
        let holding = taken.map_err(|error| self.explained(many, error))?;
        holding.map(|holding| self.guard(many, holding)).transpose()
    }

    /// Acquires `many` permits, runs `body`, and releases them. Drops the body if a permit is lost.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and `Lost` if the permits were lost before the body ended. If
    /// no quorum confirms the release, the log has a warning, but the call succeeds.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the permits are released in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let ports = quorum.semaphore("ports", 4);
    /// let port = ports
    ///     .run(1, Duration::from_secs(5), |lease| async move { 8080 + lease.permits()[0].number })
    ///     .await?;
    /// assert!((8080..8084).contains(&port));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F, Fut>(&self, many: u32, timeout: Duration, body: F) -> Result<Fut::Output>
    where
        F: FnOnce(PermitsLease) -> Fut,
        Fut: Future,
    {
        under(self.acquire(many, timeout).await?, body).await
    }

    /// As [`run`](Self::run), for a body that can fail. Returns one `Result`, with the errors of
    /// `run` and of the body. The permits are released whatever the body returns.
    ///
    /// # Errors
    /// Those of [`run`](Self::run), converted to the body's error type, and the body's own.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the permits are released in the background.
    pub async fn try_run<F, Fut, T, E>(&self, many: u32, timeout: Duration, body: F) -> Result<T, E>
    where
        F: FnOnce(PermitsLease) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        self.run(many, timeout, body).await?
    }

    fn taking(&self, many: u32) -> Result<Taking<'_>> {
        let pool = self.pool()?;
        if !(1..=pool.count).contains(&many) {
            let (permits, name) = (pool.count, pool.gate.text());
            return Err(Error::config(format!(
                "cannot acquire {many} permits of {name:?}; it has {permits}: ask for 1 to {permits}"
            )));
        }
        let Self { inner: Shared(inner), rules, .. } = self;
        let (began, arrival) = (inner.host.now(), OnceLock::new());
        Ok(Taking { inner, pool, rules, many: many as usize, began, arrival })
    }

    fn pool(&self) -> Result<&Arc<Pool>> {
        self.pool.as_ref().map_err(Error::config)
    }

    fn guard(&self, many: u32, holding: Holding) -> Result<PermitsGuard> {
        let guard = PermitsGuard::new(&self.inner.0, self.pool()?, holding);
        if guard.permits().len() < many as usize {
            return Err(self.explained(many, Error::new(ErrorKind::Unavailable, TOO_LATE)));
        }
        Ok(guard)
    }

    /// The same error, with the number of permits and the semaphore's name in its message.
    fn explained(&self, many: u32, error: Error) -> Error {
        let Ok(pool) = &self.pool else { return error };
        if error.is_config() || error.is_closed() {
            return error;
        }
        let (permits, name) = (pool.count, pool.gate.text());
        let why = error.clone().with_nodes(Vec::new());
        let message = format!("cannot acquire {many} of the {permits} permits of {name:?}: {why}");
        Error::new(error.kind(), message).with_nodes(error.nodes().to_vec())
    }
}

/// The quorum, hidden from `Debug` output.
#[derive(Clone)]
struct Shared(Arc<Inner>);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}
