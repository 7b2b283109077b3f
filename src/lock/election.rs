//! Elections: the holder of the lock on a name leads.

use std::future::Future;
use std::time::Duration;

use futures::Stream;

use super::leader::{Leader, LeaderLease};
use super::leadership::{Leadership, Observer};
use super::mutex::QuorumLock;
use super::quorum::Quorum;
use super::scoped::under;
use crate::config::LockOptions;
use crate::error::{Error, Result};

/// An election: at most one candidate leads at a time, across all clients of the same nodes.
/// Observers see which candidate leads, and the value that it proclaimed.
///
/// An election on `x` is the lock `x`: the leader holds that lock, so an election and a lock on one
/// name exclude each other. All guarantees for locks hold for leaders too. Observers see new
/// leaders, but they do not see that a leader resigned.
///
/// Cheap to clone, `Send` and `Sync`.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::Quorum::in_memory(3)?;
/// use futures::StreamExt;
/// use std::pin::pin;
/// use std::time::Duration;
///
/// let election = quorum.election("scheduler");
/// let mut leaders = pin!(election.observe()?);
///
/// let leader = election.campaign(Duration::from_secs(5)).await?;
/// leader.proclaim("10.0.0.7:8080").await?;
///
/// let seen = leaders.next().await.expect("somebody leads");
/// assert_eq!(seen.token, leader.token());
/// leader.resign().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    lock: QuorumLock,
}

impl Quorum {
    /// The election on `name`: 1 to 1,024 bytes of text without NUL. Its methods refuse a bad name.
    #[must_use]
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election { lock: self.lock(name).saying("".into()) }
    }

    /// The election on `name`, with its own options.
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with).
    pub fn election_with(&self, name: impl AsRef<str>, options: &LockOptions) -> Result<Election> {
        Ok(Election { lock: self.lock_with(name, options)?.saying("".into()) })
    }
}

impl Election {
    /// Waits until this caller leads, for `timeout` at most. Candidates lead in the order of their
    /// calls.
    ///
    /// # Errors
    /// As [`QuorumLock::acquire`]: `Timeout` if others led until the time ended.
    ///
    /// # Cancel safety
    /// Safe: a granted lock is released in the background, and the place in the queue is given up.
    pub async fn campaign(&self, timeout: Duration) -> Result<Leader> {
        self.lock.acquire(timeout).await.map(Leader::new)
    }

    /// As [`campaign`](Self::campaign), with the timeout [`LockOptions::wait`]: 10 s by default.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign).
    ///
    /// # Cancel safety
    /// As [`campaign`](Self::campaign).
    pub async fn campaign_default(&self) -> Result<Leader> {
        self.campaign(self.lock.rules.wait).await
    }

    /// Waits until this caller leads, runs `body`, and resigns. If the office (the lead) is lost
    /// before the body ends, drops the body.
    ///
    /// The body gets a view of the office, which can [proclaim](LeaderLease::proclaim) a value. The
    /// body may clone the view and give clones to tasks. No view keeps the office after the end of
    /// the body.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign), and `Lost` if the office was lost before the body ended. If
    /// no quorum confirms the resignation, the log has a warning, but the call succeeds.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the office is given up in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let election = quorum.election("scheduler");
    /// let proclaimed = election
    ///     .run(Duration::from_secs(5), async |leader| {
    ///         leader.proclaim("10.0.0.7:8080").await?;
    ///         // Work while this caller leads.
    ///         Ok::<_, quorumlock::Error>(leader.token())
    ///     })
    ///     .await?;
    /// assert!(proclaimed? > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F, Fut>(&self, timeout: Duration, body: F) -> Result<Fut::Output>
    where
        F: FnOnce(LeaderLease) -> Fut,
        Fut: Future,
    {
        under(self.lock.acquire(timeout).await?, |lease| body(LeaderLease(lease))).await
    }

    /// As [`run`](Self::run), for a body that can fail. Returns one `Result`, with the errors of
    /// `run` and of the body. The office is given up whatever the body returns.
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
    /// let election = quorum.election("scheduler");
    /// election.try_run(Duration::from_secs(5), async |leader| leader.proclaim("10.0.0.7:8080").await).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_run<F, Fut, T, E>(&self, timeout: Duration, body: F) -> Result<T, E>
    where
        F: FnOnce(LeaderLease) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        self.run(timeout, body).await?
    }

    /// A stream of leaders and their values, beginning with the present leader if there is one. A
    /// leader that has not proclaimed anything has the value `""`.
    ///
    /// Items come in the order of tokens: no older leader follows a newer one, and no older value
    /// of a leader follows a newer one. The stream may skip a leader or a value that is soon
    /// replaced. It has no items for times without a leader.
    ///
    /// A quorum of nodes has named each leader in the stream. But a leader may have lost the office
    /// by the time you read its item. So work that only one leader may do needs the token.
    ///
    /// After a change, nodes publish a message, and the stream asks all nodes which owner leads. So
    /// a change appears about one round trip after the nodes have stored it. The stream trusts only
    /// the replies of a quorum, and no published message. The stream asks at most every 30 ms,
    /// however many messages arrive. Messages may be lost, so the stream also asks every 2.5 to 5
    /// s, at random times, and when the leader's hold ends. If the Redis user of this client or of
    /// the leader has no right to the channel (`&quorumlock:*`), the stream may show a change up to
    /// 5 s late. A node that hangs delays an item by up to the round timeout.
    ///
    /// While a client observes names, it has one more connection to each node.
    ///
    /// The stream sends requests only while it is polled. After a pause, it continues with the
    /// present state.
    ///
    /// The stream ends at a shutdown of the quorum, or if it is polled outside of a Tokio runtime.
    ///
    /// # Errors
    /// `Config` for a bad name or outside of a Tokio runtime; `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// Safe: cancelling `next` loses no item, and dropping the stream ends its subscription.
    pub fn observe(&self) -> Result<impl Stream<Item = Leadership> + Send + use<>> {
        Ok(Observer::new(&self.lock)?.leaders())
    }
}
