//! From options to a session.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::confirmed::confirmed;
use super::quorum::Quorum;
use super::session::Session;
use super::worker::Worker;
use crate::config::LockOptions;
use crate::error::{Error, Result};
use crate::lock::SessionBuilder as Builder;

/// Options of a session, on the way to [`grant`](Self::grant).
///
/// # Examples
/// ```
/// # fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let session = quorum.session().ttl(Duration::from_secs(10)).grant(Duration::from_secs(5))?;
/// assert!(session.is_alive() && session.held().is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until the session is granted"]
pub struct SessionBuilder {
    builder: Builder,
    worker: Arc<Worker>,
}

impl Quorum {
    /// A session, which owns many locks: see [`Quorum::session`](crate::Quorum::session).
    /// [`grant`](SessionBuilder::grant) begins it.
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder { builder: self.0.quorum.session(), worker: self.0.clone() }
    }
}

impl SessionBuilder {
    /// For how long nodes hold the session's locks unless they are renewed. Default: that of the
    /// quorum's options, 30 s. See [`LockOptions::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { builder: self.builder.ttl(ttl), ..self }
    }

    /// The options of all locks of the session. Default: those of the quorum. See
    /// [`SessionBuilder::options`](crate::SessionBuilder::options).
    pub fn options(self, options: LockOptions) -> Self {
        Self { builder: self.builder.options(options), ..self }
    }

    /// Begins the session, as soon as a quorum of nodes votes; waits for that for `timeout` at
    /// most: see [`SessionBuilder::grant`](crate::SessionBuilder::grant).
    ///
    /// # Errors
    /// As [`SessionBuilder::grant`](crate::SessionBuilder::grant), and `Config` within a Tokio
    /// runtime.
    pub fn grant(self, timeout: Duration) -> Result<Session> {
        let Self { builder, worker } = self;
        let session = worker.wait(builder.grant(timeout))??;
        Ok(Session::new(session, worker))
    }

    /// Begins the session, waiting for as long as its options say: by default 10 s.
    ///
    /// # Errors
    /// As [`grant`](Self::grant).
    pub fn grant_default(self) -> Result<Session> {
        let Self { builder, worker } = self;
        let session = worker.wait(builder.grant_default())??;
        Ok(Session::new(session, worker))
    }

    /// Begins a session as [`grant`](Self::grant) does, runs `body` with it, and revokes it, for
    /// all its handles, also where the body panics.
    ///
    /// A thread cannot be stopped: a body that runs for long asks its session
    /// ([`ensure`](Session::ensure), [`lost`](Session::lost)) whether to go on. Where somebody else
    /// revokes it, the body goes on, and finds it ended.
    ///
    /// # Errors
    /// As [`grant`](Self::grant), and `Lost` if the session was lost before the body ended. A
    /// revocation that no quorum confirms is not an error here.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// let chunks = ["chunk/1", "chunk/2"];
    /// quorum.session().try_run(5 * second, |session| session.lock(chunks, 5 * second))?;
    /// assert!(quorum.lock("chunk/1").try_acquire()?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T>(self, timeout: Duration, body: impl FnOnce(&Session) -> T) -> Result<T> {
        let session = Ending(self.grant(timeout)?);
        let output = body(&session.0);
        session.0.not_lost()?;
        confirmed(session.0.revoke());
        Ok(output)
    }

    /// As [`run`](Self::run), for a body that can fail: one `Result`, with the errors of both. The
    /// session is revoked whatever the body comes to.
    ///
    /// # Errors
    /// As [`run`](Self::run), turned into the body's kind of error, and what the body returns.
    pub fn try_run<T, E: From<Error>>(
        self,
        timeout: Duration,
        body: impl FnOnce(&Session) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(timeout, body)?
    }
}

/// A session that ends for all its handles when this is dropped.
struct Ending(Session);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl fmt::Debug for SessionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.builder, f)
    }
}
