//! Ballots: the numbers that become fencing tokens once a quorum has granted them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Ballots stay below 2^53, so that a node's Lua, which counts in doubles, compares them exactly.
pub const LIMIT: u64 = 1 << 53;

/// Deals ballots: each is `max(highest fence seen + 1, wall clock in microseconds)`.
///
/// The wall clock only spares a round trip: where it is wrong, a node answers `stale` with its fence, and the next ballot
/// lies above that. Order never rests on it.
#[derive(Debug, Default)]
pub struct Ballots {
    highest: AtomicU64,
}

impl Ballots {
    /// Takes note of a fence that a node told.
    pub fn seen(&self, fence: u64) {
        self.highest.fetch_max(fence, Ordering::AcqRel);
    }

    /// The next ballot, above every fence seen and every ballot dealt. `None` when the numbers below 2^53 are used up.
    #[must_use]
    pub fn next(&self, wall: Duration) -> Option<u64> {
        let wall = u64::try_from(wall.as_micros()).unwrap_or(0);
        let mut dealt = None;
        let update = |highest: u64| {
            dealt = next(highest, wall);
            dealt
        };
        self.highest.fetch_update(Ordering::AcqRel, Ordering::Acquire, update).ok()?;
        dealt
    }
}

fn next(highest: u64, wall: u64) -> Option<u64> {
    // A wall clock beyond the limit (the year 2255) is as wrong as a clock that stands still.
    let wall = if wall < LIMIT { wall } else { 0 };
    let ballot = highest.saturating_add(1).max(wall);
    (ballot < LIMIT).then_some(ballot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_ballot_is_the_wall_clock_where_no_fence_is_higher() {
        assert_eq!(Ballots::default().next(Duration::from_micros(7)), Some(7));
    }

    #[test]
    fn a_wall_clock_beyond_the_limit_is_not_believed() {
        assert_eq!(Ballots::default().next(Duration::from_micros(LIMIT)), Some(1));
        assert_eq!(Ballots::default().next(Duration::from_micros(LIMIT - 1)), Some(LIMIT - 1));
    }

    #[test]
    fn a_wall_clock_that_went_back_never_deals_a_lower_ballot() {
        let ballots = Ballots::default();
        assert_eq!(ballots.next(Duration::from_micros(1_000)), Some(1_000));
        assert_eq!(ballots.next(Duration::from_micros(10)), Some(1_001));
    }

    #[test]
    fn a_fence_at_the_limit_leaves_no_ballot_and_breaks_nothing() {
        let ballots = Ballots::default();
        ballots.seen(LIMIT - 1);
        assert_eq!(ballots.next(Duration::ZERO), None);
        assert_eq!(ballots.next(Duration::MAX), None);
    }

    proptest! {
        #[test]
        fn ballots_rise_above_all_that_was_seen_and_dealt(steps in proptest::collection::vec((0u64..1 << 50, 0u64..1 << 50), 1..50)) {
            let ballots = Ballots::default();
            let mut highest = 0;
            for (fence, wall) in steps {
                ballots.seen(fence);
                let ballot = ballots.next(Duration::from_micros(wall)).unwrap();
                prop_assert!(ballot > highest.max(fence));
                prop_assert!(ballot < LIMIT);
                highest = ballot;
            }
        }
    }
}
