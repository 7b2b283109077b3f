//! Until when a node's replies do not count.

use crate::rules::tick::Tick;

/// The wait that follows from a doubt, or from the age of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Wait {
    /// Until then, the node may not vote on claims.
    pub(super) until: Tick,
    /// From then on, `extended` counts.
    pub(super) settled: Tick,
}

impl Wait {
    pub(super) fn longer(self, other: Self) -> Self {
        Self { until: self.until.max(other.until), settled: self.settled.max(other.settled) }
    }

    pub(super) fn is_over(self, now: Tick) -> bool {
        now >= self.until.max(self.settled)
    }
}
