//! A view of what is held.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::worker::Worker;
use crate::error::Result;
use crate::lease::Lease as View;
use crate::rules::LostReason;

/// A view of a held lock: cheap to clone, and without a share in holding it.
///
/// All but [`lost`](Self::lost) it has from [`quorumlock::Lease`](crate::Lease):
/// [`token`](crate::Lease::token), [`is_held`](crate::Lease::is_held),
/// [`ensure`](crate::Lease::ensure) and so on. It keeps the quorum's thread, not the lock.
///
/// # Examples
/// ```
/// # fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let guard = quorum.lock("orders/42").acquire(Duration::from_secs(5))?;
/// let lease = guard.lease();
/// let watch = std::thread::spawn(move || lease.lost(Duration::MAX));
/// guard.release()?;
/// assert_eq!(watch.join().unwrap()?, None, "it was released, not lost");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Lease {
    view: View,
    worker: Arc<Worker>,
}

impl Lease {
    pub(super) const fn new(view: View, worker: Arc<Worker>) -> Self {
        Self { view, worker }
    }

    pub(super) const fn worker(&self) -> &Arc<Worker> {
        &self.worker
    }

    /// Waits until the lock is lost, for `timeout` at most, and returns why; `None` where it was
    /// not lost by then, and as soon as it is released. So it can stand in the place of a pause:
    /// `while lease.lost(pause)?.is_none() { .. }` works every `pause` until the lock is lost.
    ///
    /// # Errors
    /// `Config` within a Tokio runtime.
    pub fn lost(&self, timeout: Duration) -> Result<Option<LostReason>> {
        let outcome = self.worker.within(timeout, self.view.outcome())?;
        Ok(outcome.flatten())
    }
}

impl Deref for Lease {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.view, f)
    }
}
