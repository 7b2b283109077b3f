//! Elections: who holds a name leads.

use std::future::Future;
use std::time::Duration;

use futures::Stream;

use super::leader::{Leader, LeaderLease};
use super::mutex::QuorumLock;
use super::observed::{Leadership, Observer};
use super::quorum::Quorum;
use super::scoped::under;
use crate::config::LockOptions;
use crate::error::{Error, Result};

/// An election: at most one leads at a time, across all clients of the same nodes, and everybody
/// else can see who does and what it proclaimed.
///
/// An election on `x` is the lock `x`: whoever leads holds that lock, and a lock and an election on
/// one name exclude each other. What is promised of locks holds for leaders too. Observers see who
/// leads next, and not that a leader resigned.
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
    /// The election on `name`: 1 to 1,024 bytes of any text without NUL. A bad name is refused when
    /// somebody campaigns or observes.
    #[must_use]
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election { lock: self.lock(name).saying("".into()) }
    }

    /// The election on `name` with options of its own.
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with).
    pub fn election_with(&self, name: impl AsRef<str>, options: &LockOptions) -> Result<Election> {
        Ok(Election { lock: self.lock_with(name, options)?.saying("".into()) })
    }
}

impl Election {
    /// Waits until this caller leads, for `timeout` at most. Candidates are served in the order in
    /// which they came.
    ///
    /// # Errors
    /// As [`QuorumLock::acquire`]: `Timeout` if others led until the time ended.
    ///
    /// # Cancel safety
    /// Safe at any point: what was granted is released in the background, and the place in the
    /// queue given up.
    pub async fn campaign(&self, timeout: Duration) -> Result<Leader> {
        self.lock.acquire(timeout).await.map(Leader::new)
    }

    /// Waits until this caller leads, for as long as its options say: [`LockOptions::wait`], by
    /// default 10 s. All else is as with [`campaign`](Self::campaign).
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign).
    ///
    /// # Cancel safety
    /// As [`campaign`](Self::campaign).
    pub async fn campaign_default(&self) -> Result<Leader> {
        self.campaign(self.lock.rules().wait).await
    }

    /// Waits until this caller leads, runs `body`, and resigns. The body is dropped the moment the
    /// office is lost.
    ///
    /// The body is given a view, by which it proclaims. It owns that, so an `async move` block or an
    /// async closure may keep it, clone it and give it to tasks; and none of them keeps the office
    /// when the body has ended.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign), and `Lost` if the office was lost before the body ended. A
    /// resignation that no quorum confirms is not an error here: it is a warning in the log.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the office given up in the background.
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
    ///         // Work, as long as it leads.
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
        under(self.campaign(timeout).await?, body).await
    }

    /// As [`run`](Self::run), for a body that can fail: one `Result`, with the errors of both. The
    /// office is given up whatever the body comes to.
    ///
    /// # Errors
    /// As [`run`](Self::run), turned into the body's kind of error, and what the body returns.
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

    /// Leaders and what they proclaim, from now on, beginning with the present leader if there is
    /// one. A leader that has not proclaimed anything has the value `""`.
    ///
    /// They come in the order of their tokens: never an older leader after a newer one, and never
    /// an older value of one leader after a newer one. A leader, or a value, that does not last may
    /// be left out. Nothing is told when nobody leads. Only a leader is told whom a quorum of nodes
    /// names; it may have lost its office by the time that this is read, so what must not be done
    /// by two needs the token all the same.
    ///
    /// Nodes publish that there is news of the name, and the stream then asks them what it is: so a
    /// change is seen about a round trip after a node knows of it. What was published is never taken
    /// for true; an answer of a quorum is. Looks begin 30 ms apart at least, however much is published.
    /// A message may be lost; so each stream also asks every 2.5 to 5 s, at random moments, and when
    /// the leader's hold ends. If this client's user or the leader's has no right to the channel
    /// (`&quorumlock:*`), changes are seen after up to 5 s. A node that hangs delays this by up to the
    /// round timeout.
    ///
    /// While a client observes any name, it has one more connection to each node.
    ///
    /// It asks only while it is polled. A stream that is not polled costs no node anything, and
    /// goes on with what is true when it is polled again.
    ///
    /// It ends when the quorum is shut down, and when it is polled outside of a Tokio runtime.
    ///
    /// # Errors
    /// `Config` for a bad name or outside of a Tokio runtime; `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// `next` of the stream is safe to cancel: nothing is missed. Dropping the stream leaves
    /// nothing behind.
    pub fn observe(&self) -> Result<impl Stream<Item = Leadership> + Send + use<>> {
        Ok(Observer::new(&self.lock)?.leaders())
    }
}
