//! Whoever was elected.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::lease::Lease;
use super::worker::Worker;
use crate::error::Result;
use crate::lease::Released;
use crate::lock::Leader as Office;

/// An office that is held: see [`Election`](super::Election). It is kept as long as this lives, and
/// given up when it is dropped.
///
/// How it is [`lost`](Lease::lost), its [`token`](crate::Lease::token) and what remains of it, it
/// has from [`Lease`].
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
    lease: Lease,
}

impl Leader {
    pub(super) fn new(office: Office, worker: Arc<Worker>) -> Self {
        let lease = Lease::new(office.lease(), worker);
        Self { office, lease }
    }

    /// A view that can be given away; it does not keep the office.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Tells all who [observe](super::Election::observe) a value: see
    /// [`Leader::proclaim`](crate::Leader::proclaim).
    ///
    /// # Errors
    /// As [`Leader::proclaim`](crate::Leader::proclaim), and `Config` within a Tokio runtime; then
    /// nothing was sent.
    pub fn proclaim(&self, value: impl AsRef<str>) -> Result<()> {
        self.lease.worker().wait(self.office.proclaim(value))?
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
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl fmt::Debug for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.office, f)
    }
}
