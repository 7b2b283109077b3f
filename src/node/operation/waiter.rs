//! What a claim says that waits in a node's queue.

use std::time::Duration;

/// A place in the queue of a name, which each ask renews.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// Who came first: the microsecond at which the acquire began.
    pub ticket: u64,
    /// How long a hand-over to it lasts. The same in all asks of one owner.
    pub lasts: Duration,
    /// When it asks again, at the latest. A node drops a waiter that has not in twice that time.
    pub again: Duration,
}
