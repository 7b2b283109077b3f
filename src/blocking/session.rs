//! A session: one lease that owns many locks.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::quorum::Quorum;
use super::worker::{Blocking, confirmed, debug_as_async};
use crate::config::LockOptions;
use crate::error::{Error, NodeReport, Result};
use crate::lease::Released;
use crate::rules::LostReason;

thread_local! {
    static CURRENT: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// A lease that owns locks, which are renewed together and lost together. This type is
/// [`quorumlock::Session`](crate::Session) for threads. Cheap to clone, `Send` and `Sync`.
///
/// **A session is lost as a whole**, as soon as one of its locks is lost. [`unlock`](Self::unlock)
/// releases some locks, and [`revoke`](Self::revoke) releases all. Dropping the last handle of the
/// session also sends releases for all locks, but does not return the result.
///
/// # Examples
/// ```
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use quorumlock::blocking::Session;
/// use std::time::Duration;
///
/// let second = Duration::from_secs(1);
/// let session = quorum.session().ttl(10 * second).grant(5 * second)?;
/// session.lock(["chunk/1", "chunk/2"], 5 * second)?;
/// session.try_lock(["chunk/7"])?;
/// assert!(session.token("chunk/7") > session.token("chunk/1"));
///
/// // The error of another session names the holders.
/// let other = quorum.session().grant(5 * second)?;
/// let refused = other.try_lock(["chunk/7", "chunk/8"]).unwrap_err();
/// assert!(refused.is_contended() && &*refused.conflicts()[0].name == "chunk/7");
///
/// // Code within a scope finds the session without a parameter.
/// session.scope(|| Session::current().expect("within a scope").unlock(["chunk/7"]))?;
/// session.ensure(second)?;
/// session.revoke()?;
/// other.lock(["chunk/1", "chunk/7"], 5 * second)?;
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[derive(Clone)]
pub struct Session(Blocking<crate::Session>);

/// Options of a session. [`grant`](Self::grant) begins the session.
///
/// # Examples
/// ```
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let second = Duration::from_secs(1);
/// let session = quorum.session().ttl(10 * second).grant(5 * second)?;
/// assert!(session.is_alive() && session.held().is_empty());
///
/// let chunks = ["chunk/1", "chunk/2"];
/// quorum.session().try_run(5 * second, |session| session.lock(chunks, 5 * second))?;
/// assert!(quorum.lock("chunk/1").try_acquire()?.is_some(), "it was revoked after that");
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until the session is granted"]
pub struct SessionBuilder(Blocking<crate::SessionBuilder>);

impl Quorum {
    /// A builder of a session, which owns many locks: see
    /// [`Quorum::session`](crate::Quorum::session). [`grant`](SessionBuilder::grant) begins the
    /// session.
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder(self.0.wrap(self.0.inner.session()))
    }

    /// The session of this quorum with this [`id`](Session::id), for other code of the process that
    /// shares the session: see [`Quorum::join_session`](crate::Quorum::join_session).
    #[must_use]
    pub fn join_session(&self, id: &str) -> Option<Session> {
        Some(Session(self.0.wrap(self.0.inner.join_session(id)?)))
    }
}

impl SessionBuilder {
    /// How long nodes hold the session's locks without a renewal. Default: the ttl of the quorum's
    /// options, which is 30 s unless you set it. See [`LockOptions::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(Blocking { inner: self.0.inner.ttl(ttl), ..self.0 })
    }

    /// The options of all locks of the session. Default: the quorum's options. See
    /// [`SessionBuilder::options`](crate::SessionBuilder::options).
    pub fn options(self, options: LockOptions) -> Self {
        Self(Blocking { inner: self.0.inner.options(options), ..self.0 })
    }

    /// Begins the session as soon as a quorum of nodes votes, and waits for that quorum for
    /// `timeout` at most: see [`SessionBuilder::grant`](crate::SessionBuilder::grant).
    ///
    /// # Errors
    /// As for the async method, and `Config` within a Tokio runtime.
    pub fn grant(self, timeout: Duration) -> Result<Session> {
        let Blocking { inner, worker } = self.0;
        let inner = worker.wait(inner.grant(timeout))??;
        Ok(Session(Blocking { inner, worker }))
    }

    /// As [`grant`](Self::grant), with the timeout of the session's options: 10 s by default.
    ///
    /// # Errors
    /// As [`grant`](Self::grant).
    pub fn grant_default(self) -> Result<Session> {
        let Blocking { inner, worker } = self.0;
        let inner = worker.wait(inner.grant_default())??;
        Ok(Session(Blocking { inner, worker }))
    }

    /// Begins a session as [`grant`](Self::grant) does, runs `body` with it, and revokes the
    /// session for all its handles, even if the body panics.
    ///
    /// As with [`QuorumLock::run`](super::QuorumLock::run), nothing can stop the body. So the body
    /// must ask its session ([`ensure`](Session::ensure), [`lost`](Session::lost)) whether the
    /// locks are still held. The body goes on even if another handle revokes the session.
    ///
    /// # Errors
    /// As [`grant`](Self::grant), and `Lost` if the session was lost before the body ended.
    pub fn run<T>(self, timeout: Duration, body: impl FnOnce(&Session) -> T) -> Result<T> {
        let session = Ending(self.grant(timeout)?);
        let output = body(&session.0);
        session.0.0.inner.not_lost()?;
        confirmed(session.0.revoke());
        Ok(output)
    }

    /// As [`run`](Self::run), for a body that can fail. Returns one `Result`, with the errors of
    /// `run` and of the body. The session is revoked whatever the body returns.
    ///
    /// # Errors
    /// As [`QuorumLock::try_run`](super::QuorumLock::try_run).
    pub fn try_run<T, E: From<Error>>(
        self,
        timeout: Duration,
        body: impl FnOnce(&Session) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(timeout, body)?
    }
}

/// A session that ends for all its handles when this value is dropped.
struct Ending(Session);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.0.inner.end();
    }
}

// With only `Deref` in place of these methods, `sessions.iter().all(Session::is_alive)` would not
// compile.
impl Session {
    /// The session's id. With this id, other code of the same process gets a handle of the session
    /// by [`Quorum::join_session`] of the same quorum.
    #[must_use]
    pub fn id(&self) -> &str {
        self.0.inner.id()
    }

    /// Acquires all of `names`, or none, waiting for `timeout` at most: see
    /// [`Session::lock`](crate::Session::lock).
    ///
    /// # Errors
    /// As [`Session::lock`](crate::Session::lock), and `Config` within a Tokio runtime. Names that
    /// the session held before the call stay held, unless the session is lost.
    pub fn lock(&self, names: impl IntoIterator<Item = impl AsRef<str>>, timeout: Duration) -> Result<()> {
        self.0.wait(self.0.inner.lock(names, timeout))
    }

    /// Acquires all of `names` if others hold none of them, else acquires none. Does not wait for
    /// holders.
    ///
    /// # Errors
    /// `Contended` if others hold some of the names, or are about to get them; otherwise as for
    /// [`lock`](Self::lock).
    pub fn try_lock(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<()> {
        self.0.wait(self.0.inner.try_lock(names))
    }

    /// Releases these names, and waits until a quorum of nodes has confirmed: see
    /// [`Session::unlock`](crate::Session::unlock).
    ///
    /// # Errors
    /// As for the async method. `Config` within a Tokio runtime: nothing is released.
    pub fn unlock(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Released> {
        self.0.wait(self.0.inner.unlock(names))
    }

    /// The held names, sorted, each with its fencing token: see
    /// [`Session::held`](crate::Session::held). Empty once the session has ended.
    #[must_use]
    pub fn held(&self) -> Vec<(Arc<str>, u64)> {
        self.0.inner.held()
    }

    /// The fencing token of `name`; `None` if the session does not hold this name.
    #[must_use]
    pub fn token(&self, name: &str) -> Option<u64> {
        self.0.inner.token(name)
    }

    /// Ends the session for all its handles: releases all locks on every node, and waits until a
    /// quorum has confirmed. See [`Session::revoke`](crate::Session::revoke).
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time: the releases go on in the background.
    /// `Config` within a Tokio runtime: nothing is released.
    pub fn revoke(&self) -> Result<Released> {
        self.0.wait(self.0.inner.revoke())
    }

    /// The remaining validity of the lock that ends first; zero once the session has ended. See
    /// [`Session::remaining`](crate::Session::remaining).
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.inner.remaining()
    }

    /// Whether the session lives now, and so holds all its locks: see
    /// [`Session::is_alive`](crate::Session::is_alive).
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.0.inner.is_alive()
    }

    /// Checks that all locks are held for at least `least` from now: see
    /// [`Session::ensure`](crate::Session::ensure).
    ///
    /// # Errors
    /// `Lost` if a lock is not held for that long, or the session has ended.
    pub fn ensure(&self, least: Duration) -> Result<()> {
        self.0.inner.ensure(least)
    }

    /// Waits until the session is lost, for `timeout` at most, and returns why. `None` means that
    /// the session was not lost within `timeout`, or that it was revoked.
    ///
    /// # Errors
    /// `Config` within a Tokio runtime.
    pub fn lost(&self, timeout: Duration) -> Result<Option<LostReason>> {
        self.0.lost(timeout, self.0.inner.outcome())
    }

    /// A `CancellationToken` that is cancelled when the session is lost: see
    /// [`Session::cancellation`](crate::Session::cancellation).
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.0.inner.cancellation()
    }

    /// The nodes' replies to the last renewal if it failed; empty if it succeeded or none was sent
    /// yet: see [`Session::failed_renewal`](crate::Session::failed_renewal).
    #[must_use]
    pub fn failed_renewal(&self) -> Vec<NodeReport> {
        self.0.inner.failed_renewal()
    }

    /// Runs `body` with this session as the [current](Self::current) session of this thread, for
    /// code that does not get the session as an argument. Threads that `body` starts have no
    /// current session.
    pub fn scope<T>(&self, body: impl FnOnce() -> T) -> T {
        let _before = Before(exchange(Some(self.clone())));
        body()
    }

    /// The session of the innermost [`scope`](Self::scope) on this thread; `None` if there is none.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
    }
}

/// The session that was current when a scope began. Dropping this value, at the end of the scope,
/// makes that session current again.
struct Before(Option<Session>);

impl Drop for Before {
    fn drop(&mut self) {
        drop(exchange(self.0.take()));
    }
}

/// Makes `session` the current session of this thread, and returns the previous one.
fn exchange(session: Option<Session>) -> Option<Session> {
    CURRENT.try_with(|current| current.replace(session)).ok().flatten()
}

debug_as_async!(Session, SessionBuilder);
