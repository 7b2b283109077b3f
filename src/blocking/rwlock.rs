//! Many readers, or one writer.

use std::time::Duration;

use super::lock::Lease;
use super::quorum::Quorum;
use super::worker::{Blocking, debug_as_async, guard};
use crate::config::LockOptions;
use crate::error::{Error, Result};

/// A lock on a name that many readers hold together, or one writer alone. This type is
/// [`quorumlock::QuorumRwLock`](crate::QuorumRwLock) for threads.
///
/// Cheap to clone, `Send` and `Sync`.
///
/// # Examples
/// ```
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// let prices = quorum.rw_lock("prices");
/// let one = prices.read_default()?;
/// let other = prices.read_default()?;
/// assert!(prices.try_write()?.is_none());
/// one.release()?;
/// other.release()?;
/// let writer = prices.write_default()?;
/// let reader = writer.downgrade()?;
/// assert!(reader.is_held());
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[derive(Clone)]
pub struct QuorumRwLock(Blocking<crate::QuorumRwLock>);

/// A [`QuorumRwLock`] that a reader holds. The lock is renewed while this guard lives, and released
/// when the guard is dropped.
///
/// # Examples
/// ```
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// let reader = quorum.rw_lock("prices").read_default()?;
/// assert!(reader.is_held());
/// reader.release()?;
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[must_use = "the lock is released when its guard is dropped"]
pub struct ReadGuard(Blocking<crate::ReadGuard>, Lease);

/// A [`QuorumRwLock`] that a writer holds. The lock is renewed while this guard lives, and released
/// when the guard is dropped.
///
/// # Examples
/// ```
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// let prices = quorum.rw_lock("prices");
/// let writer = prices.write_default()?;
/// let reader = writer.downgrade()?;
/// // The reader sees what the writer wrote: nobody else wrote since.
/// assert!(prices.try_write()?.is_none());
/// reader.release()?;
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[must_use = "the lock is released when its guard is dropped"]
pub struct WriteGuard(Blocking<crate::WriteGuard>, Lease);

impl Quorum {
    /// The reader-writer lock on `name`: see [`Quorum::rw_lock`](crate::Quorum::rw_lock).
    #[must_use]
    pub fn rw_lock(&self, name: impl AsRef<str>) -> QuorumRwLock {
        QuorumRwLock(self.0.wrap(self.0.inner.rw_lock(name)))
    }

    /// The reader-writer lock on `name`, with its own options.
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with).
    pub fn rw_lock_with(&self, name: impl AsRef<str>, options: &LockOptions) -> Result<QuorumRwLock> {
        Ok(QuorumRwLock(self.0.wrap(self.0.inner.rw_lock_with(name, options)?)))
    }
}

impl QuorumRwLock {
    /// Acquires the lock as a reader, waiting for `timeout` at most: see
    /// [`QuorumRwLock::read`](crate::QuorumRwLock::read).
    ///
    /// # Errors
    /// As [`QuorumLock::acquire`](super::QuorumLock::acquire).
    pub fn read(&self, timeout: Duration) -> Result<ReadGuard> {
        self.0.wrapped(self.0.inner.read(timeout)).map(ReadGuard::new)
    }

    /// Acquires the lock as the writer, waiting for `timeout` at most: see
    /// [`QuorumRwLock::write`](crate::QuorumRwLock::write).
    ///
    /// # Errors
    /// As [`QuorumLock::acquire`](super::QuorumLock::acquire).
    pub fn write(&self, timeout: Duration) -> Result<WriteGuard> {
        self.0.wrapped(self.0.inner.write(timeout)).map(WriteGuard::new)
    }

    /// As [`read`](Self::read), with the timeout of the lock's options: 10 s by default.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_default(&self) -> Result<ReadGuard> {
        self.0.wrapped(self.0.inner.read_default()).map(ReadGuard::new)
    }

    /// As [`write`](Self::write), with the timeout of the lock's options: 10 s by default.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_default(&self) -> Result<WriteGuard> {
        self.0.wrapped(self.0.inner.write_default()).map(WriteGuard::new)
    }

    /// Acquires the lock as a reader if no writer holds it. Does not wait for a writer. `None`
    /// means that a writer holds the lock or is about to get it. An error means that the state of
    /// the lock is unknown.
    ///
    /// # Errors
    /// As [`QuorumLock::try_acquire`](super::QuorumLock::try_acquire).
    pub fn try_read(&self) -> Result<Option<ReadGuard>> {
        let guard = self.0.wait(self.0.inner.try_read())?;
        Ok(guard.map(|guard| ReadGuard::new(self.0.wrap(guard))))
    }

    /// Acquires the lock as the writer if it is free. Does not wait for a holder. `None` means that
    /// another owner holds the lock or is about to get it. An error means that the state of the
    /// lock is unknown.
    ///
    /// # Errors
    /// As [`QuorumLock::try_acquire`](super::QuorumLock::try_acquire).
    pub fn try_write(&self) -> Result<Option<WriteGuard>> {
        let guard = self.0.wait(self.0.inner.try_write())?;
        Ok(guard.map(|guard| WriteGuard::new(self.0.wrap(guard))))
    }

    /// Runs `body` as a reader of the lock, as [`QuorumLock::run`](super::QuorumLock::run) does.
    ///
    /// # Errors
    /// As [`QuorumLock::run`](super::QuorumLock::run).
    pub fn run_read<T>(&self, timeout: Duration, body: impl FnOnce(&Lease) -> T) -> Result<T> {
        self.read(timeout)?.while_held(body)
    }

    /// Runs `body` as the writer of the lock, as [`QuorumLock::run`](super::QuorumLock::run) does.
    ///
    /// # Errors
    /// As [`QuorumLock::run`](super::QuorumLock::run).
    pub fn run_write<T>(&self, timeout: Duration, body: impl FnOnce(&Lease) -> T) -> Result<T> {
        self.write(timeout)?.while_held(body)
    }

    /// As [`run_read`](Self::run_read), for a body that can fail. Returns one `Result`, with the
    /// errors of `run_read` and of the body. The lock is released whatever the body returns.
    ///
    /// # Errors
    /// As [`QuorumLock::try_run`](super::QuorumLock::try_run).
    pub fn try_run_read<T, E: From<Error>>(
        &self,
        timeout: Duration,
        body: impl FnOnce(&Lease) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run_read(timeout, body)?
    }

    /// As [`run_write`](Self::run_write), for a body that can fail. Returns one `Result`, with the
    /// errors of `run_write` and of the body. The lock is released whatever the body returns.
    ///
    /// # Errors
    /// As [`QuorumLock::try_run`](super::QuorumLock::try_run).
    pub fn try_run_write<T, E: From<Error>>(
        &self,
        timeout: Duration,
        body: impl FnOnce(&Lease) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run_write(timeout, body)?
    }
}

impl ReadGuard {
    /// Always fails: see [`ReadGuard::upgrade`](crate::ReadGuard::upgrade).
    ///
    /// # Errors
    /// `Config`, and nothing changes.
    pub fn upgrade(&self) -> Result<WriteGuard> {
        Ok(WriteGuard::new(self.0.wrap(self.0.inner.upgrade()?)))
    }
}

impl WriteGuard {
    /// Turns the writer into a reader. No other writer can get the lock in between: see
    /// [`WriteGuard::downgrade`](crate::WriteGuard::downgrade).
    ///
    /// # Errors
    /// As [`WriteGuard::downgrade`](crate::WriteGuard::downgrade), and `Config` within a Tokio
    /// runtime. After an error, the lock is released.
    pub fn downgrade(self) -> Result<ReadGuard> {
        let Blocking { inner, worker } = self.0;
        let inner = worker.wait(inner.downgrade())??;
        Ok(ReadGuard::new(Blocking { inner, worker }))
    }
}

guard!(ReadGuard, Lease, pub release);
guard!(WriteGuard, Lease, pub release);
debug_as_async!(QuorumRwLock);
