//! A session: one lease that owns many locks.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::inner::Inner;
use super::sessions::Core;
use crate::error::{Error, NodeReport, Result};
use crate::lease::{Released, ensured};
use crate::protocol::Patience;
use crate::rules::LostReason;
use crate::words::listed;

tokio::task_local! {
    static CURRENT: Session;
}

/// A lease that owns locks: up to [`MAX_SESSION_NAMES`](crate::MAX_SESSION_NAMES) names, which are
/// renewed together and lost together. Cheap to clone, `Send` and `Sync`.
///
/// [`lock`](Self::lock) and [`try_lock`](Self::try_lock) add locks, and [`unlock`](Self::unlock)
/// frees them. [`revoke`](Self::revoke) frees all locks and returns the result. Dropping the last
/// handle also sends the releases, but waits for nothing. The locks exclude locks on the same names
/// of other sessions, of [`Quorum::lock`](crate::Quorum::lock) and of
/// [`Quorum::lock_all`](crate::Quorum::lock_all).
///
/// **A session is lost as a whole.** If one of its locks is taken away, or is not renewed by a
/// quorum in time, the session is lost for good: begin a new one. After the loss, each of its locks
/// keeps others out until the lock's own deadline, or until the last handle is dropped or
/// [`revoke`](Self::revoke) is called. A session without locks is not lost, however long nodes are
/// unreachable.
///
/// If the validity of a new lock ends before this process can add the lock, the lock is released,
/// and the session goes on. If only little validity is left, the lock is added, and renewed soon.
/// If this renewal fails, the session is lost, as with any other renewal.
///
/// All locks of a session are renewed together: 10,000 names take at most 80 calls per node.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> quorumlock::Result<()> {
/// use quorumlock::Quorum;
/// use std::time::Duration;
///
/// let second = Duration::from_secs(1);
/// let quorum = Quorum::in_memory(3)?;
/// let session = quorum.session().ttl(10 * second).grant(5 * second).await?;
/// session.lock(["chunk/1", "chunk/2"], 5 * second).await?;
/// session.try_lock(["chunk/7"]).await?;
/// let token = session.token("chunk/7").expect("it is held");
/// assert!(token > session.token("chunk/1").unwrap());
///
/// // The error of another session names the holders.
/// let other = quorum.session().grant(5 * second).await?;
/// let refused = other.try_lock(["chunk/7", "chunk/8"]).await.unwrap_err();
/// assert!(refused.is_contended() && &*refused.conflicts()[0].name == "chunk/7");
///
/// session.unlock(["chunk/7"]).await?;
/// session.ensure(second)?;
/// session.revoke().await?;
/// other.lock(["chunk/1", "chunk/7"], 5 * second).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Session {
    pub(super) inner: Arc<Inner>,
    pub(super) core: Arc<Core>,
}

impl Session {
    /// The session's id. With this id, other code of the same process gets a handle of the session
    /// by [`Quorum::join_session`](crate::Quorum::join_session) of the same quorum. Nodes and other
    /// processes do not use this id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.core.id
    }

    /// Acquires all of `names`, or none. Waits for `timeout` at most. One call takes 1 to
    /// [`MAX_NAMES`](crate::MAX_NAMES) names. `timeout` works as for
    /// [`QuorumLock::acquire`](crate::QuorumLock::acquire).
    ///
    /// Names that the session holds are not claimed again. (If another caller unlocks such a name
    /// during the call, the name is not held when the call returns.) All other names are acquired
    /// as by [`Quorum::lock_all`](crate::Quorum::lock_all): in one round trip if all are free, else
    /// in sorted order. The new names get one token, greater than every earlier token of these
    /// names. Callers of one session that acquire the same name wait for each other's result.
    ///
    /// If two sessions each hold a name and wait for a name of the other, they wait until a
    /// `timeout` ends. So take all names in one call, or use short timeouts.
    ///
    /// # Errors
    /// `Timeout` if others held some of the names until `timeout` ended. The error lists [the held
    /// names with their holders](Error::conflicts), if nodes name them within the round timeout.
    /// `Unavailable` if too few nodes could vote; `Lost` if the session has ended or ends during
    /// the call; `Config` for bad names, no name or too many names, or outside of a Tokio runtime;
    /// `Closed` after a shutdown. Names that the session held before the call stay held, unless the
    /// session is lost.
    ///
    /// # Cancel safety
    /// Safe: granted names are released in the background.
    pub async fn lock(&self, names: impl IntoIterator<Item = impl AsRef<str>>, timeout: Duration) -> Result<()> {
        let names = self.inner.names(names)?;
        self.acquire(&names, Patience::Until(self.inner.host.now() + timeout)).await
    }

    /// Acquires all of `names` if others hold none of them, else acquires none. Does not wait for
    /// holders. If votes are split, this call tries again, as
    /// [`try_acquire`](crate::QuorumLock::try_acquire) does.
    ///
    /// # Errors
    /// `Contended` if others hold some of the names, or are about to get them; otherwise as for
    /// [`lock`](Self::lock).
    ///
    /// # Cancel safety
    /// Safe: granted names are released in the background.
    pub async fn try_lock(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<()> {
        let names = self.inner.names(names)?;
        let until = self.inner.host.now() + self.core.rules.longest_try();
        self.acquire(&names, Patience::Try(until)).await
    }

    /// Releases these names. Other names that were locked in the same call stay held. Waits until a
    /// quorum of nodes has confirmed.
    ///
    /// # Errors
    /// `Config` if the session does not hold all of these names, or for no name: nothing is
    /// released. `Lost` if the session has ended, and all its locks with it. `Unavailable` if too
    /// few nodes answered in time: the names are no longer held, and the release goes on in the
    /// background.
    ///
    /// # Cancel safety
    /// Safe: the first poll sends the release, which goes on in the background.
    pub async fn unlock(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Released> {
        let names = names.into_iter().map(|name| self.inner.name(name.as_ref())).collect::<Result<BTreeSet<_>>>()?;
        let names: Vec<_> = names.into_iter().collect();
        if names.is_empty() {
            return Err(Error::config("there is no name to unlock; use revoke to free all names"));
        }
        let freeing = self.core.locks.free(&names)?;
        self.inner.leases.confirmed(&freeing, self.core.locks.round_timeout(), || listed(&names)).await
    }

    /// The held names, sorted, each with its fencing token. A name's token is greater than the
    /// token of every earlier holder of the name. Storage that refuses tokens below the highest
    /// seen token is safe even from a holder that was paused and did not notice the loss of its
    /// lock.
    ///
    /// With a [`key_format`](crate::QuorumBuilder::key_format), the names are returned without the
    /// format, as [`unlock`](Self::unlock) takes them. After the end of the session, the list is
    /// empty.
    #[must_use]
    pub fn held(&self) -> Vec<(Arc<str>, u64)> {
        let tokens: Vec<_> = self.core.locks.tokens();
        let told = |(name, token)| Some((self.inner.settings.told(&name)?, token));
        let mut held: Vec<_> = tokens.into_iter().filter_map(told).collect();
        // `tokens` is in the order of the names with the key format. Without the format, their
        // order may differ.
        held.sort_unstable();
        held
    }

    /// The fencing token of `name`; `None` if the session does not hold this name.
    #[must_use]
    pub fn token(&self, name: &str) -> Option<u64> {
        self.core.locks.token(&self.inner.name(name).ok()?)
    }

    /// The owner that nodes store for `name`, if the session holds it: for simulations.
    #[cfg(feature = "unstable")]
    #[doc(hidden)]
    #[must_use]
    pub fn owner(&self, name: &str) -> Option<String> {
        self.core.locks.owner(&self.inner.name(name).ok()?)
    }

    /// Ends the session for all handles. Releases all locks, and waits until a quorum has
    /// confirmed.
    ///
    /// Returns `AlreadyExpired` if the session was lost, or if a quorum no longer held one of the
    /// locks: others may have held the name of this lock after its deadline. All other locks are
    /// released.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time. You need not try again: the releases go on
    /// in the background. On nodes that they do not reach, the holds expire.
    ///
    /// # Cancel safety
    /// Safe: the first poll sends the releases, which go on in the background.
    pub async fn revoke(&self) -> Result<Released> {
        let locks = &self.core.locks;
        match locks.release() {
            Some(freeing) => {
                let what = || "all locks of a session".to_owned();
                self.inner.leases.confirmed(&freeing, locks.round_timeout(), what).await
            }
            None if locks.why_lost().is_some() => Ok(Released::AlreadyExpired),
            None => Ok(Released::Released),
        }
    }

    /// The remaining validity of the lock that ends first; if the session has no lock, the validity
    /// of a new lock; zero if the session has ended. The validity counts from just before the
    /// request to the nodes was sent, and the drift is subtracted.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.core.locks.remaining()
    }

    /// Whether the session lives now, and so holds all its locks. Never true after the deadline of
    /// a lock, even if timers are late.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Checks that all locks are held for at least `least` from now. Call this before a write that
    /// may take that long.
    ///
    /// # Errors
    /// `Lost` if a lock is not held for that long.
    pub fn ensure(&self, least: Duration) -> Result<()> {
        let held = || "the session's locks are".to_owned();
        ensured(self.remaining(), least, || self.core.locks.lost_error(), held)
    }

    /// Waits until the session is lost. Never ends if the session is revoked first. This call
    /// watches the deadlines itself, as [`Lease::lost`](crate::Lease::lost) does.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LostReason {
        self.core.locks.until_lost().await
    }

    /// Waits until the session has ended. Returns why it was lost, or `None` if it was revoked.
    #[cfg(feature = "blocking")]
    pub(crate) async fn outcome(&self) -> Option<LostReason> {
        self.core.locks.outcome().await
    }

    /// Returns an error if the session is lost, but not if it was revoked.
    pub(crate) fn not_lost(&self) -> Result<()> {
        match self.core.locks.why_lost() {
            Some(_) => Err(self.core.locks.lost_error()),
            None => Ok(()),
        }
    }

    /// Ends the session for all its handles, and does not wait for the nodes.
    #[cfg(feature = "blocking")]
    pub(crate) fn end(&self) {
        drop(self.core.locks.release());
    }

    /// A `CancellationToken` that is cancelled when the session is lost, but not when it is
    /// revoked. See [`Lease::cancellation`](crate::Lease::cancellation).
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.core.locks.cancellation()
    }

    /// The nodes' replies to the last renewal if it failed; empty if it succeeded or none was sent
    /// yet.
    #[must_use]
    pub fn failed_renewal(&self) -> Vec<NodeReport> {
        self.core.locks.failed_renewal()
    }

    /// Runs `body` with this session as the [current](Self::current) session, for code that does
    /// not get the session as an argument. Tasks that `body` spawns have no current session.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// use quorumlock::Session;
    /// use std::time::Duration;
    ///
    /// async fn below() -> quorumlock::Result<()> {
    ///     let session = Session::current().expect("called within a scope");
    ///     session.lock(["orders/42"], Duration::from_secs(5)).await
    /// }
    ///
    /// let session = quorum.session().grant(Duration::from_secs(5)).await?;
    /// session.scope(below()).await?;
    /// assert!(session.token("orders/42").is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn scope<F: Future>(&self, body: F) -> F::Output {
        CURRENT.scope(self.clone(), body).await
    }

    /// The session of the innermost [`scope`](Self::scope) around this call, if any.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id()).field("remaining", &self.remaining()).finish_non_exhaustive()
    }
}
