//! From options to a session.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::inner::Inner;
use super::session::Session;
use crate::config::LockOptions;
use crate::error::{Error, ErrorKind, NodeReport, Result};
use crate::host::{before, sleep_until};
use crate::lease::Locks;
use crate::rules::Tick;
use crate::words::exact;

/// How often nodes are looked at while they are waited for.
const GLANCE: Duration = Duration::from_millis(100);

/// Options of a session, on the way to [`grant`](Self::grant).
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

    /// For how long nodes hold the session's locks unless they are renewed. Default: that of the
    /// quorum's [`options`](crate::QuorumBuilder::options), 30 s. See [`LockOptions::ttl`].
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options = self.options.ttl(ttl);
        self
    }

    /// The options of all locks of the session. Default: those of the quorum.
    /// [`max_hold`](LockOptions::max_hold) counts for each lock from when that was acquired; the
    /// session is lost with the first.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.options = options;
        self
    }

    /// Begins the session, as soon as a quorum of nodes votes. It waits for that for `timeout` at
    /// most, so that an error comes now rather than with the first lock. Nodes store nothing for a
    /// session without locks.
    ///
    /// # Errors
    /// `Unavailable` if no quorum votes by then, with how each node is; `Config` if an option makes
    /// no sense (as for [`Quorum::lock_with`](crate::Quorum::lock_with)) or outside of a Tokio
    /// runtime; `Closed` after a shutdown.
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
            () = inner.shut.cancelled() => return Err(Error::closed()),
            votes = votes(&inner, rules.validity.ttl(), timeout) => votes?,
        }
        let locks = Locks::begin("session", &inner.leases, &rules);
        Ok(Session::begin(inner, rules, locks))
    }
}

/// Waits until a quorum votes on locks of that ttl.
async fn votes(inner: &Inner, ttl: Duration, timeout: Duration) -> Result<()> {
    let (voters, host) = (&inner.leases.voters, &inner.host);
    let until: Tick = host.now() + timeout;
    loop {
        if voters.can_vote(ttl) {
            return Ok(());
        }
        if host.now() >= until {
            return Err(nobody_votes(inner, timeout));
        }
        let _ = before(host, until, voters.enrolled(ttl)).await;
        if !voters.can_vote(ttl) {
            sleep_until(host, until.min(host.now() + GLANCE)).await;
        }
    }
}

fn nobody_votes(inner: &Inner, timeout: Duration) -> Error {
    let voters = &inner.leases.voters;
    let (quorum, nodes) = (voters.size.quorum(), voters.size.nodes());
    let message = format!("no session within {}: {quorum} of {nodes} nodes must vote", exact(timeout));
    let reports = voters.nodes.iter().map(|node| NodeReport::of_status(&node.status())).collect();
    Error::new(ErrorKind::Unavailable, message).with_nodes(reports)
}

impl fmt::Debug for SessionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}
