//! From options to a session.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::quorum::Quorum;
use super::session::Session;
use super::worker::Worker;
use crate::config::LockOptions;
use crate::error::Result;
use crate::lock::{Quorum as Nodes, SessionBuilder as Builder};

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
    /// A session, which owns many locks: see [`Quorum::session`](Nodes::session).
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

    /// Begins the session, as soon as a quorum of nodes votes; waits for that for `timeout` at most:
    /// see [`SessionBuilder::grant`](crate::SessionBuilder::grant).
    ///
    /// # Errors
    /// As [`SessionBuilder::grant`](crate::SessionBuilder::grant), and `Config` within a Tokio
    /// runtime.
    pub fn grant(self, timeout: Duration) -> Result<Session> {
        let Self { builder, worker } = self;
        let session = worker.wait(builder.grant(timeout))??;
        Ok(Session::new(session, worker))
    }
}

impl fmt::Debug for SessionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.builder, f)
    }
}
