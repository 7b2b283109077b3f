//! What a provider hands out beside locks, as trait objects.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::time::Duration;

use super::permits::{PermitsGuard, PermitsLease};
use super::semaphore::{QuorumSemaphore, with_permits};
use crate::error::{Error, Result};

/// What a [`DistributedLock`](crate::DistributedLock) or a [`DistributedSemaphore`] returns: a
/// future in a box.
pub type Locking<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A semaphore of a [`LockProvider`](crate::LockProvider). Dropping one of its futures is safe at any
/// point: what was granted is released in the background.
///
/// Methods that come later have a body.
pub trait DistributedSemaphore: fmt::Debug + Send + Sync {
    /// Acquires `many` permits, or none, waiting for `timeout` at most: see
    /// [`QuorumSemaphore::acquire`].
    fn acquire(&self, many: u32, timeout: Duration) -> Locking<'_, PermitsGuard>;

    /// The same with the semaphore's own wait: see [`QuorumSemaphore::acquire_default`].
    fn acquire_default(&self, many: u32) -> Locking<'_, PermitsGuard>;

    /// Takes what is free, and waits for nobody: see [`QuorumSemaphore::try_acquire`].
    fn try_acquire(&self, many: u32) -> Locking<'_, Option<PermitsGuard>>;
}

impl dyn DistributedSemaphore {
    /// Acquires `many` permits, runs `body`, and releases them; drops the body the moment one of them
    /// is lost.
    ///
    /// # Errors
    /// As [`QuorumSemaphore::run`].
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the permits released in the background.
    pub async fn run<F, Fut>(&self, many: u32, timeout: Duration, body: F) -> Result<Fut::Output>
    where
        F: FnOnce(PermitsLease) -> Fut,
        Fut: Future,
    {
        with_permits(self.acquire(many, timeout).await?, body).await
    }

    /// As [`run`](#method.run), for a body that can fail.
    ///
    /// # Errors
    /// As [`QuorumSemaphore::try_run`].
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
}

impl DistributedSemaphore for QuorumSemaphore {
    fn acquire(&self, many: u32, timeout: Duration) -> Locking<'_, PermitsGuard> {
        Box::pin(Self::acquire(self, many, timeout))
    }

    fn acquire_default(&self, many: u32) -> Locking<'_, PermitsGuard> {
        Box::pin(Self::acquire_default(self, many))
    }

    fn try_acquire(&self, many: u32) -> Locking<'_, Option<PermitsGuard>> {
        Box::pin(Self::try_acquire(self, many))
    }
}

/// What a provider does not have.
#[derive(Debug)]
pub(super) struct Without(pub(super) &'static str);

impl Without {
    pub(super) fn refused<T: Send + 'static>(&self) -> Locking<'_, T> {
        Box::pin(ready(Err(Error::config(format!("this LockProvider has no {}; implement them there", self.0)))))
    }
}

impl DistributedSemaphore for Without {
    fn acquire(&self, _: u32, _: Duration) -> Locking<'_, PermitsGuard> {
        self.refused()
    }

    fn acquire_default(&self, _: u32) -> Locking<'_, PermitsGuard> {
        self.refused()
    }

    fn try_acquire(&self, _: u32) -> Locking<'_, Option<PermitsGuard>> {
        self.refused()
    }
}
