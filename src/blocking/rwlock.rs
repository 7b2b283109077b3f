//! Many readers, or one writer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::confirmed::confirmed;
use super::lease::Lease;
use super::quorum::Quorum;
use super::rwguards::{ReadGuard, WriteGuard};
use super::worker::Worker;
use crate::config::LockOptions;
use crate::error::{Error, Result};
use crate::lock::{QuorumRwLock as Lock, ReadGuard as Reader, WriteGuard as Writer};

/// A lock on a name that many readers hold together, or one writer alone:
/// [`quorumlock::QuorumRwLock`](crate::QuorumRwLock) for threads.
///
/// Cheap to clone, `Send` and `Sync`.
///
/// # Examples
/// ```
/// # fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let prices = quorum.rw_lock("prices");
/// let one = prices.read(Duration::from_secs(5))?;
/// let other = prices.read(Duration::from_secs(5))?;
/// assert!(prices.try_write()?.is_none());
/// one.release()?;
/// other.release()?;
/// let writer = prices.write(Duration::from_secs(5))?;
/// let reader = writer.downgrade()?;
/// assert!(reader.is_held());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct QuorumRwLock {
    lock: Lock,
    worker: Arc<Worker>,
}

impl Quorum {
    /// The reader-writer lock on `name`: see [`Quorum::rw_lock`](crate::Quorum::rw_lock).
    #[must_use]
    pub fn rw_lock(&self, name: impl AsRef<str>) -> QuorumRwLock {
        QuorumRwLock { lock: self.0.quorum.rw_lock(name), worker: self.0.clone() }
    }

    /// The reader-writer lock on `name` with options of its own.
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with).
    pub fn rw_lock_with(&self, name: impl AsRef<str>, options: &LockOptions) -> Result<QuorumRwLock> {
        Ok(QuorumRwLock { lock: self.0.quorum.rw_lock_with(name, options)?, worker: self.0.clone() })
    }
}

impl QuorumRwLock {
    /// Acquires it as a reader, waiting for `timeout` at most: see
    /// [`QuorumRwLock::read`](crate::QuorumRwLock::read).
    ///
    /// # Errors
    /// As [`QuorumLock::acquire`](super::QuorumLock::acquire).
    pub fn read(&self, timeout: Duration) -> Result<ReadGuard> {
        self.worker.wait(self.lock.read(timeout))?.map(|guard| self.reader(guard))
    }

    /// Acquires it as the writer, waiting for `timeout` at most: see
    /// [`QuorumRwLock::write`](crate::QuorumRwLock::write).
    ///
    /// # Errors
    /// As [`QuorumLock::acquire`](super::QuorumLock::acquire).
    pub fn write(&self, timeout: Duration) -> Result<WriteGuard> {
        self.worker.wait(self.lock.write(timeout))?.map(|guard| self.writer(guard))
    }

    /// Acquires it as a reader, waiting for as long as its options say: by default 10 s.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_default(&self) -> Result<ReadGuard> {
        self.worker.wait(self.lock.read_default())?.map(|guard| self.reader(guard))
    }

    /// Acquires it as the writer, waiting for as long as its options say: by default 10 s.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_default(&self) -> Result<WriteGuard> {
        self.worker.wait(self.lock.write_default())?.map(|guard| self.writer(guard))
    }

    /// Acquires it as a reader if no writer has it, and waits for nobody. `None` means that a writer
    /// holds it or is about to; an error means that nobody can tell.
    ///
    /// # Errors
    /// As [`QuorumLock::try_acquire`](super::QuorumLock::try_acquire).
    pub fn try_read(&self) -> Result<Option<ReadGuard>> {
        let guard = self.worker.wait(self.lock.try_read())??;
        Ok(guard.map(|guard| self.reader(guard)))
    }

    /// Acquires it as the writer if nobody has it, and waits for nobody. `None` means that somebody
    /// else holds it or is about to; an error means that nobody can tell.
    ///
    /// # Errors
    /// As [`QuorumLock::try_acquire`](super::QuorumLock::try_acquire).
    pub fn try_write(&self) -> Result<Option<WriteGuard>> {
        let guard = self.worker.wait(self.lock.try_write())??;
        Ok(guard.map(|guard| self.writer(guard)))
    }

    /// Runs `body` while it is held as a reader, as [`QuorumLock::run`](super::QuorumLock::run)
    /// does.
    ///
    /// # Errors
    /// As [`QuorumLock::run`](super::QuorumLock::run).
    pub fn run_read<T>(&self, timeout: Duration, body: impl FnOnce(&Lease) -> T) -> Result<T> {
        let guard = self.read(timeout)?;
        let output = body(&guard);
        guard.ensure(Duration::ZERO)?;
        confirmed(guard.release());
        Ok(output)
    }

    /// Runs `body` while it is held as the writer, as [`QuorumLock::run`](super::QuorumLock::run)
    /// does.
    ///
    /// # Errors
    /// As [`QuorumLock::run`](super::QuorumLock::run).
    pub fn run_write<T>(&self, timeout: Duration, body: impl FnOnce(&Lease) -> T) -> Result<T> {
        let guard = self.write(timeout)?;
        let output = body(&guard);
        guard.ensure(Duration::ZERO)?;
        confirmed(guard.release());
        Ok(output)
    }

    /// As [`run_read`](Self::run_read), for a body that can fail: one `Result`, with the errors of
    /// both. The lock is released whatever the body comes to.
    ///
    /// # Errors
    /// As [`run_read`](Self::run_read), turned into the body's kind of error, and what the body
    /// returns.
    pub fn try_run_read<T, E: From<Error>>(
        &self,
        timeout: Duration,
        body: impl FnOnce(&Lease) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run_read(timeout, body)?
    }

    /// As [`run_write`](Self::run_write), for a body that can fail: one `Result`, with the errors
    /// of both. The lock is released whatever the body comes to.
    ///
    /// # Errors
    /// As [`run_write`](Self::run_write), turned into the body's kind of error, and what the body
    /// returns.
    pub fn try_run_write<T, E: From<Error>>(
        &self,
        timeout: Duration,
        body: impl FnOnce(&Lease) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run_write(timeout, body)?
    }

    fn reader(&self, guard: Reader) -> ReadGuard {
        ReadGuard::new(guard, self.worker.clone())
    }

    fn writer(&self, guard: Writer) -> WriteGuard {
        WriteGuard::new(guard, self.worker.clone())
    }
}

impl fmt::Debug for QuorumRwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.lock, f)
    }
}
