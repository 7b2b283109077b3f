//! A held lock.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::worker::Worker;
use crate::error::Result;
use crate::lease::{Lease, LockGuard as Guard, Released};

/// A held lock. It is renewed as long as this lives, and released when it is dropped.
///
/// Drop waits for nothing, and where the program ends right after it the lock may be held until its
/// ttl ends: prefer [`release`](Self::release). What can be asked of it, it has from [`Lease`]:
/// [`token`](Lease::token), [`is_held`](Lease::is_held), [`ensure`](Lease::ensure) and so on.
#[must_use = "the lock is released when its guard is dropped"]
pub struct LockGuard {
    // Dropped before the runtime that sends its release.
    guard: Guard,
    worker: Arc<Worker>,
}

impl LockGuard {
    pub(super) const fn new(guard: Guard, worker: Arc<Worker>) -> Self {
        Self { guard, worker }
    }

    /// A view that can be given away; it does not keep the lock.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.guard.lease()
    }

    /// Holds the lock once more: see [`LockGuard::reenter`](crate::LockGuard::reenter).
    ///
    /// # Errors
    /// `Lost` if the lock is not held any more; `Unavailable` if no quorum confirmed the count;
    /// `Config` within a Tokio runtime. This guard is not affected.
    pub fn reenter(&self) -> Result<Self> {
        let guard = self.worker.wait(self.guard.reenter())??;
        Ok(Self::new(guard, self.worker.clone()))
    }

    /// Gives this hold up; with the last, releases the lock on every node, and waits until a quorum
    /// has confirmed it.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time; `Config` within a Tokio runtime. The
    /// release goes on in the background then, and what it does not reach expires by itself.
    pub fn release(self) -> Result<Released> {
        let Self { guard, worker } = self;
        worker.wait(guard.release())?
    }
}

impl Deref for LockGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.guard
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.guard, f)
    }
}
