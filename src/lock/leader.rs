//! Whoever was elected.

use std::ops::Deref;

use super::scoped::Scope;
use crate::error::{Error, Result};
use crate::lease::{Lease, LockGuard, Released};
use crate::rules::LostReason;

/// The longest value that a leader proclaims, in bytes: 64 KiB.
pub const MAX_VALUE: usize = 65_536;

/// A view of an office that is held: cheap to clone, and without a share in keeping it. Whoever has
/// one [proclaims](Self::proclaim) for the leader.
///
/// Its [`token`](Lease::token), how it is [`lost`](Lease::lost) and what remains of it, it has from
/// [`Lease`].
#[derive(Clone, Debug)]
pub struct LeaderLease(Lease);

impl Deref for LeaderLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}

impl LeaderLease {
    /// Tells all who [observe](crate::Election::observe) a value, such as the address where this
    /// leader is to be found: text of up to [`MAX_VALUE`] bytes without NUL. It takes the place of
    /// what was proclaimed before, and goes with the office. Returns once a quorum of nodes has
    /// stored it.
    ///
    /// A node that forgot it gets it again with a later renewal.
    ///
    /// # Errors
    /// `Config` for a value that is too long or contains NUL. `Lost` if the office was lost.
    /// `Unavailable` if no quorum stored it within the round timeout: observers may see it or not.
    ///
    /// # Cancel safety
    /// The value was sent when this is first polled; some nodes may store it.
    pub async fn proclaim(&self, value: impl AsRef<str>) -> Result<()> {
        let value = value.as_ref();
        if value.len() > MAX_VALUE {
            let length = value.len();
            return Err(Error::config(format!(
                "a leader's value has {length} bytes; use at most {MAX_VALUE}, or proclaim where to find it"
            )));
        }
        if value.contains('\0') {
            return Err(Error::config("a leader's value contains a NUL character; encode it, as in base64"));
        }
        self.0.say(value.into()).await
    }
}

/// An office that is held: see [`Election`](crate::Election). It is kept as long as this lives, and
/// given up when it is dropped.
///
/// What can be asked of it, and [proclaimed](LeaderLease::proclaim), it has from [`LeaderLease`].
#[derive(Debug)]
#[must_use = "whoever drops it leads no more"]
pub struct Leader {
    lease: LeaderLease,
    guard: LockGuard,
}

impl Deref for Leader {
    type Target = LeaderLease;

    fn deref(&self) -> &LeaderLease {
        &self.lease
    }
}

impl Leader {
    pub(super) fn new(guard: LockGuard) -> Self {
        Self { lease: LeaderLease(guard.lease()), guard }
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
    /// `Unavailable` if too few nodes answered in time. It goes on in the background, and what it
    /// does not reach expires by itself.
    ///
    /// # Cancel safety
    /// Safe: it has been sent when this is first polled, and goes on in the background.
    pub async fn resign(self) -> Result<Released> {
        self.guard.release().await
    }
}

impl Scope for Leader {
    type View = LeaderLease;

    fn view(&self) -> LeaderLease {
        self.lease()
    }

    async fn until_lost(&self) -> LostReason {
        self.lost().await
    }

    fn is_lost(&self) -> bool {
        !self.is_held()
    }

    fn lost_error(&self) -> Error {
        Lease::lost_error(self)
    }

    async fn give_up(self) -> Result<Released> {
        self.resign().await
    }
}
