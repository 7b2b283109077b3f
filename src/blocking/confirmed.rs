//! What comes of a release after a body has run.

use crate::error::Result;
use crate::lease::Released;

/// The body's work was done while the lock was held: a release that nobody confirmed is logged.
pub(super) fn confirmed(released: Result<Released>) {
    if let Err(error) = released {
        tracing::warn!(%error, "released without confirmation");
    }
}
