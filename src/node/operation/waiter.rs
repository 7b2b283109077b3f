//! The waiting part of a claim.

use std::time::Duration;

/// A place in the queue of a name. Each ask renews the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// The order in the queue: when `acquire` began, in microseconds.
    pub arrival: u64,
    /// How long a hand-over to this waiter lasts. This time is the same in all asks of one owner.
    pub lasts: Duration,
    /// The longest time from one ask to the next. A node drops a waiter whose last ask is more than
    /// twice this time ago.
    pub again: Duration,
}
