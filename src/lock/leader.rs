//! Whoever was elected.

use std::ops::Deref;

use crate::error::{Error, Result};
use crate::lease::{Lease, LockGuard, Released};

/// The longest value that a leader proclaims, in bytes: 64 KiB.
pub const MAX_VALUE: usize = 65_536;

/// An office that is held: see [`Election`](crate::Election). It is kept as long as this lives, and
/// given up when it is dropped.
///
/// Its [`token`](Lease::token), how it is [`lost`](Lease::lost) and what remains of it, it has from
/// [`Lease`].
#[derive(Debug)]
#[must_use = "whoever drops it leads no more"]
pub struct Leader {
    guard: LockGuard,
}

impl Deref for Leader {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.guard
    }
}

impl Leader {
    pub(super) const fn new(guard: LockGuard) -> Self {
        Self { guard }
    }

    /// A view that can be given away; it does not keep the office.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.guard.lease()
    }

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
        self.guard.say(value.into()).await
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
