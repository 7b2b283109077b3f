//! The lock on one name or several.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::inner::Inner;
use super::owner::{Owner, Seat};
use super::scoped::under;
use crate::config::Rules;
use crate::error::{Error, Result};
use crate::host::before;
use crate::lease::{Lease, LockGuard, WeakLease};
use crate::node::{Mode, Name, Predecessor};
use crate::protocol::{ClaimKind, Claimant, Grant, Open, Patience, fetch_note};
use crate::rules::Tick;
use crate::words::{about, listed};

/// A lock on one name or several. It has at most one holder across all clients of the same nodes.
///
/// Cheap to clone, `Send` and `Sync`. Every acquisition has an owner of its own: two tasks that use
/// the same `QuorumLock`, or clones of it, exclude each other. To get several guards of one held
/// lock, see [`owned_by`](Self::owned_by) and [`LockGuard::reenter`].
#[derive(Clone)]
pub struct QuorumLock {
    inner: Arc<Inner>,
    pub(super) names: Result<Arc<[Name]>, String>,
    mode: Mode,
    pub(super) rules: Arc<Rules>,
    /// The text that the holder publishes: a note, or a leader's value.
    says: Option<Arc<str>>,
    owner: Option<Owner>,
}

/// How long a call that has failed waits for the nodes' reports on which owner holds which name.
const EXPLAINING: Duration = Duration::from_millis(500);

/// The longest note of a holder, in bytes.
pub const MAX_NOTE: usize = 256;

impl QuorumLock {
    pub(super) fn new(inner: Arc<Inner>, names: Result<Arc<[Name]>>, rules: Arc<Rules>) -> Self {
        let names = names.map_err(|error| error.to_string());
        Self { inner, names, mode: Mode::Exclusive, rules, says: None, owner: None }
    }

    /// The same names, acquired as a reader.
    pub(super) fn shared(&self) -> Self {
        Self { mode: Mode::Shared, ..self.clone() }
    }

    /// The same names, acquired as a reader: for simulations.
    #[cfg(feature = "unstable")]
    #[doc(hidden)]
    #[must_use]
    pub fn as_reader(&self) -> Self {
        self.shared()
    }

    /// The same lock, but its holder publishes a text: a note or a value, which is `says` at first.
    pub(super) fn saying(self, says: Arc<str>) -> Self {
        Self { says: Some(says), ..self }
    }

    pub(super) fn first(&self) -> Result<(Arc<Inner>, Name)> {
        let names = self.names.as_ref().map_err(Error::config)?;
        Ok((self.inner.clone(), names[0].clone()))
    }

    /// The same lock with a note, such as `"deploy #812"`: up to [`MAX_NOTE`] bytes without control
    /// characters. A bad note is refused at the first acquisition.
    ///
    /// The nodes keep the note while the lock is held. [`Quorum::inspect`](crate::Quorum::inspect)
    /// and `quorumlock status` show the note, and how long the lock has been held. If another
    /// caller's timeout ends, its error has the note ([`Error::holder_says`]). Fetching the note
    /// takes up to 500 ms more.
    ///
    /// The note is for people. Each renewal carries the note, and the first renewal is sent right
    /// after the acquisition. The acquisition does not wait for the replies to this renewal. If a
    /// node cannot store the note, nothing fails.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let lock = quorum.lock("prod").describe("deploy #812");
    /// let guard = lock.acquire(Duration::from_secs(5)).await?;
    /// let late = quorum.lock("prod").acquire(Duration::ZERO).await.unwrap_err();
    /// assert_eq!(late.holder_says(), Some("deploy #812"));
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn describe(&self, note: impl AsRef<str>) -> Self {
        let note = note.as_ref();
        let names = self.names.clone().and_then(|names| noted(note).map(|()| names));
        Self { names, says: Some(note.into()), ..self.clone() }
    }

    /// The same lock, acquired by `owner`. An owner that holds the lock may acquire it again, from
    /// anywhere in this process, and gets another guard at once, without a request to nodes. The
    /// nodes get the number of guards with the next renewal. The lock is freed when its last guard
    /// is dropped.
    ///
    /// All these guards share one lock, with the options and the token of the first acquisition. If
    /// the lock is lost, all its guards are lost for good. The owner's next acquisition gets a new
    /// token, but waits until the lost guards are dropped, or until their deadline. So while an
    /// outer function keeps a lost guard, an inner function that acquires the lock waits.
    ///
    /// If several callers of one owner acquire the lock at the same time, one of them asks the
    /// nodes. The others wait until that caller has the lock or gives up. A
    /// [`try_acquire`](Self::try_acquire) waits for a round timeout at most.
    ///
    /// Two locks count as the same lock only if they have exactly the same names. So an owner that
    /// holds a set of names, and acquires another set with one of these names, waits for itself.
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
    /// The wait does not shorten the ttl. With a `timeout` of zero the call is a try, and with
    /// `Duration::MAX` it waits for ever.
    ///
    /// A call may take longer than `timeout` in two cases. First, when it is this caller's turn
    /// among the callers of this process, the call makes one whole round of votes, for up to the
    /// round timeout. If `timeout` ends during this round, the call goes on as a
    /// [try](Self::try_acquire). Second, a call that fails takes up to 500 ms more if the holder
    /// has a [note](Self::describe), or if the lock has several names. In this time, the call
    /// fetches the note, or [the held names](Error::conflicts), for the error.
    ///
    /// # Errors
    /// `Timeout` if others held the lock until `timeout` ended. `Unavailable` if too few nodes
    /// could vote before `timeout` ended, or if the votes of a try stayed split. `Contended` if too
    /// many callers of this process wait ([`max_callers`](crate::QuorumBuilder::max_callers));
    /// `Config` for a bad name or outside of a Tokio runtime; `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// Safe: a granted lock is released in the background, and the place in the queue is given up.
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
        match self.acquired(Patience::Until(self.inner.host.now() + timeout)).await {
            Err(error) if error.is_timeout() => Err(self.explained(error).await),
            Err(error) if error.holder().is_some() => Err(self.with_words(error).await),
            acquired => acquired,
        }
    }

    /// Adds the holder's note to the error. If the lock has several names, also adds which of them
    /// are held.
    async fn explained(&self, error: Error) -> Error {
        let error = match &self.names {
            Ok(names) if names.len() > 1 => {
                self.inner.explained(names, error, self.rules.round_timeout.min(EXPLAINING)).await
            }
            _ => error,
        };
        self.with_words(error).await
    }

    /// Adds the holder's note to the error, if a node reports it in time.
    async fn with_words(&self, error: Error) -> Error {
        let (Some(holder), Ok(names)) = (error.holder(), &self.names) else { return error };
        match fetch_note(&self.inner.leases.voters, names, holder).await {
            Some(told) if !told.says.is_empty() => error.with_words(shortened(&told.says), &about(told.since)),
            _ => error,
        }
    }

    /// As [`acquire`](Self::acquire), with the timeout [`LockOptions::wait`]: 10 s by default.
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

    /// Acquires the lock if it is free. Does not wait for a holder.
    ///
    /// `None` means that another owner holds the lock: a quorum of nodes names one holder, which
    /// may have got the lock just now. `None` can also mean that an earlier caller of this process
    /// holds the lock or waits for it. An error means that it is unknown which owner holds the
    /// lock. If several callers try at the same moment, they may split the votes, so that none has
    /// a quorum. In this case each caller releases its votes, and tries again after a random pause,
    /// for two round timeouts at most (4 s by default).
    ///
    /// # Errors
    /// `Unavailable` if too few nodes could vote, or if the votes stayed split; `Config` for a bad
    /// name or outside of a Tokio runtime; `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// Safe: a granted lock is released in the background.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        self.try_until(self.inner.host.now() + self.rules.longest_try()).await
    }

    /// As `try_acquire`, but if votes are split, tries again until `until`.
    pub(super) async fn try_until(&self, until: Tick) -> Result<Option<LockGuard>> {
        match self.acquired(Patience::Try(until)).await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.is_contended() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acquires the lock, runs `body`, and releases the lock. If the lock is lost, drops the body.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and `Lost` if the lock was lost before the body ended. If no
    /// quorum confirms the release, the log has a warning, but the call succeeds: the body ran
    /// while the lock was held.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the lock is released in the background.
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

    /// As [`run`](Self::run), for a body that can fail. Returns one `Result`, with the errors of
    /// `run` and of the body. The lock is released whatever the body returns.
    ///
    /// # Errors
    /// Those of [`run`](Self::run), converted to the body's error type, and the body's own.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the lock is released in the background.
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
            None => self.timed(patience, ClaimKind::Next(self.mode)).await,
            // Boxed, so that the futures of acquisitions without an `Owner` stay small.
            Some(owner) => Box::pin(self.owned(owner, patience)).await,
        }
    }

    /// If the owner holds the lock, adds a guard. Otherwise acquires the lock.
    async fn owned(&self, owner: &Owner, patience: Patience) -> Result<LockGuard> {
        self.inner.usable()?;
        let names = self.names.as_ref().map_err(Error::config)?;
        let seat = owner.seat((self.inner.number, names.clone()));
        let end = patience.end().unwrap_or_else(|| self.inner.host.now() + self.rules.round_timeout);
        loop {
            let mut last = self.seated(&seat, end, patience).await?;
            let Some(lease) = last.held() else {
                let guard = self.timed(patience, ClaimKind::Next(self.mode)).await?;
                *last = guard.downgrade();
                return Ok(guard);
            };
            // Unlock first, so that other callers of the owner can reenter at the same time.
            drop(last);
            match lease.reenter() {
                Err(error) if error.is_lost() => {}
                entered => return entered,
            }
        }
    }

    /// Waits while another caller of the same owner acquires the lock.
    async fn seated<'a>(
        &self,
        seat: &'a Seat,
        end: Tick,
        patience: Patience,
    ) -> Result<tokio::sync::MutexGuard<'a, WeakLease>> {
        tokio::select! {
            biased;
            () = self.inner.shut.cancelled() => Err(self.inner.closed()),
            seated = before(&self.inner.host, end, seat.lock()) => seated.ok_or_else(|| self.outwaited(patience)),
        }
    }

    fn outwaited(&self, patience: Patience) -> Error {
        let names = self.names.as_deref().map(listed).unwrap_or_default();
        let why = format!("cannot acquire {names}: another caller of the same owner is still acquiring it");
        Error::new(patience.out_of_time(), why)
    }

    /// Tries once to take over this lock.
    pub(super) async fn follow(&self, lock: &Predecessor) -> Result<LockGuard> {
        self.timed(Patience::Once, ClaimKind::Follows(self.mode, lock)).await
    }

    async fn timed(&self, patience: Patience, who: ClaimKind<'_>) -> Result<LockGuard> {
        let may_have_note = self.says.is_some();
        let claimant = |names| Claimant { may_have_note, ..self.inner.claimant(names, &self.rules, who) };
        let all = self.names.as_ref().map(claimant).map_err(Error::config);
        self.inner.acquire(all, &self.rules, patience, |grant, open| self.hold(grant, open)).await
    }

    fn hold(&self, grant: Grant, open: Open) -> Result<LockGuard> {
        let guard = LockGuard::new(&self.inner.leases, &self.rules, grant, self.says.as_ref());
        self.inner.unless_shut(guard, open, LockGuard::give_back)
    }
}

impl fmt::Debug for QuorumLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumLock").field("names", &self.names).field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// Cuts a leader's value to the length of a note.
fn shortened(says: &str) -> &str {
    let end = (0..=MAX_NOTE.min(says.len())).rev().find(|&end| says.is_char_boundary(end));
    &says[..end.unwrap_or(0)]
}

/// Returns an error unless the note is valid.
fn noted(note: &str) -> Result<(), String> {
    if note.len() > MAX_NOTE {
        return Err(format!("a note has {} bytes; use at most {MAX_NOTE}", note.len()));
    }
    match note.chars().find(|character| character.is_control()) {
        Some(control) => Err(format!("a note contains the control character {control:?}; remove it")),
        None => Ok(()),
    }
}
