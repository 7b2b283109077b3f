//! The lock itself.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::inner::Inner;
use super::owner::{Owner, Seat};
use super::scoped::under;
use crate::config::Rules;
use crate::error::{Error, ErrorKind, Result};
use crate::host::before;
use crate::lease::{Lease, LockGuard, WeakLease};
use crate::metrics::Ended;
use crate::node::Name;
use crate::protocol::{Claimant, Grant, Open, Patience};
use crate::rules::Tick;
use crate::words::listed;

/// A lock on a name, or on several, held by at most one at a time across all clients of the same
/// nodes.
///
/// Cheap to clone, `Send` and `Sync`. Every acquisition has an owner of its own: two tasks that use
/// the same `QuorumLock`, or clones of it, exclude each other. To hold a lock more than once, see
/// [`owned_by`](Self::owned_by) and [`LockGuard::reenter`].
#[derive(Clone)]
pub struct QuorumLock {
    inner: Arc<Inner>,
    names: Result<Arc<[Name]>, String>,
    rules: Arc<Rules>,
    owner: Option<Owner>,
}

impl QuorumLock {
    pub(super) fn new(inner: Arc<Inner>, names: Result<Arc<[Name]>>, rules: Arc<Rules>) -> Self {
        Self { inner, names: names.map_err(|error| error.to_string()), rules, owner: None }
    }

    /// The same lock, where `owner` acquires it: while it holds the lock, it may acquire it again,
    /// from anywhere in this process, and gets another guard at once. That costs a round trip, in
    /// which a quorum takes note of the hold count. The lock is freed with the last guard.
    ///
    /// It holds the lock once, with the options and the token with which it was acquired first. So
    /// if the lock is lost, all guards are, and the next acquisition is a new one, with a token of
    /// its own; guards from before stay lost. Of several callers of one owner that acquire at the
    /// same time one asks the nodes, and the others wait until it has the lock or gives up; a
    /// [`try_acquire`](Self::try_acquire) does so for a round's time at most.
    ///
    /// It is the same lock if its names are the same. A set that shares only some of them is
    /// another lock: an owner that holds one of two such sets waits for itself if it acquires the
    /// other.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// use quorumlock::Owner;
    /// use std::time::Duration;
    ///
    /// let owner = Owner::new();
    /// let lock = quorum.lock("orders/42").owned_by(&owner);
    /// let outer = lock.acquire(Duration::from_secs(5)).await?;
    /// let inner = lock.acquire(Duration::ZERO).await?;
    /// assert_eq!(outer.token(), inner.token());
    /// outer.release().await?;
    /// assert!(inner.is_held());
    /// # drop(inner);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    /// Acquires the lock, waiting for `timeout` at most.
    ///
    /// The wait never sets the ttl: a caller that waits for a second gets the whole ttl. A
    /// `timeout` of zero makes one try, and `Duration::MAX` waits for ever. One round of votes is
    /// always made whole once it is this caller's turn in this process, so a call may take up to
    /// the round timeout where `timeout` is shorter.
    ///
    /// # Errors
    /// `Timeout` if others held it until the time ended; `Unavailable` if too few nodes could vote
    /// at that time; `Config` for a bad name or outside of a Tokio runtime; `Closed` after a
    /// shutdown.
    ///
    /// # Cancel safety
    /// Safe at any point: what was granted is released in the background, and the place in the
    /// queue given up.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let lock = quorum.lock("orders/42");
    /// let guard = lock.acquire(Duration::from_secs(5)).await?;
    /// let late = lock.acquire(Duration::ZERO).await.unwrap_err();
    /// assert!(late.is_timeout());
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self, timeout: Duration) -> Result<LockGuard> {
        self.acquired(Patience::Until(self.inner.host.now() + timeout)).await
    }

    /// Acquires the lock, waiting for as long as its options say: [`LockOptions::wait`], by default
    /// 10 s. All else is as with [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Safe, as [`acquire`](Self::acquire).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// use quorumlock::Quorum;
    /// use std::time::Duration;
    ///
    /// let quorum = Quorum::builder().wait(Duration::from_millis(50)).in_memory(3)?;
    /// let lock = quorum.lock("orders/42");
    /// let guard = lock.acquire_default().await?;
    /// assert!(lock.acquire_default().await.unwrap_err().is_timeout()); // after 50 ms
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`LockOptions::wait`]: crate::LockOptions::wait
    pub async fn acquire_default(&self) -> Result<LockGuard> {
        self.acquire(self.rules.wait).await
    }

    /// Makes one try, and waits for nobody.
    ///
    /// `None` means that somebody else holds the lock or is about to; an error means that nobody
    /// can tell.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes could vote; `Config` for a bad name or outside of a Tokio
    /// runtime; `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// Safe: what was granted is released in the background.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        match self.acquired(Patience::Once).await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.is_contended() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acquires the lock, runs `body`, and releases it. The body is dropped the moment the lock is
    /// lost.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and `Lost` if the lock was lost before the body ended. A
    /// release that no quorum confirms is not an error here: the body's work was done while the
    /// lock was held.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the lock released in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let lock = quorum.lock("orders/42");
    /// let token = lock.run(Duration::from_secs(5), |lease| async move { lease.token() }).await?;
    /// # assert!(token > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F, Fut>(&self, timeout: Duration, body: F) -> Result<Fut::Output>
    where
        F: FnOnce(Lease) -> Fut,
        Fut: Future,
    {
        under(self.acquire(timeout).await?, body).await
    }

    /// As [`run`](Self::run), for a body that can fail: one `Result`, with the errors of both. The
    /// lock is released whatever the body comes to.
    ///
    /// # Errors
    /// As [`run`](Self::run), turned into the body's kind of error, and what the body returns.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the lock released in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let lock = quorum.lock("orders/42");
    /// let count = lock
    ///     .try_run(Duration::from_secs(5), |_| async {
    ///         let count: u32 = "42".parse()?;
    ///         Ok::<_, Box<dyn std::error::Error>>(count)
    ///     })
    ///     .await?;
    /// assert_eq!(count, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_run<F, Fut, T, E>(&self, timeout: Duration, body: F) -> Result<T, E>
    where
        F: FnOnce(Lease) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        self.run(timeout, body).await?
    }

    async fn acquired(&self, patience: Patience) -> Result<LockGuard> {
        match &self.owner {
            None => self.timed(patience).await,
            // Boxed: acquisitions without an owner need no room for it.
            Some(owner) => Box::pin(self.owned(owner, patience)).await,
        }
    }

    /// Enters it again where the owner holds it, or acquires it.
    async fn owned(&self, owner: &Owner, patience: Patience) -> Result<LockGuard> {
        self.inner.usable()?;
        let names = self.names.as_ref().map_err(Error::config)?;
        let seat = owner.seat((self.inner.number, names.clone()));
        let end = patience.end().unwrap_or_else(|| self.inner.host.now() + self.rules.round_timeout);
        loop {
            let mut last = self.seated(&seat, end, patience).await?;
            let Some(lease) = last.held() else {
                let guard = self.timed(patience).await?;
                *last = guard.downgrade();
                return Ok(guard);
            };
            // Others may enter at the same time.
            drop(last);
            match lease.reenter().await {
                Err(error) if error.is_lost() => {}
                entered => return entered,
            }
        }
    }

    /// Waits while another caller of the same owner acquires.
    async fn seated<'a>(
        &self,
        seat: &'a Seat,
        end: Tick,
        patience: Patience,
    ) -> Result<tokio::sync::MutexGuard<'a, WeakLease>> {
        tokio::select! {
            biased;
            () = self.inner.shut.cancelled() => Err(Error::closed()),
            seated = before(&self.inner.host, end, seat.lock()) => seated.ok_or_else(|| self.outwaited(patience)),
        }
    }

    fn outwaited(&self, patience: Patience) -> Error {
        let names = self.names.as_deref().map(listed).unwrap_or_default();
        let why = format!("cannot acquire {names}: another caller of the same owner is acquiring it still");
        Error::new(patience.out_of_time(), why)
    }

    async fn timed(&self, patience: Patience) -> Result<LockGuard> {
        self.inner.usable()?;
        let mut timing = Timing { inner: &self.inner, since: self.inner.host.now(), outcome: Ended::Cancelled };
        let won = tokio::select! {
            biased;
            () = self.inner.shut.cancelled() => None,
            won = self.try_until(patience) => Some(won),
        };
        let acquired = won.unwrap_or_else(|| Err(Error::closed())).and_then(|won| self.hold(won));
        timing.outcome = match &acquired {
            Ok(_) => Ended::Acquired,
            Err(error) => outcome(error.kind()),
        };
        acquired
    }

    /// Holds what was won. A lock that was won while the quorum shut down may have come too late to
    /// be lost with the others: it is released, and the shutdown waits until that has been sent.
    fn hold(&self, (grant, open): (Grant, Open)) -> Result<LockGuard> {
        let guard = LockGuard::new(&self.inner.leases, &self.rules, grant);
        if self.inner.shut.is_cancelled() {
            drop(guard);
            drop(open);
            return Err(Error::closed());
        }
        Ok(guard)
    }

    async fn try_until(&self, patience: Patience) -> Result<(Grant, Open)> {
        let names = self.names.as_ref().map_err(Error::config)?;
        let leases = &self.inner.leases;
        let (voters, queue, shut) = (&leases.voters, &self.inner.queue, &self.inner.shut);
        let claimant = Claimant { voters, queue, names, rules: &self.rules, shut };
        claimant.acquire(patience).await
    }
}

impl fmt::Debug for QuorumLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumLock").field("names", &self.names).field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// An acquisition's latency, recorded however it ends.
struct Timing<'a> {
    inner: &'a Inner,
    since: Tick,
    outcome: Ended,
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        self.inner.leases.voters.meters.acquire(self.outcome, self.inner.host.now().since(self.since));
    }
}

const fn outcome(kind: ErrorKind) -> Ended {
    match kind {
        ErrorKind::Contended => Ended::Contended,
        ErrorKind::Timeout => Ended::Timeout,
        ErrorKind::Unavailable => Ended::Unavailable,
        _ => Ended::Error,
    }
}
