//! A semaphore: at most so many at a time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::confirmed::confirmed;
use super::permits::{PermitsGuard, PermitsLease};
use super::quorum::Quorum;
use super::worker::Worker;
use crate::config::LockOptions;
use crate::error::{Error, Result};
use crate::lock::QuorumSemaphore as Semaphore;

/// A number of permits on a name: at most so many are held at a time across all clients of the same
/// nodes, each by one holder. [`quorumlock::QuorumSemaphore`](crate::QuorumSemaphore) for threads.
///
/// Cheap to clone, `Send` and `Sync`. A clone remembers what the other saw of permits that were
/// held, so keep one rather than making another for each acquisition.
///
/// # Examples
/// ```
/// # fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let licences = quorum.semaphore("licences", 3);
/// let two = licences.acquire(2, Duration::from_secs(5))?;
/// let one = licences.acquire(1, Duration::from_secs(5))?;
/// assert!(licences.try_acquire(1)?.is_none());
/// two.release()?;
/// assert!(licences.try_acquire(2)?.is_some());
/// # drop(one);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct QuorumSemaphore {
    semaphore: Semaphore,
    worker: Arc<Worker>,
}

impl Quorum {
    /// The semaphore on `name` with so many permits: see
    /// [`Quorum::semaphore`](crate::Quorum::semaphore).
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> QuorumSemaphore {
        QuorumSemaphore { semaphore: self.0.quorum.semaphore(name, permits), worker: self.0.clone() }
    }

    /// The semaphore on `name` with options of its own: see
    /// [`Quorum::semaphore_with`](crate::Quorum::semaphore_with).
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with), and `Config` for a bad number.
    pub fn semaphore_with(
        &self,
        name: impl AsRef<str>,
        permits: u32,
        options: &LockOptions,
    ) -> Result<QuorumSemaphore> {
        let semaphore = self.0.quorum.semaphore_with(name, permits, options)?;
        Ok(QuorumSemaphore { semaphore, worker: self.0.clone() })
    }
}

impl QuorumSemaphore {
    /// Acquires `many` permits, or none, waiting for `timeout` at most: see
    /// [`QuorumSemaphore::acquire`](crate::QuorumSemaphore::acquire).
    ///
    /// # Errors
    /// As [`QuorumSemaphore::acquire`](crate::QuorumSemaphore::acquire), and `Config` within a
    /// Tokio runtime.
    pub fn acquire(&self, many: u32, timeout: Duration) -> Result<PermitsGuard> {
        let guard = self.worker.wait(self.semaphore.acquire(many, timeout))??;
        Ok(PermitsGuard::new(guard, self.worker.clone()))
    }

    /// Acquires `many` permits, waiting for as long as its options say: by default 10 s.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn acquire_default(&self, many: u32) -> Result<PermitsGuard> {
        let guard = self.worker.wait(self.semaphore.acquire_default(many))??;
        Ok(PermitsGuard::new(guard, self.worker.clone()))
    }

    /// Takes `many` permits if they are free, and waits for nobody. `None` means that fewer are
    /// free, or that others wait for some or acquire them at this moment; an error means that
    /// nobody can tell.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes could vote; else as [`acquire`](Self::acquire).
    pub fn try_acquire(&self, many: u32) -> Result<Option<PermitsGuard>> {
        let guard = self.worker.wait(self.semaphore.try_acquire(many))??;
        Ok(guard.map(|guard| PermitsGuard::new(guard, self.worker.clone())))
    }

    /// Acquires `many` permits, runs `body`, and releases them.
    ///
    /// A thread cannot be stopped: a body that runs for long asks its lease
    /// ([`ensure`](crate::PermitsLease::ensure), [`lost`](PermitsLease::lost)) whether to go on. If
    /// the body panics, the permits are released in the background.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and `Lost` if they were lost before the body ended. A release
    /// that no quorum confirms is not an error here.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let ports = quorum.semaphore("ports", 4);
    /// let port = ports.run(1, Duration::from_secs(5), |lease| 8080 + lease.permits()[0].number)?;
    /// assert!((8080..8084).contains(&port));
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T>(&self, many: u32, timeout: Duration, body: impl FnOnce(&PermitsLease) -> T) -> Result<T> {
        let guard = self.acquire(many, timeout)?;
        let output = body(&guard);
        guard.ensure(Duration::ZERO)?;
        confirmed(guard.release());
        Ok(output)
    }

    /// As [`run`](Self::run), for a body that can fail: one `Result`, with the errors of both. The
    /// permits are released whatever the body comes to.
    ///
    /// # Errors
    /// As [`run`](Self::run), turned into the body's kind of error, and what the body returns.
    pub fn try_run<T, E: From<Error>>(
        &self,
        many: u32,
        timeout: Duration,
        body: impl FnOnce(&PermitsLease) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(many, timeout, body)?
    }
}

impl fmt::Debug for QuorumSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.semaphore, f)
    }
}
