//! The winner of an election.

use std::ops::Deref;

use crate::error::{Error, Result};
use crate::lease::{Lease, LockGuard, Released};

/// The longest value that a leader may proclaim, in bytes: 64 KiB.
pub const MAX_VALUE: usize = 65_536;

/// A view of the office of a [`Leader`]. Cheap to clone. Keeping the view does not keep the office.
/// The leader's value can be [proclaimed](Self::proclaim) through each view.
///
/// The view has all methods of [`Lease`], such as [`token`](Lease::token) and
/// [`lost`](Lease::lost).
#[derive(Clone, Debug)]
pub struct LeaderLease(pub(super) Lease);

impl Deref for LeaderLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}

impl LeaderLease {
    /// Publishes a value, such as the address of this leader, to all
    /// [observers](crate::Election::observe). The value is text of up to [`MAX_VALUE`] bytes
    /// without NUL. The value replaces the earlier one, and nodes remove it at the end of the
    /// office. Returns once a quorum of nodes has stored the value.
    ///
    /// A node that does not have the value gets it with the next renewal.
    ///
    /// # Errors
    /// `Config` for a value that is too long or contains NUL. `Lost` if the office was lost.
    /// `Unavailable` if no quorum stored the value within the round timeout: observers may or may
    /// not see the value.
    ///
    /// # Cancel safety
    /// The first poll sends the value, so nodes may store the value even if the call is cancelled.
    pub async fn proclaim(&self, value: impl AsRef<str>) -> Result<()> {
        let value = value.as_ref();
        if value.len() > MAX_VALUE {
            let length = value.len();
            return Err(Error::config(format!(
                "a leader's value has {length} bytes; use at most {MAX_VALUE}, or proclaim an address from which to fetch the value"
            )));
        }
        if value.contains('\0') {
            return Err(Error::config("a leader's value contains a NUL character; encode it, as in base64"));
        }
        self.0.say(value.into()).await
    }
}

/// A held office, which is the lead in an [`Election`](crate::Election). The office is kept while
/// this value lives, and given up when this value is dropped.
///
/// This type has all methods of [`LeaderLease`], such as [`proclaim`](LeaderLease::proclaim).
#[derive(Debug)]
#[must_use = "the office is given up when its leader is dropped"]
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

    /// A view of the office that can be shared. Keeping the view does not keep the office.
    #[must_use]
    pub fn lease(&self) -> LeaderLease {
        self.lease.clone()
    }

    /// Gives up the office, so that the next candidate leads. Waits until a quorum has confirmed
    /// the release.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time. The release goes on in the background. On
    /// nodes that the release does not reach, the hold expires.
    ///
    /// # Cancel safety
    /// Safe: the first poll sends the release, which goes on in the background.
    pub async fn resign(self) -> Result<Released> {
        self.guard.release().await
    }
}
