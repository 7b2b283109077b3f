//! Elections: who holds a name leads.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::confirmed::confirmed;
use super::leader::{Leader, LeaderLease};
use super::leaders::Leaders;
use super::quorum::Quorum;
use super::worker::Worker;
use crate::config::LockOptions;
use crate::error::{Error, Result};
use crate::lock::Election as Contest;

/// An election: at most one leads at a time, and everybody else can see who does and what it
/// proclaimed. [`quorumlock::Election`](crate::Election) for threads.
///
/// Cheap to clone, `Send` and `Sync`.
///
/// # Examples
/// ```
/// # fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::thread;
/// use std::time::Duration;
///
/// let election = quorum.election("scheduler");
/// let mut leaders = election.observe()?;
/// let observer = thread::spawn(move || leaders.next());
///
/// let leader = election.campaign(Duration::from_secs(5))?;
/// let seen = observer.join().unwrap().expect("somebody leads")?;
/// assert_eq!(seen.token, leader.token());
/// leader.resign()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Election {
    election: Contest,
    worker: Arc<Worker>,
}

impl Quorum {
    /// The election on `name`: see [`Quorum::election`](crate::Quorum::election).
    #[must_use]
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election { election: self.0.quorum.election(name), worker: self.0.clone() }
    }

    /// The election on `name` with options of its own.
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with).
    pub fn election_with(&self, name: impl AsRef<str>, options: &LockOptions) -> Result<Election> {
        Ok(Election { election: self.0.quorum.election_with(name, options)?, worker: self.0.clone() })
    }
}

impl Election {
    /// Waits until this caller leads, for `timeout` at most: see
    /// [`Election::campaign`](crate::Election::campaign).
    ///
    /// # Errors
    /// As [`QuorumLock::acquire`](super::QuorumLock::acquire): `Timeout` if others led until the
    /// time ended.
    pub fn campaign(&self, timeout: Duration) -> Result<Leader> {
        let office = self.worker.wait(self.election.campaign(timeout))??;
        Ok(Leader::new(office, self.worker.clone()))
    }

    /// Waits until this caller leads, for as long as its options say: by default 10 s.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign).
    pub fn campaign_default(&self) -> Result<Leader> {
        let office = self.worker.wait(self.election.campaign_default())??;
        Ok(Leader::new(office, self.worker.clone()))
    }

    /// Waits until this caller leads, runs `body`, and resigns.
    ///
    /// A thread cannot be stopped: a body that runs for long asks what it is given
    /// ([`ensure`](crate::Lease::ensure), [`lost`](super::Lease::lost)) whether to go on. If the
    /// body panics, the office is given up in the background.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign), and `Lost` if the office was lost before the body ended. A
    /// resignation that no quorum confirms is not an error here.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let election = quorum.election("scheduler");
    /// election.try_run(Duration::from_secs(5), |leader| leader.proclaim("10.0.0.7:8080"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T>(&self, timeout: Duration, body: impl FnOnce(&LeaderLease) -> T) -> Result<T> {
        let leader = self.campaign(timeout)?;
        let output = body(&leader);
        leader.ensure(Duration::ZERO)?;
        confirmed(leader.resign());
        Ok(output)
    }

    /// As [`run`](Self::run), for a body that can fail: one `Result`, with the errors of both. The
    /// office is given up whatever the body comes to.
    ///
    /// # Errors
    /// As [`run`](Self::run), turned into the body's kind of error, and what the body returns.
    pub fn try_run<T, E: From<Error>>(
        &self,
        timeout: Duration,
        body: impl FnOnce(&LeaderLease) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(timeout, body)?
    }

    /// Leaders and what they proclaim, from now on, beginning with the present leader if there is
    /// one: see [`Election::observe`](crate::Election::observe).
    ///
    /// # Errors
    /// `Config` for a bad name or within a Tokio runtime; `Closed` after a shutdown.
    pub fn observe(&self) -> Result<Leaders> {
        let stream = self.worker.wait(async { self.election.observe() })??;
        Ok(Leaders::new(stream, self.worker.clone()))
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.election, f)
    }
}
