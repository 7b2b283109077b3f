//! Locks by name as trait objects, for dependency injection.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::injected::{DistributedRwLock, DistributedSemaphore, Locking, Without, provided};
use super::mutex::QuorumLock;
use super::quorum::Quorum;
use super::scoped::under;
use crate::error::{Error, Result};
use crate::lease::{Lease, LockGuard};

/// Hands out locks by name. [`Quorum`] implements this trait, over servers and in memory. So a
/// program that takes an `Arc<dyn LockProvider>` can use servers, and its tests can use nodes in
/// memory.
///
/// Implement this trait to wrap a quorum: for example, to prefix names, count calls or refuse
/// names. The locks must return a [`LockGuard`], which only a quorum can make.
///
/// New methods will have a default body, so they break no implementation. The default body returns
/// a lock whose acquisitions fail, as the default body of [`lock_all`](Self::lock_all) does.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> quorumlock::Result<()> {
/// use quorumlock::{LockProvider, Quorum, Result};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// struct Orders {
///     locks: Arc<dyn LockProvider>,
/// }
///
/// impl Orders {
///     async fn ship(&self, order: u32) -> Result<u64> {
///         let lock = self.locks.lock(&format!("orders/{order}"));
///         lock.run(Duration::from_secs(5), |lease| async move { lease.token() }).await
///     }
/// }
///
/// let orders = Orders { locks: Arc::new(Quorum::in_memory(3)?) };
/// assert!(orders.ship(42).await? < orders.ship(42).await?);
/// # Ok(())
/// # }
/// ```
pub trait LockProvider: fmt::Debug + Send + Sync {
    /// The lock on `name`, as [`Quorum::lock`]. A bad name is refused at the first acquisition.
    fn lock(&self, name: &str) -> Box<dyn DistributedLock>;

    /// The lock on all of `names`, as [`Quorum::lock_all`]. By default a provider has no such lock,
    /// and an acquisition fails with `Config`.
    fn lock_all(&self, names: &[&str]) -> Box<dyn DistributedLock> {
        let _ = names;
        Box::new(Without("locks on several names"))
    }

    /// The reader-writer lock on `name`, as [`Quorum::rw_lock`]. By default a provider has no such
    /// lock, and an acquisition fails with `Config`.
    fn rw_lock(&self, name: &str) -> Box<dyn DistributedRwLock> {
        let _ = name;
        Box::new(Without("reader-writer locks"))
    }

    /// The semaphore on `name` with `permits` permits, as [`Quorum::semaphore`]. By default a
    /// provider has no semaphores, and an acquisition fails with `Config`.
    fn semaphore(&self, name: &str, permits: u32) -> Box<dyn DistributedSemaphore> {
        let _ = (name, permits);
        Box::new(Without("semaphores"))
    }
}

/// A lock of a [`LockProvider`]. Dropping one of its futures is safe at any point: a granted lock
/// is released in the background.
///
/// New methods will have a default body, so they break no implementation.
pub trait DistributedLock: fmt::Debug + Send + Sync {
    /// Acquires the lock, waiting for `timeout` at most: see [`QuorumLock::acquire`].
    fn acquire(&self, timeout: Duration) -> Locking<'_, LockGuard>;

    /// Acquires the lock with the timeout of its options: see [`QuorumLock::acquire_default`].
    fn acquire_default(&self) -> Locking<'_, LockGuard>;

    /// Acquires the lock if it is free, without waiting: see [`QuorumLock::try_acquire`].
    fn try_acquire(&self) -> Locking<'_, Option<LockGuard>>;
}

impl dyn DistributedLock {
    /// Acquires the lock, runs `body`, and releases the lock. If the lock is lost, drops the body.
    ///
    /// # Errors
    /// As [`QuorumLock::run`].
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the lock is released in the background.
    pub async fn run<F, Fut>(&self, timeout: Duration, body: F) -> Result<Fut::Output>
    where
        F: FnOnce(Lease) -> Fut,
        Fut: Future,
    {
        under(self.acquire(timeout).await?, body).await
    }

    /// As [`run`](#method.run), for a body that can fail.
    ///
    /// # Errors
    /// As [`QuorumLock::try_run`].
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the lock is released in the background.
    pub async fn try_run<F, Fut, T, E>(&self, timeout: Duration, body: F) -> Result<T, E>
    where
        F: FnOnce(Lease) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        self.run(timeout, body).await?
    }
}

impl LockProvider for Quorum {
    fn lock(&self, name: &str) -> Box<dyn DistributedLock> {
        Box::new(Self::lock(self, name))
    }

    fn lock_all(&self, names: &[&str]) -> Box<dyn DistributedLock> {
        Box::new(Self::lock_all(self, names))
    }

    fn rw_lock(&self, name: &str) -> Box<dyn DistributedRwLock> {
        Box::new(Self::rw_lock(self, name))
    }

    fn semaphore(&self, name: &str, permits: u32) -> Box<dyn DistributedSemaphore> {
        Box::new(Self::semaphore(self, name, permits))
    }
}

impl<P: LockProvider + ?Sized> LockProvider for Arc<P> {
    fn lock(&self, name: &str) -> Box<dyn DistributedLock> {
        (**self).lock(name)
    }

    fn lock_all(&self, names: &[&str]) -> Box<dyn DistributedLock> {
        (**self).lock_all(names)
    }

    fn rw_lock(&self, name: &str) -> Box<dyn DistributedRwLock> {
        (**self).rw_lock(name)
    }

    fn semaphore(&self, name: &str, permits: u32) -> Box<dyn DistributedSemaphore> {
        (**self).semaphore(name, permits)
    }
}

provided! {
    DistributedLock for QuorumLock {
        fn acquire(timeout: Duration) -> LockGuard;
        fn acquire_default() -> LockGuard;
        fn try_acquire() -> Option<LockGuard>;
    }
}
