//! A semaphore: at most so many at a time.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tracing::Span;

use super::inner::Inner;
use super::permits::{Holding, PermitsGuard, PermitsLease};
use super::pool::Pool;
use super::quorum::Quorum;
use super::scoped::under;
use super::taking::{TOO_LATE, Taking};
use crate::config::{LockOptions, Rules};
use crate::error::{Error, ErrorKind, Result};

/// A number of permits on a name: at most so many are held at a time across all clients of the same
/// nodes, each by one holder.
///
/// **It counts nothing on the nodes.** Each permit is a name of its own, `name/0`, `name/1` and so
/// on, that is held as any lock is: by a quorum, with an expiry and a fencing token. Use these
/// names for nothing else: a lock on one takes that permit out of service. (Nodes that each count
/// to two let three in: of three nodes, each pair of holders may be known to another one.) So no
/// failure that a lock survives lets one more in, and [`inspect`](crate::Quorum::inspect) and
/// [`revoke`](crate::Quorum::revoke) work on each permit.
///
/// Callers that wait are served in the order in which they came, also if one wants several permits
/// and others fewer: all wait at the *gate*, the name of the semaphore itself, and only the caller
/// that holds the gate waits for permits. So contended callers are admitted one after the other,
/// about two round trips each. If nobody waits, one claim takes the permits: one round trip, as for
/// a lock.
///
/// Cheap to clone, `Send` and `Sync`. A clone remembers what the other saw of permits that were
/// held, so keep one rather than making another for each acquisition.
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
/// // Each has a number that nobody else has at that time.
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
    /// The semaphore on `name` with so many permits: 1 to [`MAX_PERMITS`](crate::MAX_PERMITS). A
    /// bad name, or number, is refused when it is first acquired.
    ///
    /// **Let all clients use the same number.** Nodes do not know it: if clients use different
    /// ones, no more permits are held than the largest. Nodes refuse a semaphore (`Config`) while
    /// somebody holds a lock on its name, and a lock on a semaphore's name while somebody is at its
    /// gate.
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> QuorumSemaphore {
        let pool = Pool::new(&self.0, name.as_ref(), permits).map_err(|error| error.to_string());
        QuorumSemaphore::new(self, pool, self.0.rules.clone())
    }

    /// The semaphore on `name` with options of its own, which hold for each of its permits.
    ///
    /// With [`auto_renew`](LockOptions::auto_renew) off, several permits are held together for less
    /// than a ttl, so all of them must come free within that time.
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
    /// The span of an acquisition.
    fn span(&self) -> Span {
        let name = || self.pool.as_ref().map(|pool| pool.gate.text().to_string()).unwrap_or_default();
        self.inner.0.span(&self.rules, name)
    }

    fn new(quorum: &Quorum, pool: Result<Pool, String>, rules: Arc<Rules>) -> Self {
        Self { inner: Shared(quorum.0.clone()), pool: pool.map(Arc::new), rules }
    }

    /// Acquires `many` permits, or none, waiting for `timeout` at most: as long as fewer are free,
    /// or others that came before wait. `timeout` is as for
    /// [`QuorumLock::acquire`](crate::QuorumLock::acquire).
    ///
    /// Whoever holds permits and waits for more of the same semaphore may wait for somebody who
    /// does the same. Take all in one call.
    ///
    /// # Errors
    /// `Timeout` if too few were free until the time ended; `Unavailable` if too few nodes could
    /// vote; `Config` for a bad name, for no permits or more than there are, if the name is held as
    /// a lock, or outside of a Tokio runtime; `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// Safe at any point: what was granted is released in the background, and the place in the
    /// queue given up.
    pub async fn acquire(&self, many: u32, timeout: Duration) -> Result<PermitsGuard> {
        let end = self.inner.0.host.now() + timeout;
        let taking = self.taking(many)?;
        let span = self.span();
        let taken = self.inner.0.timed(self.rules.class, &span, taking.until(end)).await;
        let holding = taken.map_err(|error| self.explained(many, error))?;
        self.guard(many, holding)
    }

    /// Acquires `many` permits, waiting for as long as its options say: [`LockOptions::wait`], by
    /// default 10 s. All else is as with [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Safe, as [`acquire`](Self::acquire).
    pub async fn acquire_default(&self, many: u32) -> Result<PermitsGuard> {
        self.acquire(many, self.rules.wait).await
    }

    /// Takes `many` permits if they are free, and waits for nobody. Where those are held that it
    /// asks for first, it looks which are free: two round trips more.
    ///
    /// `None` means that fewer are free: quorums of nodes name holders of all others. Or a quorum
    /// has named one holder of the gate for a round timeout. While others take permits, or where
    /// callers split the votes, it tries again after random pauses, for two round timeouts at most
    /// (4 s unless set).
    ///
    /// # Errors
    /// `Unavailable` if too few nodes could vote, or nobody can tell by then; else as
    /// [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Safe: what was granted is released in the background.
    pub async fn try_acquire(&self, many: u32) -> Result<Option<PermitsGuard>> {
        let taking = self.taking(many)?;
        let span = self.span();
        let taken = self.inner.0.timed(self.rules.class, &span, taking.at_once()).await;
        let holding = taken.map_err(|error| self.explained(many, error))?;
        holding.map(|holding| self.guard(many, holding)).transpose()
    }

    /// Acquires `many` permits, runs `body`, and releases them. The body is dropped the moment one
    /// of them is lost.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and `Lost` if they were lost before the body ended. A release
    /// that no quorum confirms is not an error here.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the permits released in the background.
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

    /// As [`run`](Self::run), for a body that can fail: one `Result`, with the errors of both. The
    /// permits are released whatever the body comes to.
    ///
    /// # Errors
    /// As [`run`](Self::run), turned into the body's kind of error, and what the body returns.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the permits released in the background.
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
                "{many} permits of {name:?} are asked for; it has {permits}: ask for 1 to {permits}"
            )));
        }
        let Self { inner: Shared(inner), rules, .. } = self;
        let (began, ticket) = (inner.host.now(), OnceLock::new());
        Ok(Taking { inner, pool, rules, many: many as usize, began, ticket })
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

    /// The same error, which says what was asked for.
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

/// The quorum, of which nothing is to be printed.
#[derive(Clone)]
struct Shared(Arc<Inner>);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}
