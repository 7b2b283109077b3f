//! Many readers, or one writer.

use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use super::mutex::QuorumLock;
use super::quorum::Quorum;
use crate::config::LockOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Lease, LockGuard, Released};

/// A lock on a name that many readers hold together, or one writer alone.
///
/// Waiters get the lock in the order in which they called. Readers do not overtake a waiting
/// writer. All readers at the head of the queue get the lock together. Each reader has its own
/// expiry on the nodes, so a reader that dies keeps writers out only for that reader's ttl.
///
/// A writer holds the same lock as a holder of [`Quorum::lock`] on the name: the two exclude each
/// other, and both exclude all readers. A reader acquires a free lock in one round trip. When the
/// lock is released, nodes hand the name over to the next waiter, or to all readers at the head of
/// the queue.
///
/// # Tokens
/// A writer's token is greater than the tokens of all writers and readers before it. A reader's
/// token is greater than the tokens of all writers before it, and less than the tokens of all
/// writers after it. So a reader's token shows which writer's work the reader sees.
///
/// Tokens of readers have no order among themselves. So storage must remember the highest token of
/// a *writer*, and compare readers' tokens with that token. Storage that remembered readers' tokens
/// would refuse other readers that hold the lock.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let prices = quorum.rw_lock("prices");
/// let one = prices.read(Duration::from_secs(5)).await?;
/// let other = prices.read(Duration::from_secs(5)).await?;
/// assert!(prices.try_write().await?.is_none());
/// one.release().await?;
/// other.release().await?;
/// let writer = prices.write(Duration::from_secs(5)).await?;
/// let reader = writer.downgrade().await?;
/// assert!(reader.is_held());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct QuorumRwLock {
    reads: QuorumLock,
    writes: QuorumLock,
}

impl Quorum {
    /// The reader-writer lock on `name`. A bad name is refused at the first acquisition.
    #[must_use]
    pub fn rw_lock(&self, name: impl AsRef<str>) -> QuorumRwLock {
        QuorumRwLock::of(self.lock(name))
    }

    /// The reader-writer lock on `name` with options of its own.
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with).
    pub fn rw_lock_with(&self, name: impl AsRef<str>, options: &LockOptions) -> Result<QuorumRwLock> {
        Ok(QuorumRwLock::of(self.lock_with(name, options)?))
    }
}

impl QuorumRwLock {
    fn of(writes: QuorumLock) -> Self {
        Self { reads: writes.shared(), writes }
    }

    /// Acquires the lock as a reader. While a writer holds the lock, or an earlier writer waits for
    /// it, this call waits, for `timeout` at most.
    ///
    /// # Errors
    /// As [`QuorumLock::acquire`].
    ///
    /// # Cancel safety
    /// As [`QuorumLock::acquire`].
    pub async fn read(&self, timeout: Duration) -> Result<ReadGuard> {
        self.reads.acquire(timeout).await.map(ReadGuard)
    }

    /// Acquires the lock as the writer. While another owner holds the lock, this call waits, for
    /// `timeout` at most.
    ///
    /// # Errors
    /// As [`QuorumLock::acquire`].
    ///
    /// # Cancel safety
    /// As [`QuorumLock::acquire`].
    pub async fn write(&self, timeout: Duration) -> Result<WriteGuard> {
        let guard = self.writes.acquire(timeout).await?;
        Ok(WriteGuard { guard, reads: self.reads.clone() })
    }

    /// As [`read`](Self::read), with the timeout [`LockOptions::wait`]: 10 s by default.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Cancel safety
    /// As [`read`](Self::read).
    pub async fn read_default(&self) -> Result<ReadGuard> {
        self.read(self.reads.rules.wait).await
    }

    /// As [`write`](Self::write), with the timeout [`LockOptions::wait`]: 10 s by default.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    /// As [`write`](Self::write).
    pub async fn write_default(&self) -> Result<WriteGuard> {
        self.write(self.writes.rules.wait).await
    }

    /// Acquires the lock as a reader if no writer holds it, without waiting. `None` means that a
    /// writer holds the lock or is about to get it. An error means that the state of the lock is
    /// unknown.
    ///
    /// # Errors
    /// As [`QuorumLock::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`QuorumLock::try_acquire`].
    pub async fn try_read(&self) -> Result<Option<ReadGuard>> {
        Ok(self.reads.try_acquire().await?.map(ReadGuard))
    }

    /// Acquires the lock as the writer if it is free, without waiting. `None` means that another
    /// owner holds the lock or is about to get it. An error means that the state of the lock is
    /// unknown.
    ///
    /// # Errors
    /// As [`QuorumLock::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`QuorumLock::try_acquire`].
    pub async fn try_write(&self) -> Result<Option<WriteGuard>> {
        let guard = self.writes.try_acquire().await?;
        Ok(guard.map(|guard| WriteGuard { guard, reads: self.reads.clone() }))
    }

    /// Runs `body` while the lock is held as a reader, as [`QuorumLock::run`] does.
    ///
    /// # Errors
    /// As [`QuorumLock::run`].
    ///
    /// # Cancel safety
    /// As [`QuorumLock::run`].
    pub async fn run_read<F, Fut>(&self, timeout: Duration, body: F) -> Result<Fut::Output>
    where
        F: FnOnce(Lease) -> Fut,
        Fut: Future,
    {
        self.reads.run(timeout, body).await
    }

    /// As [`run_read`](Self::run_read), for a body that can fail: see [`QuorumLock::try_run`].
    ///
    /// # Errors
    /// As [`QuorumLock::try_run`].
    ///
    /// # Cancel safety
    /// As [`QuorumLock::try_run`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let prices = quorum.rw_lock("prices");
    /// let price = prices
    ///     .try_run_read(Duration::from_secs(5), |_| async {
    ///         let price: u32 = "42".parse()?;
    ///         Ok::<_, Box<dyn std::error::Error>>(price)
    ///     })
    ///     .await?;
    /// assert_eq!(price, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_run_read<F, Fut, T, E>(&self, timeout: Duration, body: F) -> Result<T, E>
    where
        F: FnOnce(Lease) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        self.reads.try_run(timeout, body).await
    }

    /// Runs `body` while the lock is held as the writer, as [`QuorumLock::run`] does.
    ///
    /// # Errors
    /// As [`QuorumLock::run`].
    ///
    /// # Cancel safety
    /// As [`QuorumLock::run`].
    pub async fn run_write<F, Fut>(&self, timeout: Duration, body: F) -> Result<Fut::Output>
    where
        F: FnOnce(Lease) -> Fut,
        Fut: Future,
    {
        self.writes.run(timeout, body).await
    }

    /// As [`run_write`](Self::run_write), for a body that can fail: see [`QuorumLock::try_run`].
    ///
    /// # Errors
    /// As [`QuorumLock::try_run`].
    ///
    /// # Cancel safety
    /// As [`QuorumLock::try_run`].
    pub async fn try_run_write<F, Fut, T, E>(&self, timeout: Duration, body: F) -> Result<T, E>
    where
        F: FnOnce(Lease) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        self.writes.try_run(timeout, body).await
    }
}

/// A [`QuorumRwLock`] held as a reader. The lock is renewed while this guard lives, and released
/// when the guard is dropped.
#[derive(Debug)]
#[must_use = "the lock is released when its guard is dropped"]
pub struct ReadGuard(LockGuard);

impl Deref for ReadGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}

impl ReadGuard {
    /// A view of the lock that can be shared. Keeping the view does not keep the lock.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.0.lease()
    }

    /// Releases the lock, as [`LockGuard::release`] does.
    ///
    /// # Errors
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    /// As [`LockGuard::release`].
    pub async fn release(self) -> Result<Released> {
        self.0.release().await
    }

    pub(super) fn into_guard(self) -> LockGuard {
        self.0
    }

    /// Always fails. A reader that becomes the writer would have to wait for all other readers, and
    /// two readers that do so would wait for each other for ever. Instead, release this guard and
    /// call [`write`](QuorumRwLock::write). Then read the data again, because it may have changed
    /// in between.
    ///
    /// # Errors
    /// Always `Config`. The lock stays held.
    pub fn upgrade(&self) -> Result<WriteGuard> {
        Err(Error::config(format!(
            "a reader of {:?} cannot become its writer: two readers that do so would wait for each other for ever; \
             release the reader, call write, and read the data again, which may have changed",
            self.name()
        )))
    }
}

/// A [`QuorumRwLock`] held as the writer. The lock is renewed while this guard lives, and released
/// when the guard is dropped.
#[derive(Debug)]
#[must_use = "the lock is released when its guard is dropped"]
pub struct WriteGuard {
    guard: LockGuard,
    reads: QuorumLock,
}

impl Deref for WriteGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.guard
    }
}

impl WriteGuard {
    /// A view of the lock that can be shared. Keeping the view does not keep the lock.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.guard.lease()
    }

    /// Releases the lock, as [`LockGuard::release`] does.
    ///
    /// # Errors
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    /// As [`LockGuard::release`].
    pub async fn release(self) -> Result<Released> {
        self.guard.release().await
    }

    pub(super) fn into_guard(self) -> LockGuard {
        self.guard
    }

    /// Turns the writer into a reader in one round trip. No other writer can get the lock in
    /// between. Waiting readers get the lock too, except readers behind a waiting writer. Until
    /// this call returns, clones of the writer's lease report that the writer holds the lock,
    /// although readers may hold it already.
    ///
    /// # Errors
    /// `Lost` if the writer was revoked, or if its validity ended before it became a reader:
    /// another writer may have got the lock. `Unavailable` or `Contended` if no quorum granted the
    /// reader's claim. After any error, the lock is released.
    ///
    /// # Cancel safety
    /// Safe: the lock is released in the background.
    pub async fn downgrade(self) -> Result<ReadGuard> {
        self.guard.ensure(Duration::ZERO)?;
        // Stop renewals: nodes that have granted the reader would answer `lost`.
        self.guard.hold_still();
        let reader = match self.reads.follow(&self.guard.predecessor()).await {
            Ok(reader) => reader,
            Err(error) => {
                if error.kind() == ErrorKind::Lost {
                    // If the deadline has passed, report the expiry: nodes also reply `lost` if a
                    // later holder has released the lock.
                    self.guard.ensure(Duration::ZERO)?;
                    // The reader's claim got `lost`. The writer's lease does not know of this, so
                    // end it here.
                    self.guard.revoked();
                }
                return Err(error);
            }
        };
        // The writer's votes kept others out until now. From now on, the reader's votes do.
        self.guard.ensure(Duration::ZERO)?;
        // Release the writer, in the background, for the nodes that did not grant the reader.
        drop(self.guard);
        Ok(ReadGuard(reader))
    }
}
