//! A lock, its guard, and the view of a held lock.

use std::ops::Deref;
use std::time::Duration;

use super::quorum::Quorum;
use super::worker::{Blocking, debug_as_async, guard};
use crate::config::LockOptions;
use crate::error::{Error, Result};
use crate::lock::Owner;
use crate::rules::LostReason;

/// A lock on one name or several, with at most one holder across all clients of the same nodes.
/// This type is [`quorumlock::QuorumLock`](crate::QuorumLock) for threads.
///
/// Cheap to clone, `Send` and `Sync`. Threads that use the same `QuorumLock`, or clones of it,
/// exclude each other, unless the threads share one [`Owner`].
///
/// # Examples
/// ```
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let lock = quorum.lock("orders/42");
/// let guard = lock.acquire(Duration::from_secs(5))?;
/// assert!(lock.try_acquire()?.is_none());
/// guard.release()?;
/// let token = lock.run(Duration::from_secs(5), |lease| lease.token())?;
/// # assert!(token > 0);
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[derive(Clone)]
pub struct QuorumLock(Blocking<crate::QuorumLock>);

/// A held lock. The lock is renewed while this guard lives, and released when the guard is dropped.
///
/// Dropping the guard does not wait, unless it is the last handle or guard of the quorum: this drop
/// waits up to 250 ms for releases. Prefer [`release`](Self::release), which returns the result. A
/// guard also has the methods of [`Lease`]: [`lost`](Lease::lost), [`token`](crate::Lease::token),
/// [`is_held`](crate::Lease::is_held), [`ensure`](crate::Lease::ensure) and so on.
///
/// # Examples
/// ```
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let guard = quorum.lock("orders/42").acquire_default()?;
/// // Give guard.token() to the storage with every write.
/// guard.ensure(Duration::from_secs(1))?;
/// assert_eq!(guard.lost(Duration::from_millis(10))?, None);
/// guard.release()?;
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[must_use = "the lock is released when its guard is dropped"]
pub struct LockGuard(Blocking<crate::LockGuard>, Lease);

/// A view of a held lock. It is cheap to clone, and does not keep the lock held.
///
/// Except for [`lost`](Self::lost), its methods are those of [`quorumlock::Lease`](crate::Lease):
/// [`token`](crate::Lease::token), [`is_held`](crate::Lease::is_held),
/// [`ensure`](crate::Lease::ensure) and so on. A view keeps the quorum's thread alive.
///
/// # Examples
/// ```
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let guard = quorum.lock("orders/42").acquire_default()?;
/// let lease = guard.lease();
/// let watch = std::thread::spawn(move || lease.lost(Duration::MAX));
/// guard.release()?;
/// assert_eq!(watch.join().unwrap()?, None, "it was released, not lost");
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[derive(Clone)]
pub struct Lease(Blocking<crate::Lease>);

impl Quorum {
    /// The lock on `name`: see [`Quorum::lock`](crate::Quorum::lock).
    #[must_use]
    pub fn lock(&self, name: impl AsRef<str>) -> QuorumLock {
        QuorumLock(self.0.wrap(self.0.inner.lock(name)))
    }

    /// The lock on `name`, with its own options.
    ///
    /// # Errors
    /// As [`Quorum::lock_with`](crate::Quorum::lock_with).
    pub fn lock_with(&self, name: impl AsRef<str>, options: &LockOptions) -> Result<QuorumLock> {
        Ok(QuorumLock(self.0.wrap(self.0.inner.lock_with(name, options)?)))
    }

    /// The lock on all of `names`: see [`Quorum::lock_all`](crate::Quorum::lock_all).
    #[must_use]
    pub fn lock_all(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> QuorumLock {
        QuorumLock(self.0.wrap(self.0.inner.lock_all(names)))
    }

    /// The lock on all of `names`, with its own options.
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with).
    pub fn lock_all_with(
        &self,
        names: impl IntoIterator<Item = impl AsRef<str>>,
        options: &LockOptions,
    ) -> Result<QuorumLock> {
        Ok(QuorumLock(self.0.wrap(self.0.inner.lock_all_with(names, options)?)))
    }
}

impl QuorumLock {
    /// The same lock, acquired by `owner`: see
    /// [`QuorumLock::owned_by`](crate::QuorumLock::owned_by).
    #[must_use]
    pub fn owned_by(self, owner: &Owner) -> Self {
        Self(Blocking { inner: self.0.inner.owned_by(owner), ..self.0 })
    }

    /// The same lock with a note that says why it is held: see
    /// [`QuorumLock::describe`](crate::QuorumLock::describe).
    #[must_use]
    pub fn describe(&self, note: impl AsRef<str>) -> Self {
        Self(self.0.wrap(self.0.inner.describe(note)))
    }

    /// Acquires the lock, waiting for `timeout` at most: see
    /// [`QuorumLock::acquire`](crate::QuorumLock::acquire).
    ///
    /// # Errors
    /// `Timeout` if others held the lock until `timeout` ended; `Unavailable` if too few nodes
    /// could vote before `timeout` ended; `Config` for a bad name or within a Tokio runtime;
    /// `Closed` after a shutdown.
    pub fn acquire(&self, timeout: Duration) -> Result<LockGuard> {
        self.0.wrapped(self.0.inner.acquire(timeout)).map(LockGuard::new)
    }

    /// As [`acquire`](Self::acquire), with the timeout of the lock's options: 10 s by default.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn acquire_default(&self) -> Result<LockGuard> {
        self.0.wrapped(self.0.inner.acquire_default()).map(LockGuard::new)
    }

    /// Acquires the lock if it is free. Does not wait for a holder. `None` means that another owner
    /// holds the lock, or that an earlier caller of this process waits for it. An error means that
    /// it is unknown which owner holds the lock: see
    /// [`QuorumLock::try_acquire`](crate::QuorumLock::try_acquire).
    ///
    /// # Errors
    /// `Unavailable` if too few nodes could vote, or if the votes stayed split; `Config` for a bad
    /// name or within a Tokio runtime; `Closed` after a shutdown.
    pub fn try_acquire(&self) -> Result<Option<LockGuard>> {
        let guard = self.0.wait(self.0.inner.try_acquire())?;
        Ok(guard.map(|guard| LockGuard::new(self.0.wrap(guard))))
    }

    /// Acquires the lock, runs `body`, and releases the lock.
    ///
    /// The loss of the lock cannot stop the body, because nothing can stop a thread. So a body that
    /// runs for long must ask its lease ([`ensure`](crate::Lease::ensure), [`lost`](Lease::lost))
    /// whether the lock is still held. If the body panics, the lock is released in the background.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and `Lost` if the lock was lost before the body ended. If no
    /// quorum confirms the release, the log has a warning, but the call succeeds: the body ran
    /// while the lock was held.
    pub fn run<T>(&self, timeout: Duration, body: impl FnOnce(&Lease) -> T) -> Result<T> {
        self.acquire(timeout)?.while_held(body)
    }

    /// As [`run`](Self::run), for a body that can fail. Returns one `Result`, with the errors of
    /// `run` and of the body. The lock is released whatever the body returns.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run), converted to the body's error type, and the errors of the
    /// body.
    pub fn try_run<T, E: From<Error>>(
        &self,
        timeout: Duration,
        body: impl FnOnce(&Lease) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(timeout, body)?
    }
}

impl LockGuard {
    /// Returns another guard of the same held lock: see
    /// [`LockGuard::reenter`](crate::LockGuard::reenter).
    ///
    /// # Errors
    /// `Lost` if the lock is not held any more.
    pub fn reenter(&self) -> Result<Self> {
        Ok(Self::new(self.0.wrap(self.0.inner.reenter()?)))
    }
}

impl Lease {
    pub(super) const fn new(lease: Blocking<crate::Lease>) -> Self {
        Self(lease)
    }

    /// Waits until the lock is lost, for `timeout` at most, and returns why. `None` means that the
    /// lock was not lost within `timeout`, or that it was released. So a loop can call this method
    /// in place of a sleep: `while lease.lost(pause)?.is_none() { .. }` runs once per `pause` until
    /// the lock is lost. (After a release, the loop runs without pauses.)
    ///
    /// # Errors
    /// `Config` within a Tokio runtime.
    pub fn lost(&self, timeout: Duration) -> Result<Option<LostReason>> {
        self.0.lost(timeout, self.0.inner.outcome())
    }
}

impl Deref for Lease {
    type Target = crate::Lease;

    fn deref(&self) -> &crate::Lease {
        &self.0.inner
    }
}

guard!(LockGuard, Lease, pub release);
debug_as_async!(QuorumLock, Lease);
