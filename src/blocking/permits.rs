//! Permits that are held.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::worker::Worker;
use crate::error::Result;
use crate::lease::Released;
use crate::lock::{PermitsGuard as Guard, PermitsLease as View};
use crate::rules::LostReason;

/// A view of held permits: cheap to clone, and without a share in holding them.
///
/// All but [`lost`](Self::lost) it has from [`quorumlock::PermitsLease`](crate::PermitsLease):
/// [`permits`](crate::PermitsLease::permits), [`is_held`](crate::PermitsLease::is_held),
/// [`ensure`](crate::PermitsLease::ensure) and so on. It keeps the quorum's thread, not the
/// permits.
///
/// # Examples
/// ```
/// # fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let guard = quorum.semaphore("licences", 3).acquire(2, Duration::from_secs(5))?;
/// let lease = guard.lease();
/// let watch = std::thread::spawn(move || lease.lost(Duration::MAX));
/// guard.release()?;
/// assert_eq!(watch.join().unwrap()?, None, "they were released, not lost");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PermitsLease {
    view: View,
    worker: Arc<Worker>,
}

impl PermitsLease {
    /// Waits until one of them is lost, and with it all, for `timeout` at most, and returns why;
    /// `None` where none was lost by then, and as soon as they are released.
    ///
    /// # Errors
    /// `Config` within a Tokio runtime.
    pub fn lost(&self, timeout: Duration) -> Result<Option<LostReason>> {
        let outcome = self.worker.within(timeout, self.view.outcome())?;
        Ok(outcome.flatten())
    }
}

impl Deref for PermitsLease {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl fmt::Debug for PermitsLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.view, f)
    }
}

/// Held permits of a [`QuorumSemaphore`](super::QuorumSemaphore). They are renewed together as long
/// as this lives, lost together, and released when it is dropped.
///
/// What can be asked of them they have from [`PermitsLease`].
///
/// # Examples
/// ```
/// # fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let guard = quorum.semaphore("ports", 4).acquire(1, Duration::from_secs(5))?;
/// let port = 8080 + guard.permits()[0].number;
/// assert!((8080..8084).contains(&port));
/// guard.release()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the permits are released when their guard is dropped"]
pub struct PermitsGuard {
    // Dropped before the runtime that sends its release.
    guard: Guard,
    lease: PermitsLease,
}

impl PermitsGuard {
    pub(super) fn new(guard: Guard, worker: Arc<Worker>) -> Self {
        let lease = PermitsLease { view: guard.lease(), worker };
        Self { guard, lease }
    }

    /// A view that can be given away; it does not keep the permits.
    #[must_use]
    pub fn lease(&self) -> PermitsLease {
        self.lease.clone()
    }

    /// Releases all of them on every node, and waits until a quorum has confirmed it: see
    /// [`PermitsGuard::release`](crate::PermitsGuard::release).
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time; `Config` within a Tokio runtime. The
    /// releases go on in the background then, and what they do not reach expires by itself.
    pub fn release(self) -> Result<Released> {
        let Self { guard, lease } = self;
        lease.worker.wait(guard.release())?
    }
}

impl Deref for PermitsGuard {
    type Target = PermitsLease;

    fn deref(&self) -> &PermitsLease {
        &self.lease
    }
}

impl fmt::Debug for PermitsGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.guard, f)
    }
}
