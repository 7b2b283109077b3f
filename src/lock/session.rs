//! A session: one lease that owns many locks.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::inner::Inner;
use super::sessions::Core;
use crate::config::Rules;
use crate::error::{Error, ErrorKind, NodeReport, Result};
use crate::lease::{Locks, Released};
use crate::node::Listener;
use crate::protocol::Patience;
use crate::rules::LostReason;
use crate::words::{about, exact, listed};

tokio::task_local! {
    static CURRENT: Session;
}

/// A lease that owns locks: up to [`MAX_SESSION_NAMES`](crate::MAX_SESSION_NAMES) names, which are
/// renewed together and lost together. Cheap to clone, `Send` and `Sync`.
///
/// Locks are added by [`lock`](Self::lock) and [`try_lock`](Self::try_lock) and given up by
/// [`unlock`](Self::unlock), or all at once: by [`revoke`](Self::revoke), or with the last handle
/// (which sends the releases and waits for nothing: prefer `revoke`, which tells what came of them).
/// They exclude [`Quorum::lock`](crate::Quorum::lock) and
/// [`Quorum::lock_all`](crate::Quorum::lock_all) on the same names, and all other sessions.
///
/// **It is lost as a whole.** As soon as one of its locks is lost (it was taken away, or no quorum
/// of nodes renewed it in time), the session is, and nothing brings it back. Its locks keep others
/// out until the last handle is dropped, or [`revoke`](Self::revoke), and each until its own deadline
/// at most. Take a new session then. Without locks, nothing of it can be lost, however long nodes
/// are away.
///
/// A lock whose time is over before this process takes note of its grant is not added: it is given
/// back, and the session goes on. One that has little time left is added, and renewed soon. That
/// renewal counts as any other: if it does not come in time, the session is lost with that lock.
///
/// All its locks are renewed at the same moment, in as few script calls as they fit into: 10,000
/// names in at most 80 for each node.
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
/// // Somebody else is told what is held, and by whom.
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
    pub(super) fn begin(inner: Arc<Inner>, rules: Arc<Rules>, locks: Arc<Locks>) -> Self {
        let core = inner.sessions.add(inner.leases.voters.hints.client(), rules, locks);
        Self { inner, core }
    }

    pub(super) fn join(inner: Arc<Inner>, id: &str) -> Option<Self> {
        let core = inner.sessions.find(id)?;
        Some(Self { inner, core })
    }

    /// By this, other code of the same process finds the session:
    /// [`Quorum::join_session`](crate::Quorum::join_session) on the same quorum. It says nothing to
    /// nodes and to other processes.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.core.id
    }

    /// Acquires all of `names`, or none, waiting for `timeout` at most; 1 to
    /// [`MAX_NAMES`](crate::MAX_NAMES) in one call. `timeout` is as for
    /// [`QuorumLock::acquire`](crate::QuorumLock::acquire).
    ///
    /// Names that the session holds already are held, and nodes are not asked for them: one that
    /// another caller unlocks while this waits for the others is not held in the end. The others are
    /// acquired as those of [`Quorum::lock_all`](crate::Quorum::lock_all): in one round trip if all of
    /// them are free, else in one order, waiting for one at a time. They have one token, greater than
    /// each that was dealt before for any of them. Callers of one session that ask for the same name
    /// wait for each other's result.
    ///
    /// Who holds some names and waits for others may wait for somebody who waits for it, until the
    /// `timeout` of one of them ends. Take all names in one call, or use short timeouts.
    ///
    /// # Errors
    /// `Timeout` if others held some of them until the time ended; it
    /// [names which, and by whom](Error::conflicts), as far as a quorum of nodes says so within the
    /// round timeout. `Unavailable` if too few nodes could vote; `Lost` if the session has ended or
    /// ends meanwhile; `Config` for bad names, none, too many, or outside of a Tokio runtime;
    /// `Closed` after a shutdown. What was held before is held still, unless the session is lost.
    ///
    /// # Cancel safety
    /// Safe: what was granted is released in the background.
    pub async fn lock(&self, names: impl IntoIterator<Item = impl AsRef<str>>, timeout: Duration) -> Result<()> {
        let names = self.inner.names(names)?;
        self.acquire(&names, Patience::Until(self.inner.host.now() + timeout)).await
    }

    /// Acquires all of `names` if nobody has any of them, else none, and waits for nobody. Where
    /// votes are split it tries again, as [`try_acquire`](crate::QuorumLock::try_acquire) does.
    ///
    /// # Errors
    /// `Contended` if others hold some of them, or are about to; else as for [`lock`](Self::lock).
    ///
    /// # Cancel safety
    /// Safe: what was granted is released in the background.
    pub async fn try_lock(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<()> {
        let names = self.inner.names(names)?;
        let until = self.inner.host.now() + self.core.rules.longest_try();
        self.acquire(&names, Patience::Try(until)).await
    }

    /// Gives these names up, also where they were locked together with others, which stay. Waits
    /// until a quorum of nodes has confirmed it.
    ///
    /// # Errors
    /// `Config` if the session does not hold one of them, or for none: then nothing was freed.
    /// `Lost` if the session has ended, and all its locks with it. `Unavailable` if too few nodes
    /// answered in time: they are not held any more, and the release goes on in the background.
    ///
    /// # Cancel safety
    /// Safe: the release has been sent when this is first polled, and goes on in the background.
    pub async fn unlock(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Released> {
        let names = names.into_iter().map(|name| self.inner.name(name.as_ref())).collect::<Result<BTreeSet<_>>>()?;
        let names: Vec<_> = names.into_iter().collect();
        if names.is_empty() {
            return Err(Error::config("nothing was named to unlock; use revoke to give up all"));
        }
        let freeing = self.core.locks.free(&names)?;
        self.inner.confirmed(&freeing, self.core.locks.round_timeout(), || listed(&names)).await
    }

    /// The names that are held, in their order, each with its fencing token: greater than that of
    /// everyone who held it before. Storage that refuses a token lower than the highest it has seen
    /// is safe even from a holder that was paused and does not know that its lock has passed on.
    ///
    /// With a [`key_format`](crate::QuorumBuilder::key_format) they are told as they were given, as
    /// [`unlock`](Self::unlock) takes them. Empty once the session has ended.
    #[must_use]
    pub fn held(&self) -> Vec<(Arc<str>, u64)> {
        let tokens: Vec<_> = self.core.locks.tokens();
        let told = |(name, token)| Some((self.inner.settings.told(&name)?, token));
        let mut held: Vec<_> = tokens.into_iter().filter_map(told).collect();
        // What a format has after the names may have put them in another order.
        held.sort_unstable();
        held
    }

    /// The fencing token of `name`; `None` where the session does not hold it.
    #[must_use]
    pub fn token(&self, name: &str) -> Option<u64> {
        self.core.locks.token(&self.inner.name(name).ok()?)
    }

    /// Whose `name` is on the nodes, where the session holds it: for simulations.
    #[cfg(feature = "unstable")]
    #[doc(hidden)]
    #[must_use]
    pub fn owner(&self, name: &str) -> Option<String> {
        self.core.locks.owner(&self.inner.name(name).ok()?)
    }

    /// Ends the session for all its handles: frees all locks, on every node, and waits until a
    /// quorum has confirmed that.
    ///
    /// `AlreadyExpired` if the session was lost before, or one of its locks was and nobody had
    /// noticed yet: others may have held that name since its deadline. What is left is freed.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time. The releases go on in the background, and
    /// what they do not reach expires by itself; nothing needs to be done again.
    ///
    /// # Cancel safety
    /// Safe: the releases have been sent when this is first polled, and go on in the background.
    pub async fn revoke(&self) -> Result<Released> {
        let locks = &self.core.locks;
        match locks.release() {
            Some(freeing) => {
                self.inner.confirmed(&freeing, locks.round_timeout(), || "all locks of a session".to_owned()).await
            }
            None if locks.why_lost().is_some() => Ok(Released::AlreadyExpired),
            None => Ok(Released::Released),
        }
    }

    /// What is left of the validity of the lock that ends first; zero once the session has ended.
    /// Without locks it is what a new one would have. It is counted from before the nodes were
    /// asked, minus the drift.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.core.locks.remaining()
    }

    /// Whether the session lives at this moment, and so holds all its locks. Never true past the
    /// deadline of one of them, whatever timers do.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Checks that all locks are held for at least `least` from now: before a write that takes so
    /// long.
    ///
    /// # Errors
    /// `Lost` if they are not.
    pub fn ensure(&self, least: Duration) -> Result<()> {
        let remaining = self.remaining();
        if remaining.is_zero() {
            return Err(self.core.locks.lost_error());
        }
        if remaining < least {
            let message =
                format!("the session's locks are held for {} more, less than {}", about(remaining), exact(least));
            return Err(Error::new(ErrorKind::Lost, message));
        }
        Ok(())
    }

    /// Waits until the session is lost. Never ends if it is revoked first. It watches deadlines
    /// itself, as [`Lease::lost`](crate::Lease::lost) does.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LostReason {
        self.core.locks.until_lost().await
    }

    /// Waits until the session is over: why it was lost, or `None` where it was revoked.
    #[cfg(feature = "blocking")]
    pub(crate) async fn outcome(&self) -> Option<LostReason> {
        self.core.locks.outcome().await
    }

    /// An error if the session is lost, and none if it lives or was revoked.
    #[cfg(feature = "blocking")]
    pub(crate) fn not_lost(&self) -> Result<()> {
        match self.core.locks.why_lost() {
            Some(_) => Err(self.core.locks.lost_error()),
            None => Ok(()),
        }
    }

    /// Ends the session for all its handles, and waits for nothing.
    #[cfg(feature = "blocking")]
    pub(crate) fn end(&self) {
        drop(self.core.locks.release());
    }

    /// A token that is cancelled when the session is lost, for whatever takes one; as
    /// [`Lease::cancellation`](crate::Lease::cancellation). It is not cancelled by a revocation.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.core.locks.cancellation()
    }

    /// What each node said to the last renewal, of a lock that this did not renew. Empty where it
    /// renewed all, and where none was made.
    #[must_use]
    pub fn failed_renewal(&self) -> Vec<NodeReport> {
        self.core.locks.failed_renewal()
    }

    /// Runs `body` with this session as the [current](Self::current) one, for code below that is not
    /// given it. Tasks that `body` spawns do not have it.
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

    /// The session whose [`scope`](Self::scope) this is called in, if any: the innermost.
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
