//! The traits of the semaphores and reader-writer locks that a provider hands out.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::time::Duration;

use super::permits::{PermitsGuard, PermitsLease};
use super::rwlock::{QuorumRwLock, ReadGuard, WriteGuard};
use super::scoped::under;
use super::semaphore::QuorumSemaphore;
use crate::error::{Error, Result};
use crate::lease::Lease;

/// The boxed future that [`DistributedLock`](crate::DistributedLock), [`DistributedRwLock`] and
/// [`DistributedSemaphore`] return.
pub type Locking<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A semaphore of a [`LockProvider`](crate::LockProvider). Dropping one of its futures is safe at
/// any point: granted permits are released in the background.
///
/// New methods will have a default body, so they break no implementation.
pub trait DistributedSemaphore: fmt::Debug + Send + Sync {
    /// Acquires `many` permits or none, and waits for `timeout` at most: see
    /// [`QuorumSemaphore::acquire`].
    fn acquire(&self, many: u32, timeout: Duration) -> Locking<'_, PermitsGuard>;

    /// Acquires permits with the timeout of the options: see [`QuorumSemaphore::acquire_default`].
    fn acquire_default(&self, many: u32) -> Locking<'_, PermitsGuard>;

    /// Acquires free permits, without waiting: see [`QuorumSemaphore::try_acquire`].
    fn try_acquire(&self, many: u32) -> Locking<'_, Option<PermitsGuard>>;
}

impl dyn DistributedSemaphore {
    /// Acquires `many` permits, runs `body`, and releases them. Drops the body if a permit is lost.
    ///
    /// # Errors
    /// As [`QuorumSemaphore::run`].
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the permits are released in the background.
    pub async fn run<F, Fut>(&self, many: u32, timeout: Duration, body: F) -> Result<Fut::Output>
    where
        F: FnOnce(PermitsLease) -> Fut,
        Fut: Future,
    {
        under(self.acquire(many, timeout).await?, body).await
    }

    /// As [`run`](#method.run), for a body that can fail.
    ///
    /// # Errors
    /// As [`QuorumSemaphore::try_run`].
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
}

/// A reader-writer lock of a [`LockProvider`](crate::LockProvider). Dropping one of its futures is
/// safe at any point: a granted lock is released in the background.
///
/// New methods will have a default body, so they break no implementation.
pub trait DistributedRwLock: fmt::Debug + Send + Sync {
    /// Acquires the lock as a reader, and waits for `timeout` at most: see [`QuorumRwLock::read`].
    fn read(&self, timeout: Duration) -> Locking<'_, ReadGuard>;

    /// As [`read`](Self::read), with the timeout of the options: see
    /// [`QuorumRwLock::read_default`].
    fn read_default(&self) -> Locking<'_, ReadGuard>;

    /// As [`read`](Self::read), without waiting for others: see [`QuorumRwLock::try_read`].
    fn try_read(&self) -> Locking<'_, Option<ReadGuard>>;

    /// Acquires the lock as the writer, and waits for `timeout` at most: see
    /// [`QuorumRwLock::write`].
    fn write(&self, timeout: Duration) -> Locking<'_, WriteGuard>;

    /// As [`write`](Self::write), with the timeout of the options: see
    /// [`QuorumRwLock::write_default`].
    fn write_default(&self) -> Locking<'_, WriteGuard>;

    /// As [`write`](Self::write), without waiting for others: see [`QuorumRwLock::try_write`].
    fn try_write(&self) -> Locking<'_, Option<WriteGuard>>;
}

impl dyn DistributedRwLock {
    /// Runs `body` while the lock is held as a reader. Drops the body once the lock is lost.
    ///
    /// # Errors
    /// As [`QuorumRwLock::run_read`].
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the lock is released in the background.
    pub async fn run_read<F, Fut>(&self, timeout: Duration, body: F) -> Result<Fut::Output>
    where
        F: FnOnce(Lease) -> Fut,
        Fut: Future,
    {
        under(self.read(timeout).await?.into_guard(), body).await
    }

    /// As [`run_read`](#method.run_read), for a body that can fail.
    ///
    /// # Errors
    /// As [`QuorumRwLock::try_run_read`].
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the lock is released in the background.
    pub async fn try_run_read<F, Fut, T, E>(&self, timeout: Duration, body: F) -> Result<T, E>
    where
        F: FnOnce(Lease) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        self.run_read(timeout, body).await?
    }

    /// Runs `body` while the lock is held as the writer. Drops the body once the lock is lost.
    ///
    /// # Errors
    /// As [`QuorumRwLock::run_write`].
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the lock is released in the background.
    pub async fn run_write<F, Fut>(&self, timeout: Duration, body: F) -> Result<Fut::Output>
    where
        F: FnOnce(Lease) -> Fut,
        Fut: Future,
    {
        under(self.write(timeout).await?.into_guard(), body).await
    }

    /// As [`run_write`](#method.run_write), for a body that can fail.
    ///
    /// # Errors
    /// As [`QuorumRwLock::try_run_write`].
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the lock is released in the background.
    pub async fn try_run_write<F, Fut, T, E>(&self, timeout: Duration, body: F) -> Result<T, E>
    where
        F: FnOnce(Lease) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        self.run_write(timeout, body).await?
    }
}

/// A kind of lock that a provider does not offer: every acquisition fails.
#[derive(Debug)]
pub(super) struct Without(pub(super) &'static str);

impl Without {
    pub(super) fn refused<T: Send + 'static>(&self) -> Locking<'_, T> {
        Box::pin(ready(Err(Error::config(format!("this LockProvider does not implement {}", self.0)))))
    }
}

/// Implements `$Trait` for `$Lock` and for [`Without`]. `$Lock` needs inherent methods with the
/// same names and arguments.
macro_rules! provided {
    ($Trait:ident for $Lock:ident { $(fn $method:ident($($argument:ident: $Type:ty),*) -> $Guard:ty;)+ }) => {
        impl $Trait for $Lock {
            $(fn $method(&self, $($argument: $Type),*) -> Locking<'_, $Guard> {
                Box::pin(Self::$method(self, $($argument),*))
            })+
        }

        impl $Trait for Without {
            $(fn $method(&self, $(_: $Type),*) -> Locking<'_, $Guard> {
                self.refused()
            })+
        }
    };
}
pub(super) use provided;

provided! {
    DistributedRwLock for QuorumRwLock {
        fn read(timeout: Duration) -> ReadGuard;
        fn read_default() -> ReadGuard;
        fn try_read() -> Option<ReadGuard>;
        fn write(timeout: Duration) -> WriteGuard;
        fn write_default() -> WriteGuard;
        fn try_write() -> Option<WriteGuard>;
    }
}

provided! {
    DistributedSemaphore for QuorumSemaphore {
        fn acquire(many: u32, timeout: Duration) -> PermitsGuard;
        fn acquire_default(many: u32) -> PermitsGuard;
        fn try_acquire(many: u32) -> Option<PermitsGuard>;
    }
}
