//! Elections: the holder of the lock on a name leads, and observers see the leader.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};

use super::lock::Lease;
use super::quorum::Quorum;
use super::worker::{Blocking, Worker, debug_as_async, guard};
use crate::config::LockOptions;
use crate::error::{Error, Result};
use crate::lock::Leadership;

/// An election: at most one candidate leads at a time. Observers see the leader, and the value that
/// the leader proclaimed. This type is [`quorumlock::Election`](crate::Election) for threads.
///
/// Cheap to clone, `Send` and `Sync`.
///
/// # Examples
/// ```
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::thread;
///
/// let election = quorum.election("scheduler");
/// let mut leaders = election.observe()?;
/// let observer = thread::spawn(move || leaders.next());
///
/// let leader = election.campaign_default()?;
/// let seen = observer.join().unwrap().expect("somebody leads")?;
/// assert_eq!(seen.token, leader.token());
/// leader.resign()?;
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[derive(Clone)]
pub struct Election(Blocking<crate::Election>);

/// A held office: the holder leads in an [`Election`]. The office is kept while this value lives,
/// and given up when this value is dropped. A `Leader` also has the methods of [`LeaderLease`] and
/// [`Lease`].
///
/// # Examples
/// ```
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// let leader = quorum.election("scheduler").campaign_default()?;
/// leader.proclaim("10.0.0.7:8080")?;
/// leader.resign()?;
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[must_use = "the office is given up when its leader is dropped"]
pub struct Leader(Blocking<crate::Leader>, LeaderLease);

/// A view of a held office. A view is cheap to clone, and does not keep the office. It can
/// [proclaim](Self::proclaim) a value for the leader.
///
/// A view also has the methods of [`Lease`], such as [`lost`](Lease::lost) and
/// [`token`](crate::Lease::token).
///
/// # Examples
/// ```
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::thread;
///
/// let leader = quorum.election("scheduler").campaign_default()?;
/// let lease = leader.lease();
/// thread::spawn(move || lease.proclaim("10.0.0.7:8080")).join().unwrap()?;
/// leader.resign()?;
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[derive(Clone)]
pub struct LeaderLease(Blocking<crate::LeaderLease>, Lease);

/// An iterator over leaders and their values, in the order of tokens: see [`Election::observe`].
///
/// `next` waits on the caller's thread for a new leader or value. The iterator ends when any thread
/// shuts down the quorum. Within a Tokio runtime, `next` returns a `Config` error and the iterator
/// ends.
///
/// The iterator sends requests only while a call of `next` or `next_within` waits. Dropping the
/// iterator ends its subscription.
#[must_use = "it sends no request until `next` is called"]
pub struct Leaders {
    /// The leaders to return, or the error that ended the iterator.
    stream: Result<BoxStream<'static, Leadership>>,
    worker: Arc<Worker>,
}

impl Quorum {
    /// The election on `name`: see [`Quorum::election`](crate::Quorum::election).
    #[must_use]
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election(self.0.wrap(self.0.inner.election(name)))
    }

    /// The election on `name`, with its own options.
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with).
    pub fn election_with(&self, name: impl AsRef<str>, options: &LockOptions) -> Result<Election> {
        Ok(Election(self.0.wrap(self.0.inner.election_with(name, options)?)))
    }
}

impl Election {
    /// Waits until this caller leads, for `timeout` at most: see
    /// [`Election::campaign`](crate::Election::campaign).
    ///
    /// # Errors
    /// As [`QuorumLock::acquire`](super::QuorumLock::acquire): `Timeout` if others led until
    /// `timeout` ended.
    pub fn campaign(&self, timeout: Duration) -> Result<Leader> {
        self.0.wrapped(self.0.inner.campaign(timeout)).map(Leader::new)
    }

    /// As [`campaign`](Self::campaign), with the timeout of the options: 10 s by default.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign).
    pub fn campaign_default(&self) -> Result<Leader> {
        self.0.wrapped(self.0.inner.campaign_default()).map(Leader::new)
    }

    /// Waits until this caller leads, runs `body`, and resigns, as
    /// [`QuorumLock::run`](super::QuorumLock::run) does.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign), and `Lost` if the office was lost before the body ended.
    pub fn run<T>(&self, timeout: Duration, body: impl FnOnce(&LeaderLease) -> T) -> Result<T> {
        self.campaign(timeout)?.while_held(body)
    }

    /// As [`run`](Self::run), for a body that can fail. Returns one `Result`, with the errors of
    /// `run` and of the body. The office is given up whatever the body returns.
    ///
    /// # Errors
    /// As [`QuorumLock::try_run`](super::QuorumLock::try_run).
    pub fn try_run<T, E: From<Error>>(
        &self,
        timeout: Duration,
        body: impl FnOnce(&LeaderLease) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(timeout, body)?
    }

    /// An iterator over leaders and their values, beginning with the present leader if there is
    /// one: see [`Election::observe`](crate::Election::observe).
    ///
    /// # Errors
    /// `Config` for a bad name or within a Tokio runtime; `Closed` after a shutdown.
    pub fn observe(&self) -> Result<Leaders> {
        let stream = self.0.wait(async { self.0.inner.observe() })?;
        Ok(Leaders { stream: Ok(stream.boxed()), worker: self.0.worker.clone() })
    }
}

impl LeaderLease {
    fn new(view: Blocking<crate::LeaderLease>) -> Self {
        let lease = Lease::new(view.wrap((*view.inner).clone()));
        Self(view, lease)
    }

    /// Publishes a value to all [observers](Election::observe): see
    /// [`LeaderLease::proclaim`](crate::LeaderLease::proclaim).
    ///
    /// # Errors
    /// As for the async method. `Config` within a Tokio runtime: nothing is sent.
    pub fn proclaim(&self, value: impl AsRef<str>) -> Result<()> {
        self.0.wait(self.0.inner.proclaim(value))
    }
}

impl Deref for LeaderLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.1
    }
}

impl Leaders {
    /// The next leader or the next value, if there is one within `timeout`; `None` otherwise. A
    /// change that comes between two calls is returned by the second call.
    ///
    /// # Errors
    /// `Closed` after a shutdown; `Config` within a Tokio runtime. The error `Config` does not end
    /// the iterator.
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<Leadership>> {
        let stream = self.stream.as_mut().map_err(|error| error.clone())?;
        match self.worker.within(timeout, stream.next())? {
            None => Ok(None),
            Some(Some(news)) => Ok(Some(news)),
            Some(None) => {
                self.stream = Err(Error::closed());
                Err(Error::closed())
            }
        }
    }
}

impl Iterator for Leaders {
    type Item = Result<Leadership>;

    fn next(&mut self) -> Option<Self::Item> {
        let stream = self.stream.as_mut().ok()?;
        let next = self.worker.wait(stream.next());
        match &next {
            Ok(Some(_)) => {}
            Ok(None) => self.stream = Err(Error::closed()),
            Err(refused) => self.stream = Err(refused.clone()),
        }
        next.transpose()
    }
}

impl fmt::Debug for Leaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaders").field("over", &self.stream.is_err()).finish_non_exhaustive()
    }
}

guard!(Leader, LeaderLease, pub resign);
debug_as_async!(Election, LeaderLease);
