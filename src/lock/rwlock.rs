//! Many readers, or one writer.

use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use super::mutex::QuorumLock;
use super::quorum::Quorum;
use crate::config::LockOptions;
use crate::error::{Error, Result};
use crate::lease::{Lease, LockGuard, Released};

/// A lock on a name that many readers hold together, or one writer alone.
///
/// Whoever waits is served in the order in which it came: readers that come after a writer that
/// waits do not enter before it, and all readers that are first in line enter together. Each reader
/// has an expiry of its own on the nodes, so one that dies keeps a writer out for its own ttl only.
///
/// A writer is the same as the holder of [`Quorum::lock`] on the name: they exclude each other, and
/// both exclude readers. A reader costs what a lock costs, one round trip. Nodes hand the name over
/// to waiting readers and by their releases, as they do with locks.
///
/// # Tokens
/// A writer's token is greater than that of every writer and reader before it. A reader's token is
/// greater than those of all writers before it, and less than those of all writers after it: it
/// says which writer's work it sees. Tokens of readers are in no order among themselves, so storage
/// that refuses whatever is lower than the highest token it has seen would refuse readers that hold
/// the lock. Let it remember the highest token of a *writer*, and compare readers' tokens with
/// that.
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
    /// The reader-writer lock on `name`. A bad name is refused when it is first acquired.
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

    /// Acquires it as a reader, waiting for `timeout` at most: as long as a writer holds it, or one
    /// that came before waits.
    ///
    /// # Errors
    /// As [`QuorumLock::acquire`].
    ///
    /// # Cancel safety
    /// As [`QuorumLock::acquire`].
    pub async fn read(&self, timeout: Duration) -> Result<ReadGuard> {
        self.reads.acquire(timeout).await.map(ReadGuard)
    }

    /// Acquires it as the writer, waiting for `timeout` at most: as long as anybody holds it.
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

    /// Acquires it as a reader, waiting for as long as its options say: [`LockOptions::wait`], by
    /// default 10 s. All else is as with [`read`](Self::read).
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Cancel safety
    /// As [`read`](Self::read).
    pub async fn read_default(&self) -> Result<ReadGuard> {
        self.read(self.reads.rules().wait).await
    }

    /// Acquires it as the writer, waiting for as long as its options say: [`LockOptions::wait`], by
    /// default 10 s. All else is as with [`write`](Self::write).
    ///
    /// # Errors
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    /// As [`write`](Self::write).
    pub async fn write_default(&self) -> Result<WriteGuard> {
        self.write(self.writes.rules().wait).await
    }

    /// Acquires it as a reader if no writer has it, and waits for nobody. `None` means that a writer
    /// holds it or is about to; an error means that nobody can tell.
    ///
    /// # Errors
    /// As [`QuorumLock::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`QuorumLock::try_acquire`].
    pub async fn try_read(&self) -> Result<Option<ReadGuard>> {
        Ok(self.reads.try_acquire().await?.map(ReadGuard))
    }

    /// Acquires it as the writer if nobody has it, and waits for nobody. `None` means that somebody
    /// else holds it or is about to; an error means that nobody can tell.
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

    /// Runs `body` while it is held as a reader, as [`QuorumLock::run`] does.
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

    /// Runs `body` while it is held as the writer, as [`QuorumLock::run`] does.
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

/// A [`QuorumRwLock`] held as a reader. It is renewed as long as this lives, and released when it is
/// dropped.
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
    /// A view that can be given away; it does not keep the lock.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.0.lease()
    }

    /// Gives it up, as [`LockGuard::release`] does.
    ///
    /// # Errors
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    /// As [`LockGuard::release`].
    pub async fn release(self) -> Result<Released> {
        self.0.release().await
    }

    /// The lock's own guard, for work under it.
    pub(super) fn into_guard(self) -> LockGuard {
        self.0
    }

    /// Always refused: a reader that waits to be the writer waits for all other readers, and where
    /// two of them do so, each waits for the other for ever. Release this one, and
    /// [`write`](QuorumRwLock::write); what was read may have changed by then.
    ///
    /// # Errors
    /// `Config`, and nothing changes.
    pub fn upgrade(&self) -> Result<WriteGuard> {
        Err(Error::config(format!(
            "a reader of {:?} cannot become its writer: two readers that do so would wait for each other for ever; \
             release it, call write, and read again what may have changed",
            self.name()
        )))
    }
}

/// A [`QuorumRwLock`] held as the writer. It is renewed as long as this lives, and released when it
/// is dropped.
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
    /// A view that can be given away; it does not keep the lock.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.guard.lease()
    }

    /// Gives it up, as [`LockGuard::release`] does.
    ///
    /// # Errors
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    /// As [`LockGuard::release`].
    pub async fn release(self) -> Result<Released> {
        self.guard.release().await
    }

    /// The lock's own guard, for work under it.
    pub(super) fn into_guard(self) -> LockGuard {
        self.guard
    }

    /// Becomes a reader, without a moment in which another writer could enter. Readers that wait
    /// enter with it, except those behind a writer that waits. One round trip. Until it returns, clones
    /// of the writer's lease say that it is held, though readers may have entered.
    ///
    /// # Errors
    /// `Lost` if the writer's time ended before it was a reader: others may have been the writer
    /// since. `Unavailable` or `Contended` if no quorum made it a reader. Then the lock is released.
    ///
    /// # Cancel safety
    /// Safe: the lock is released in the background.
    pub async fn downgrade(self) -> Result<ReadGuard> {
        self.guard.ensure(Duration::ZERO)?;
        // A renewal would be told that the reader has it.
        self.guard.hold_still();
        let reader = self.reads.follow(&self.guard).await?;
        // Until then each node of its quorum kept others out, and from then on the reader's do.
        self.guard.ensure(Duration::ZERO)?;
        // What is left of the writer. It is given up on the other nodes, in the background.
        drop(self.guard);
        Ok(ReadGuard(reader))
    }
}
