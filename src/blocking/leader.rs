//! Whoever was elected.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::lease::Lease;
use super::worker::Worker;
use crate::error::Result;
use crate::lease::Released;
use crate::lock::{Leader as Office, LeaderLease as View};

/// A view of an office that is held: cheap to clone, and without a share in keeping it. Whoever has
/// one [proclaims](Self::proclaim) for the leader.
///
/// How it is [`lost`](Lease::lost), its [`token`](crate::Lease::token) and what remains of it, it
/// has from [`Lease`].
///
/// # Examples
/// ```
/// # fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::thread;
/// use std::time::Duration;
///
/// let leader = quorum.election("scheduler").campaign(Duration::from_secs(5))?;
/// let lease = leader.lease();
/// thread::spawn(move || lease.proclaim("10.0.0.7:8080")).join().unwrap()?;
/// leader.resign()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LeaderLease {
    view: View,
    lease: Lease,
}

impl LeaderLease {
    fn new(view: View, worker: Arc<Worker>) -> Self {
        let lease = Lease::new((*view).clone(), worker);
        Self { view, lease }
    }

    /// Tells all who [observe](super::Election::observe) a value: see
    /// [`LeaderLease::proclaim`](crate::LeaderLease::proclaim).
    ///
    /// # Errors
    /// As [`LeaderLease::proclaim`](crate::LeaderLease::proclaim), and `Config` within a Tokio
    /// runtime; then nothing was sent.
    pub fn proclaim(&self, value: impl AsRef<str>) -> Result<()> {
        self.lease.worker().wait(self.view.proclaim(value))?
    }
}

impl Deref for LeaderLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl fmt::Debug for LeaderLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.view, f)
    }
}

/// An office that is held: see [`Election`](super::Election). It is kept as long as this lives, and
/// given up when it is dropped.
///
/// What can be asked of it, and [proclaimed](LeaderLease::proclaim), it has from [`LeaderLease`].
///
/// # Examples
/// ```
/// # fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let leader = quorum.election("scheduler").campaign(Duration::from_secs(5))?;
/// leader.proclaim("10.0.0.7:8080")?;
/// assert_eq!(leader.lost(Duration::from_millis(10))?, None);
/// leader.resign()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "whoever drops it leads no more"]
pub struct Leader {
    // Dropped before the runtime that sends its release.
    office: Office,
    lease: LeaderLease,
}

impl Leader {
    pub(super) fn new(office: Office, worker: Arc<Worker>) -> Self {
        let lease = LeaderLease::new(office.lease(), worker);
        Self { office, lease }
    }

    /// A view that can be given away; it does not keep the office.
    #[must_use]
    pub fn lease(&self) -> LeaderLease {
        self.lease.clone()
    }

    /// Gives the office up: the next candidate may lead at once. Waits until a quorum has confirmed
    /// that.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time; `Config` within a Tokio runtime. It goes on
    /// in the background then, and what it does not reach expires by itself.
    pub fn resign(self) -> Result<Released> {
        let Self { office, lease } = self;
        lease.worker().wait(office.resign())?
    }
}

impl Deref for Leader {
    type Target = LeaderLease;

    fn deref(&self) -> &LeaderLease {
        &self.lease
    }
}

impl fmt::Debug for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.office, f)
    }
}
