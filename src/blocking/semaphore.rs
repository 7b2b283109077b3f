//! A semaphore: a fixed number of permits.

use std::ops::Deref;
use std::time::Duration;

use super::quorum::Quorum;
use super::worker::{Blocking, debug_as_async, guard};
use crate::config::LockOptions;
use crate::error::{Error, Result};
use crate::rules::LostReason;

/// A fixed number of permits on a name, for all clients of the same nodes. Each permit has one
/// holder at most. This type is [`quorumlock::QuorumSemaphore`](crate::QuorumSemaphore) for
/// threads.
///
/// Cheap to clone, `Send` and `Sync`. Clones share a record of held permits, and claim free permits
/// first. So keep one semaphore, and do not make a new one for each acquisition.
///
/// # Examples
/// ```
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// let licences = quorum.semaphore("licences", 3);
/// let two = licences.acquire_default(2)?;
/// let one = licences.acquire_default(1)?;
/// assert!(licences.try_acquire(1)?.is_none());
/// two.release()?;
/// assert!(licences.try_acquire(2)?.is_some());
/// # drop(one);
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[derive(Clone)]
pub struct QuorumSemaphore(Blocking<crate::QuorumSemaphore>);

/// Held permits of a [`QuorumSemaphore`]. The permits are renewed and lost together, and released
/// when this guard is dropped. A guard also has the methods of [`PermitsLease`].
///
/// # Examples
/// ```
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// let guard = quorum.semaphore("ports", 4).acquire_default(1)?;
/// let port = 8080 + guard.permits()[0].number;
/// assert!((8080..8084).contains(&port));
/// guard.release()?;
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[must_use = "the permits are released when their guard is dropped"]
pub struct PermitsGuard(Blocking<crate::PermitsGuard>, PermitsLease);

/// A view of held permits. It is cheap to clone, and does not keep the permits held.
///
/// Except for [`lost`](Self::lost), its methods are those of
/// [`quorumlock::PermitsLease`](crate::PermitsLease): [`permits`](crate::PermitsLease::permits),
/// [`is_held`](crate::PermitsLease::is_held), [`ensure`](crate::PermitsLease::ensure) and so on. A
/// view keeps the quorum's thread alive.
///
/// # Examples
/// ```
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let guard = quorum.semaphore("licences", 3).acquire_default(2)?;
/// let lease = guard.lease();
/// let watch = std::thread::spawn(move || lease.lost(Duration::MAX));
/// guard.release()?;
/// assert_eq!(watch.join().unwrap()?, None, "they were released, not lost");
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[derive(Clone)]
pub struct PermitsLease(Blocking<crate::PermitsLease>);

impl Quorum {
    /// The semaphore on `name` with this number of permits: see
    /// [`Quorum::semaphore`](crate::Quorum::semaphore).
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> QuorumSemaphore {
        QuorumSemaphore(self.0.wrap(self.0.inner.semaphore(name, permits)))
    }

    /// The semaphore on `name`, with its own options.
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with), and `Config` for a bad number of permits.
    pub fn semaphore_with(
        &self,
        name: impl AsRef<str>,
        permits: u32,
        options: &LockOptions,
    ) -> Result<QuorumSemaphore> {
        Ok(QuorumSemaphore(self.0.wrap(self.0.inner.semaphore_with(name, permits, options)?)))
    }
}

impl QuorumSemaphore {
    /// Acquires `many` permits, or none, waiting for `timeout` at most: see
    /// [`QuorumSemaphore::acquire`](crate::QuorumSemaphore::acquire).
    ///
    /// # Errors
    /// As [`QuorumLock::acquire`](super::QuorumLock::acquire), and `Config` for a bad number of
    /// permits.
    pub fn acquire(&self, many: u32, timeout: Duration) -> Result<PermitsGuard> {
        self.0.wrapped(self.0.inner.acquire(many, timeout)).map(PermitsGuard::new)
    }

    /// As [`acquire`](Self::acquire), with the timeout of the semaphore's options: 10 s by default.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn acquire_default(&self, many: u32) -> Result<PermitsGuard> {
        self.0.wrapped(self.0.inner.acquire_default(many)).map(PermitsGuard::new)
    }

    /// Acquires `many` permits if so many are free. Does not wait for holders: see
    /// [`QuorumSemaphore::try_acquire`](crate::QuorumSemaphore::try_acquire).
    ///
    /// # Errors
    /// `Unavailable` if too few nodes could vote; otherwise as [`acquire`](Self::acquire).
    pub fn try_acquire(&self, many: u32) -> Result<Option<PermitsGuard>> {
        let guard = self.0.wait(self.0.inner.try_acquire(many))?;
        Ok(guard.map(|guard| PermitsGuard::new(self.0.wrap(guard))))
    }

    /// Acquires `many` permits, runs `body`, and releases the permits, as
    /// [`QuorumLock::run`](super::QuorumLock::run) does.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and `Lost` if the permits were lost before the body ended.
    pub fn run<T>(&self, many: u32, timeout: Duration, body: impl FnOnce(&PermitsLease) -> T) -> Result<T> {
        self.acquire(many, timeout)?.while_held(body)
    }

    /// As [`run`](Self::run), for a body that can fail. Returns one `Result`, with the errors of
    /// `run` and of the body. The permits are released whatever the body returns.
    ///
    /// # Errors
    /// As [`QuorumLock::try_run`](super::QuorumLock::try_run).
    pub fn try_run<T, E: From<Error>>(
        &self,
        many: u32,
        timeout: Duration,
        body: impl FnOnce(&PermitsLease) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(many, timeout, body)?
    }
}

impl PermitsLease {
    const fn new(lease: Blocking<crate::PermitsLease>) -> Self {
        Self(lease)
    }

    /// Waits until the permits are lost, for `timeout` at most, and returns why. If one permit is
    /// lost, all are lost. `None` means that no permit was lost within `timeout`, or that all were
    /// released.
    ///
    /// # Errors
    /// `Config` within a Tokio runtime.
    pub fn lost(&self, timeout: Duration) -> Result<Option<LostReason>> {
        self.0.lost(timeout, self.0.inner.outcome())
    }
}

impl Deref for PermitsLease {
    type Target = crate::PermitsLease;

    fn deref(&self) -> &crate::PermitsLease {
        &self.0.inner
    }
}

guard!(PermitsGuard, PermitsLease, pub release);
debug_as_async!(QuorumSemaphore, PermitsLease);
