//! Ballots: the numbers that become fencing tokens once a quorum has granted them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Ballots are below this limit, 2^53: a node's Lua computes in doubles, and must compare ballots
/// exactly.
pub const LIMIT: u64 = 1 << 53;

/// Gives out ballots. Each ballot is `max(highest recorded fence or ballot + 1, wall clock in
/// microseconds)`. If a node returned a higher fence to the acquisition, the ballot is above this
/// fence.
///
/// The wall clock only saves a round trip, because it is usually above all fences. If a fence is
/// above the clock, a node answers `stale` with this fence, and the next ballot is above the fence.
/// So the order of tokens does not depend on the clock.
///
/// A fence that is further than [`FAR`] ahead of the wall clock raises only the ballots of the
/// acquisitions that received it. One corrupt fence must not raise the ballots of all names.
#[derive(Debug, Default)]
pub struct Ballots {
    highest: AtomicU64,
}

/// A fence that is further ahead of the wall clock than this does not raise the ballots of other
/// names. Nodes have the same limit for `high`, the highest ballot in their record.
pub const FAR: Duration = Duration::from_secs(86_400);

impl Ballots {
    /// Records a fence that a node returned, unless it is too far ahead of the wall clock.
    pub fn seen(&self, fence: u64, wall: Duration) {
        if !Self::is_far(fence, wall) {
            self.highest.fetch_max(fence, Ordering::AcqRel);
        }
    }

    /// Whether a fence is further than [`FAR`] ahead of the wall clock.
    #[must_use]
    pub fn is_far(fence: u64, wall: Duration) -> bool {
        fence > believed(wall).saturating_add(micros(FAR))
    }

    /// The next ballot. It is above every recorded fence, above every number that [`dealt`]
    /// returned, and above `told`, the highest fence that nodes returned to this acquisition.
    /// `None` if no such number is below 2^53.
    #[must_use]
    pub fn next(&self, wall: Duration, told: u64) -> Option<u64> {
        let next = |highest: u64| Some(dealt(highest, wall));
        let highest = self.highest.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).unwrap_or(LIMIT);
        lifted(dealt(highest, wall), told)
    }
}

/// The next ballot, for any name. `highest` is the highest number so far: a recorded fence, or a
/// number that this function returned.
#[must_use]
pub fn dealt(highest: u64, wall: Duration) -> u64 {
    highest.saturating_add(1).max(believed(wall)).min(LIMIT)
}

/// Raises a number from [`dealt`] above `told`, for one acquisition only. A fence that is far ahead
/// of the wall clock must not raise the ballots of all names. `None` if no such number is below
/// 2^53.
#[must_use]
pub fn lifted(dealt: u64, told: u64) -> Option<u64> {
    Some(dealt.max(told.saturating_add(1))).filter(|&ballot| ballot < LIMIT)
}

/// The wall clock in microseconds. A clock beyond [`LIMIT`] (the year 2255) is wrong, and counts as
/// 0.
fn believed(wall: Duration) -> u64 {
    Some(micros(wall)).filter(|&wall| wall < LIMIT).unwrap_or(0)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ballots() -> Ballots {
        Ballots::default()
    }

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn a_ballot_is_the_wall_clock_where_no_fence_is_higher() {
        assert_eq!(ballots().next(micros(7), 0), Some(7));
    }

    #[test]
    fn a_wall_clock_beyond_the_limit_is_not_believed() {
        assert_eq!(ballots().next(micros(LIMIT), 0), Some(1));
        assert_eq!(ballots().next(micros(LIMIT - 1), 0), Some(LIMIT - 1));
    }

    #[test]
    fn a_wall_clock_that_went_back_never_deals_a_lower_ballot() {
        let ballots = ballots();
        assert_eq!(ballots.next(micros(1_000), 0), Some(1_000));
        assert_eq!(ballots.next(micros(10), 0), Some(1_001));
    }

    #[test]
    fn fence_over_a_day_ahead_lifts_only_its_own_acquisition() {
        let (ballots, wall, day) = (ballots(), micros(1_000), 86_400_000_000);
        ballots.seen(1_000 + day + 1, wall);
        assert_eq!(ballots.next(wall, 0), Some(1_000));
        assert_eq!(ballots.next(wall, 1_000 + day + 1), Some(1_000 + day + 2));
        assert_eq!(ballots.next(wall, 0), Some(1_002), "other acquisitions continue as before");
        ballots.seen(1_000 + day, wall);
        assert_eq!(ballots.next(wall, 0), Some(1_000 + day + 1));
    }

    #[test]
    fn fence_at_the_limit_blocks_its_acquisition_and_no_other() {
        let ballots = ballots();
        ballots.seen(LIMIT - 1, Duration::ZERO);
        assert_eq!(ballots.next(Duration::ZERO, LIMIT - 1), None);
        assert_eq!(ballots.next(Duration::ZERO, u64::MAX), None);
        assert_eq!(ballots.next(Duration::ZERO, 0), Some(3));
    }

    proptest! {
        #[test]
        fn ballots_rise_above_all_that_was_seen_and_dealt(steps in proptest::collection::vec((0u64..1 << 50, 0u64..1 << 50), 1..50)) {
            let ballots = ballots();
            let mut highest = 0;
            for (fence, wall) in steps {
                let wall = Duration::from_micros(wall);
                ballots.seen(fence, wall);
                let ballot = ballots.next(wall, fence).unwrap();
                prop_assert!(ballot > fence && ballot < LIMIT);
                let next = ballots.next(wall, 0).unwrap();
                prop_assert!(next > highest);
                highest = next;
            }
        }
    }
}
