//! A held lock.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::lease::Lease;
use super::worker::Worker;
use crate::error::Result;
use crate::lease::{LockGuard as Guard, Released};

/// A held lock. It is renewed as long as this lives, and released when it is dropped.
///
/// Drop waits for nothing, but the last drop of all handles and guards waits for releases, for up to
/// 250 ms. Prefer [`release`](Self::release), which tells what came of it. What can be asked of it, it has from [`Lease`]: how
/// it is [`lost`](Lease::lost), its [`token`](crate::Lease::token),
/// [`is_held`](crate::Lease::is_held), [`ensure`](crate::Lease::ensure) and so on.
///
/// # Examples
/// ```
/// # fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let guard = quorum.lock("orders/42").acquire(Duration::from_secs(5))?;
/// // Give guard.token() to the storage with every write.
/// guard.ensure(Duration::from_secs(1))?;
/// assert_eq!(guard.lost(Duration::from_millis(10))?, None);
/// guard.release()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock is released when its guard is dropped"]
pub struct LockGuard {
    // Dropped before the runtime that sends its release.
    guard: Guard,
    lease: Lease,
}

impl LockGuard {
    pub(super) fn new(guard: Guard, worker: Arc<Worker>) -> Self {
        let lease = Lease::new(guard.lease(), worker);
        Self { guard, lease }
    }

    /// A view that can be given away; it does not keep the lock.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Holds the lock once more: see [`LockGuard::reenter`](crate::LockGuard::reenter).
    ///
    /// # Errors
    /// `Lost` if the lock is not held any more.
    pub fn reenter(&self) -> Result<Self> {
        Ok(Self::new(self.guard.reenter()?, self.lease.worker().clone()))
    }

    /// Gives this hold up; with the last, releases the lock on every node, and waits until a quorum
    /// has confirmed it.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time; `Config` within a Tokio runtime. The
    /// release goes on in the background then, and what it does not reach expires by itself.
    pub fn release(self) -> Result<Released> {
        let Self { guard, lease } = self;
        lease.worker().wait(guard.release())?
    }
}

impl Deref for LockGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.guard, f)
    }
}
