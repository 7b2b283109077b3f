//! Builds a session from options.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::inner::Inner;
use super::scoped::{Scope, under};
use super::session::Session;
use crate::config::LockOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Locks, Released};
use crate::node::Listener;
use crate::protocol::Voters;
use crate::words::exact;

/// Options of a session. [`grant`](Self::grant) begins the session.
#[derive(Clone)]
#[must_use = "a builder does nothing until the session is granted"]
pub struct SessionBuilder {
    inner: Arc<Inner>,
    options: LockOptions,
}

impl SessionBuilder {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        let options = inner.settings.options.clone();
        Self { inner, options }
    }

    /// How long nodes hold the session's locks without a renewal. Default: the ttl of the quorum's
    /// [`options`](crate::QuorumBuilder::options), which is 30 s by default. See
    /// [`LockOptions::ttl`].
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options = self.options.ttl(ttl);
        self
    }

    /// The options of all locks of the session. Default: those of the quorum.
    /// [`max_hold`](LockOptions::max_hold) counts for each lock from its acquisition. As soon as
    /// one lock has been held for that long, the session is lost.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.options = options;
        self
    }

    /// Waits until a quorum of nodes may vote, for `timeout` at most, and begins the session. The
    /// wait reports a missing quorum before the first lock. Nodes store nothing for a session
    /// without locks.
    ///
    /// # Errors
    /// `Unavailable` if no quorum may vote in time, with the status of each node; `Config` if an
    /// option is invalid (as for [`Quorum::lock_with`](crate::Quorum::lock_with)) or outside of a
    /// Tokio runtime; `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn grant(self, timeout: Duration) -> Result<Session> {
        let Self { inner, options } = self;
        inner.usable()?;
        inner.leases.voters.may_acquire()?;
        let rules = inner.rules_of(&options)?;
        tokio::select! {
            biased;
            () = inner.shut.cancelled() => return Err(inner.closed()),
            votes = votes(&inner, timeout) => votes?,
        }
        let locks = Locks::begin("session", &inner.leases, &rules);
        let core = inner.sessions.add(inner.leases.voters.wakeups.client(), rules, locks);
        Ok(Session { inner, core })
    }

    /// As [`grant`](Self::grant), with the timeout [`LockOptions::wait`]: 10 s by default.
    ///
    /// # Errors
    /// As [`grant`](Self::grant).
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn grant_default(self) -> Result<Session> {
        let wait = self.inner.rules_of(&self.options)?.wait;
        self.grant(wait).await
    }

    /// Begins a session as [`grant`](Self::grant) does, runs `body` with it, and revokes the
    /// session. If the session is lost, the body is dropped at once.
    ///
    /// The session ends for all its handles, even if the body gave handles to other tasks, or
    /// panics. If another handle revokes the session, the body goes on with an ended session.
    ///
    /// # Errors
    /// As [`grant`](Self::grant), and `Lost` if the session was lost before the body ended. If no
    /// quorum confirms the revocation at the end, the log has a warning, but the call succeeds.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and all locks are released in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// let locked = quorum
    ///     .session()
    ///     .run(5 * second, async |session| {
    ///         session.lock(["chunk/1", "chunk/2"], 5 * second).await?;
    ///         Ok::<_, quorumlock::Error>(session.held().len())
    ///     })
    ///     .await?;
    /// assert_eq!(locked?, 2);
    /// assert!(quorum.lock("chunk/1").try_acquire().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F, Fut>(self, timeout: Duration, body: F) -> Result<Fut::Output>
    where
        F: FnOnce(Session) -> Fut,
        Fut: Future,
    {
        under(Revoked(self.grant(timeout).await?), body).await
    }

    /// As [`run`](Self::run), for a body that can fail. Returns one `Result`, with the errors of
    /// `run` and of the body. The session is revoked whatever the body returns.
    ///
    /// # Errors
    /// Those of [`run`](Self::run), converted to the body's error type, and the body's own.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// quorum.session().try_run(5 * second, async |session| session.lock(["chunk/1"], 5 * second).await).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_run<F, Fut, T, E>(self, timeout: Duration, body: F) -> Result<T, E>
    where
        F: FnOnce(Session) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        self.run(timeout, body).await?
    }
}

/// A session that ends for all its handles when this value is dropped.
struct Revoked(Session);

impl Drop for Revoked {
    fn drop(&mut self) {
        drop(self.0.core.locks.release());
    }
}

impl Scope for Revoked {
    type View = Session;

    fn view(&self) -> Session {
        self.0.clone()
    }

    async fn until_lost(&self) -> Error {
        self.0.lost().await;
        self.0.core.locks.lost_error()
    }

    fn not_lost(&self) -> Result<()> {
        self.0.not_lost()
    }

    async fn give_up(self) -> Result<Released> {
        self.0.revoke().await
    }
}

/// Waits until a quorum may vote. Fails at once if quarantines keep a quorum from voting in time.
async fn votes(inner: &Inner, timeout: Duration) -> Result<()> {
    let (voters, until) = (&inner.leases.voters, inner.host.now() + timeout);
    let vote = !voters.are_quarantined_past(until) && voters.votes(until).await;
    if vote { Ok(()) } else { Err(nobody_votes(voters, timeout)) }
}

fn nobody_votes(voters: &Voters, timeout: Duration) -> Error {
    let (quorum, nodes, reports) = (voters.size.quorum(), voters.size.nodes(), voters.reports());
    let why = voters.other_list().map_or_else(
        || format!("{quorum} of {nodes} nodes must vote{}", voters.advice(&reports)),
        |other| other.to_string(),
    );
    let message = format!("no session within {}: {why}", exact(timeout));
    Error::new(ErrorKind::Unavailable, message).with_nodes(reports)
}

impl fmt::Debug for SessionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}
