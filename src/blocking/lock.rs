//! The lock itself.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::confirmed::confirmed;
use super::guard::LockGuard;
use super::lease::Lease;
use super::worker::Worker;
use crate::error::{Error, Result};
use crate::lock::{Owner, QuorumLock as Lock};

/// A lock on a name, or on several, held by at most one at a time across all clients of the same
/// nodes: [`quorumlock::QuorumLock`](crate::QuorumLock) for threads.
///
/// Cheap to clone, `Send` and `Sync`. Threads that use the same `QuorumLock`, or clones of it,
/// exclude each other, unless they have one [`Owner`].
#[derive(Clone)]
pub struct QuorumLock {
    lock: Lock,
    worker: Arc<Worker>,
}

impl QuorumLock {
    pub(super) const fn new(lock: Lock, worker: Arc<Worker>) -> Self {
        Self { lock, worker }
    }

    /// The same lock, where `owner` acquires it: see
    /// [`QuorumLock::owned_by`](crate::QuorumLock::owned_by).
    #[must_use]
    pub fn owned_by(self, owner: &Owner) -> Self {
        Self { lock: self.lock.owned_by(owner), ..self }
    }

    /// The same lock with a note on what it is held for: see
    /// [`QuorumLock::describe`](crate::QuorumLock::describe).
    #[must_use]
    pub fn describe(&self, note: impl AsRef<str>) -> Self {
        Self { lock: self.lock.describe(note), worker: self.worker.clone() }
    }

    /// Acquires the lock, waiting for `timeout` at most: see
    /// [`QuorumLock::acquire`](crate::QuorumLock::acquire).
    ///
    /// # Errors
    /// `Timeout` if others held it until the time ended; `Unavailable` if too few nodes could vote
    /// at that time; `Config` for a bad name or within a Tokio runtime; `Closed` after a shutdown.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let guard = quorum.lock("orders/42").acquire(Duration::from_secs(5))?;
    /// assert!(quorum.lock("orders/42").try_acquire()?.is_none());
    /// guard.release()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self, timeout: Duration) -> Result<LockGuard> {
        let guard = self.worker.wait(self.lock.acquire(timeout))??;
        Ok(LockGuard::new(guard, self.worker.clone()))
    }

    /// Acquires the lock, waiting for as long as its options say: by default 10 s.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn acquire_default(&self) -> Result<LockGuard> {
        let guard = self.worker.wait(self.lock.acquire_default())??;
        Ok(LockGuard::new(guard, self.worker.clone()))
    }

    /// Acquires it if nobody has it, and waits for nobody. `None` means that somebody else holds the
    /// lock or is about to; an error means that nobody can tell. Where votes are split it tries
    /// again, for two round timeouts at most: see
    /// [`QuorumLock::try_acquire`](crate::QuorumLock::try_acquire).
    ///
    /// # Errors
    /// `Unavailable` if too few nodes could vote, or votes stayed split; `Config` for a bad name or within a Tokio
    /// runtime; `Closed` after a shutdown.
    pub fn try_acquire(&self) -> Result<Option<LockGuard>> {
        let guard = self.worker.wait(self.lock.try_acquire())??;
        Ok(guard.map(|guard| LockGuard::new(guard, self.worker.clone())))
    }

    /// Acquires the lock, runs `body`, and releases it.
    ///
    /// A thread cannot be stopped: a body that runs for long asks its lease
    /// ([`ensure`](crate::Lease::ensure), [`lost`](Lease::lost)) whether to go on. If the body
    /// panics, the lock is released in the background.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and `Lost` if the lock was lost before the body ended. A
    /// release that no quorum confirms is not an error here: the body's work was done while the
    /// lock was held.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let token = quorum.lock("orders/42").run(Duration::from_secs(5), |lease| lease.token())?;
    /// # assert!(token > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T>(&self, timeout: Duration, body: impl FnOnce(&Lease) -> T) -> Result<T> {
        let guard = self.acquire(timeout)?;
        let output = body(&guard);
        guard.ensure(Duration::ZERO)?;
        confirmed(guard.release());
        Ok(output)
    }

    /// As [`run`](Self::run), for a body that can fail: one `Result`, with the errors of both. The
    /// lock is released whatever the body comes to.
    ///
    /// # Errors
    /// As [`run`](Self::run), turned into the body's kind of error, and what the body returns.
    pub fn try_run<T, E: From<Error>>(
        &self,
        timeout: Duration,
        body: impl FnOnce(&Lease) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(timeout, body)?
    }
}

impl fmt::Debug for QuorumLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.lock, f)
    }
}
