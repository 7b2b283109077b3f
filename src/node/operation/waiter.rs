//! The waiting part of a claim.

use std::time::Duration;

/// A place in the queue of a name. Each ask renews the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// The order in the queue: when `acquire` began, in microseconds.
    pub ticket: u64,
    /// How long a hand-over to this waiter lasts. All asks of one owner have the same time here.
    pub lasts: Duration,
    /// The longest time until the next ask. A node drops a waiter after twice this time.
    pub again: Duration,
}
