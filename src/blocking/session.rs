//! A session: one lease that owns many locks.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::quorum::Quorum;
use super::worker::Worker;
use crate::error::{NodeReport, Result};
use crate::lease::Released;
use crate::lock::Session as Lease;
use crate::rules::LostReason;

thread_local! {
    static CURRENT: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// A lease that owns locks, which are renewed together and lost together:
/// [`quorumlock::Session`](crate::Session) for threads. Cheap to clone, `Send` and `Sync`.
///
/// **It is lost as a whole**, as soon as one of its locks is. Locks are given up by
/// [`unlock`](Self::unlock), or all at once: by [`revoke`](Self::revoke), or with the last handle,
/// which sends the releases and waits for nothing.
///
/// # Examples
/// ```
/// # fn main() -> quorumlock::Result<()> {
/// use quorumlock::blocking::Quorum;
/// use std::time::Duration;
///
/// let second = Duration::from_secs(1);
/// let quorum = Quorum::in_memory(3)?;
/// let session = quorum.session().ttl(10 * second).grant(5 * second)?;
/// session.lock(["chunk/1", "chunk/2"], 5 * second)?;
/// session.try_lock(["chunk/7"])?;
/// assert!(session.token("chunk/7") > session.token("chunk/1"));
///
/// // Somebody else is told what is held, and by whom.
/// let other = quorum.session().grant(5 * second)?;
/// let refused = other.try_lock(["chunk/7", "chunk/8"]).unwrap_err();
/// assert!(refused.is_contended() && &*refused.conflicts()[0].name == "chunk/7");
///
/// session.unlock(["chunk/7"])?;
/// session.ensure(second)?;
/// session.revoke()?;
/// other.lock(["chunk/1", "chunk/7"], 5 * second)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Session {
    // Dropped before the runtime that sends its releases.
    session: Lease,
    worker: Arc<Worker>,
}

impl Quorum {
    /// The session of this quorum that has this [`id`](Session::id), for other code of the process:
    /// see [`Quorum::join_session`](crate::Quorum::join_session).
    #[must_use]
    pub fn join_session(&self, id: &str) -> Option<Session> {
        let session = self.0.quorum.join_session(id)?;
        Some(Session::new(session, self.0.clone()))
    }
}

impl Session {
    pub(super) const fn new(session: Lease, worker: Arc<Worker>) -> Self {
        Self { session, worker }
    }

    pub(super) fn not_lost(&self) -> Result<()> {
        self.session.not_lost()
    }

    pub(super) fn end(&self) {
        self.session.end();
    }

    /// By this, other code of the same process finds the session: [`Quorum::join_session`] on the
    /// same quorum.
    #[must_use]
    pub fn id(&self) -> &str {
        self.session.id()
    }

    /// Acquires all of `names`, or none, waiting for `timeout` at most: see
    /// [`Session::lock`](crate::Session::lock).
    ///
    /// # Errors
    /// As [`Session::lock`](crate::Session::lock), and `Config` within a Tokio runtime. What was
    /// held before is held still, unless the session is lost.
    pub fn lock(&self, names: impl IntoIterator<Item = impl AsRef<str>>, timeout: Duration) -> Result<()> {
        self.worker.wait(self.session.lock(names, timeout))?
    }

    /// Acquires all of `names` if nobody has any of them, else none, and waits for nobody.
    ///
    /// # Errors
    /// `Contended` if others hold some of them, or are about to; else as for [`lock`](Self::lock).
    pub fn try_lock(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<()> {
        self.worker.wait(self.session.try_lock(names))?
    }

    /// Gives these names up, and waits until a quorum of nodes has confirmed it: see
    /// [`Session::unlock`](crate::Session::unlock).
    ///
    /// # Errors
    /// As [`Session::unlock`](crate::Session::unlock). `Config` within a Tokio runtime; then
    /// nothing was freed.
    pub fn unlock(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Released> {
        self.worker.wait(self.session.unlock(names))?
    }

    /// The names that are held, in their order, each with its fencing token: see
    /// [`Session::held`](crate::Session::held). Empty once the session has ended.
    #[must_use]
    pub fn held(&self) -> Vec<(Arc<str>, u64)> {
        self.session.held()
    }

    /// The fencing token of `name`; `None` where the session does not hold it.
    #[must_use]
    pub fn token(&self, name: &str) -> Option<u64> {
        self.session.token(name)
    }

    /// Ends the session for all its handles: frees all locks, on every node, and waits until a
    /// quorum has confirmed that. See [`Session::revoke`](crate::Session::revoke).
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time: the releases go on in the background.
    /// `Config` within a Tokio runtime: then nothing was freed.
    pub fn revoke(&self) -> Result<Released> {
        self.worker.wait(self.session.revoke())?
    }

    /// What is left of the validity of the lock that ends first; zero once the session has ended.
    /// See [`Session::remaining`](crate::Session::remaining).
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.session.remaining()
    }

    /// Whether the session lives at this moment, and so holds all its locks. Never true past the
    /// deadline of one of them, whatever timers do.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.session.is_alive()
    }

    /// Checks that all locks are held for at least `least` from now: before a write that takes so
    /// long.
    ///
    /// # Errors
    /// `Lost` if they are not.
    pub fn ensure(&self, least: Duration) -> Result<()> {
        self.session.ensure(least)
    }

    /// Waits until the session is lost, for `timeout` at most, and returns why; `None` where it was
    /// not lost by then, and as soon as it is revoked.
    ///
    /// # Errors
    /// `Config` within a Tokio runtime.
    pub fn lost(&self, timeout: Duration) -> Result<Option<LostReason>> {
        let outcome = self.worker.within(timeout, self.session.outcome())?;
        Ok(outcome.flatten())
    }

    /// A token that is cancelled when the session is lost, for whatever takes one: see
    /// [`Session::cancellation`](crate::Session::cancellation).
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.session.cancellation()
    }

    /// What each node said to the last renewal, of a lock that this did not renew. Empty where it
    /// renewed all, and where none was made.
    #[must_use]
    pub fn failed_renewal(&self) -> Vec<NodeReport> {
        self.session.failed_renewal()
    }

    /// Runs `body` with this session as the [current](Self::current) one of this thread, for code
    /// below that is not given it. Threads that `body` starts do not have it.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
    /// use quorumlock::blocking::Session;
    /// use std::time::Duration;
    ///
    /// fn below() -> quorumlock::Result<()> {
    ///     let session = Session::current().expect("called within a scope");
    ///     session.lock(["orders/42"], Duration::from_secs(5))
    /// }
    ///
    /// let session = quorum.session().grant(Duration::from_secs(5))?;
    /// session.scope(below)?;
    /// assert!(session.token("orders/42").is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn scope<T>(&self, body: impl FnOnce() -> T) -> T {
        let _before = Before(exchange(Some(self.clone())));
        body()
    }

    /// The session whose [`scope`](Self::scope) this is called in on this thread, if any: the
    /// innermost.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
    }
}

/// The session that was current before, and is again when this is dropped.
struct Before(Option<Session>);

impl Drop for Before {
    fn drop(&mut self) {
        drop(exchange(self.0.take()));
    }
}

/// Makes another session the current one, and returns the one before.
fn exchange(session: Option<Session>) -> Option<Session> {
    CURRENT.try_with(|current| current.replace(session)).ok().flatten()
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.session, f)
    }
}
