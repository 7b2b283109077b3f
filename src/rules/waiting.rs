//! Waiting in queues: how long a waiter waits for more pushes, and how long it pauses.

use std::time::Duration;

use super::backoff::share;

/// How long a waiter waits for a quorum of pushes after the first push. If no quorum has come by
/// then, the waiter asks with the pushed ballot. The time is two round trips, and at least 5 ms.
/// The time doubles with each failed round in a row, up to 5 s.
#[must_use]
pub fn gathering(round_trip: Duration, failures: u32) -> Duration {
    let base = round_trip.saturating_mul(2).max(Duration::from_millis(5));
    base.saturating_mul(1 << failures.min(12)).min(Duration::from_secs(5))
}

/// How long a waiter pauses after a withdrawal: at random, one to two times the time of
/// [`gathering`]. Without the random part, two waiters could take nodes from each other for ever.
/// `random` must be evenly distributed.
#[must_use]
pub fn pause(round_trip: Duration, failures: u32, random: u64) -> Duration {
    let least = gathering(round_trip, failures);
    least + least.mul_f64(share(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn waiter_gathers_pushes_for_two_round_trips_then_for_longer() {
        assert_eq!(gathering(10 * MS, 0), 20 * MS);
        assert_eq!(gathering(10 * MS, 3), 160 * MS);
        assert_eq!(gathering(10 * MS, 99), 5_000 * MS);
        assert_eq!(gathering(Duration::ZERO, 0), 5 * MS);
    }

    #[test]
    fn pause_is_two_to_four_round_trips_and_longer_in_a_row() {
        assert_eq!(pause(10 * MS, 0, 0), 20 * MS);
        assert!(pause(10 * MS, 0, u64::MAX) > 39 * MS && pause(10 * MS, 0, u64::MAX) <= 40 * MS);
        assert_eq!(pause(10 * MS, 2, 1 << 63), 120 * MS);
    }
}
