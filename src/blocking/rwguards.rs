//! A reader-writer lock that is held.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::lease::Lease;
use super::worker::Worker;
use crate::error::Result;
use crate::lease::Released;
use crate::lock::{ReadGuard as Reader, WriteGuard as Writer};

/// A [`QuorumRwLock`](super::QuorumRwLock) held as a reader. It is renewed as long as this lives,
/// and released when it is dropped.
///
/// # Examples
/// ```
/// # fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let reader = quorum.rw_lock("prices").read(Duration::from_secs(5))?;
/// reader.ensure(Duration::from_secs(1))?;
/// reader.release()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock is released when its guard is dropped"]
pub struct ReadGuard {
    // Dropped before the runtime that sends its release.
    guard: Reader,
    lease: Lease,
}

impl ReadGuard {
    pub(super) fn new(guard: Reader, worker: Arc<Worker>) -> Self {
        let lease = Lease::new(guard.lease(), worker);
        Self { guard, lease }
    }

    /// A view that can be given away; it does not keep the lock.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Gives it up, as [`LockGuard::release`](super::LockGuard::release) does.
    ///
    /// # Errors
    /// As [`LockGuard::release`](super::LockGuard::release).
    pub fn release(self) -> Result<Released> {
        let Self { guard, lease } = self;
        lease.worker().wait(guard.release())?
    }

    /// Always refused: see [`ReadGuard::upgrade`](crate::ReadGuard::upgrade).
    ///
    /// # Errors
    /// `Config`, and nothing changes.
    pub fn upgrade(&self) -> Result<WriteGuard> {
        self.guard.upgrade().map(|guard| WriteGuard::new(guard, self.lease.worker().clone()))
    }
}

impl Deref for ReadGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl fmt::Debug for ReadGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.guard, f)
    }
}

/// A [`QuorumRwLock`](super::QuorumRwLock) held as the writer. It is renewed as long as this lives,
/// and released when it is dropped.
///
/// # Examples
/// ```
/// # fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let prices = quorum.rw_lock("prices");
/// let writer = prices.write(Duration::from_secs(5))?;
/// let reader = writer.downgrade()?;
/// // It sees what the writer wrote: nobody else wrote since.
/// assert!(prices.try_write()?.is_none());
/// reader.release()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock is released when its guard is dropped"]
pub struct WriteGuard {
    // Dropped before the runtime that sends its release.
    guard: Writer,
    lease: Lease,
}

impl WriteGuard {
    pub(super) fn new(guard: Writer, worker: Arc<Worker>) -> Self {
        let lease = Lease::new(guard.lease(), worker);
        Self { guard, lease }
    }

    /// A view that can be given away; it does not keep the lock.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Gives it up, as [`LockGuard::release`](super::LockGuard::release) does.
    ///
    /// # Errors
    /// As [`LockGuard::release`](super::LockGuard::release).
    pub fn release(self) -> Result<Released> {
        let Self { guard, lease } = self;
        lease.worker().wait(guard.release())?
    }

    /// Becomes a reader, without a moment in which another writer could enter: see
    /// [`WriteGuard::downgrade`](crate::WriteGuard::downgrade).
    ///
    /// # Errors
    /// As [`WriteGuard::downgrade`](crate::WriteGuard::downgrade), and `Config` within a Tokio
    /// runtime. Then the lock is released.
    pub fn downgrade(self) -> Result<ReadGuard> {
        let Self { guard, lease } = self;
        let worker = lease.worker();
        let reader = worker.wait(guard.downgrade())??;
        Ok(ReadGuard::new(reader, worker.clone()))
    }
}

impl Deref for WriteGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl fmt::Debug for WriteGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.guard, f)
    }
}
