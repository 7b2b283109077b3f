//! Waiting in line: how long a turn lasts, how often a waiter asks by itself, how long it gathers
//! hints.

use std::time::Duration;

use super::backoff::share;

/// How long a turn lasts that nobody takes: long enough for the first in line to hear of it and to
/// ask, five round trips; from 100 ms to 2 s, and 500 ms as long as nothing is measured.
#[must_use]
pub fn grace(round_trip: Duration) -> Duration {
    if round_trip.is_zero() {
        return Duration::from_millis(500);
    }
    round_trip.saturating_mul(5).clamp(Duration::from_millis(100), Duration::from_secs(2))
}

/// How long a waiter that hears nothing waits before it asks by itself: a third of the ttl, 5 s at
/// most.
#[must_use]
pub fn poll(ttl: Duration) -> Duration {
    (ttl / 3).min(Duration::from_secs(5))
}

/// For how long a node keeps a place that is not asked for again: three polls, and a second for the
/// way.
#[must_use]
pub fn patience(ttl: Duration) -> Duration {
    poll(ttl) * 3 + Duration::from_secs(1)
}

/// How long after the first hint a waiter waits for those of a quorum before it asks all the same.
/// Doubles with every round that failed, since nodes that are free alone give their turn again and
/// again; and is longer by up to half of that from then on, so that those who split the nodes
/// between them do not ask at the same time again. `random` is evenly distributed.
#[must_use]
pub fn gathering(round_trip: Duration, failures: u32, random: u64) -> Duration {
    let base = round_trip.saturating_mul(2).max(Duration::from_millis(5));
    let least = base.saturating_mul(1 << failures.min(12)).min(Duration::from_secs(5));
    if failures == 0 { least } else { least + (least / 2).mul_f64(share(random)) }
}

/// The same for whoever has several names to wait for, and asks again no sooner than after `pause`,
/// half a turn: it has its place on a node again by asking, which has to be before its turn there
/// has ended, however often it has asked. At least half of `pause`, and all of it at most.
#[must_use]
pub fn within_a_turn(pause: Duration, random: u64) -> Duration {
    pause / 2 + (pause / 2).mul_f64(share(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_turn_lasts_five_round_trips_within_bounds() {
        assert_eq!(grace(Duration::ZERO), 500 * MS);
        assert_eq!(grace(MS), 100 * MS);
        assert_eq!(grace(100 * MS), 500 * MS);
        assert_eq!(grace(1_000 * MS), 2_000 * MS);
    }

    #[test]
    fn a_waiter_asks_by_itself_thrice_a_ttl_and_its_place_outlasts_that() {
        assert_eq!(poll(300 * MS), 100 * MS);
        assert_eq!(poll(60_000 * MS), 5_000 * MS);
        assert_eq!(patience(300 * MS), 1_300 * MS);
    }

    #[test]
    fn rounds_that_rest_on_too_few_hints_become_rare() {
        assert_eq!(gathering(10 * MS, 0, 0), 20 * MS);
        assert_eq!(gathering(10 * MS, 3, 0), 160 * MS);
        assert_eq!(gathering(10 * MS, 99, 0), 5_000 * MS);
    }

    #[test]
    fn whoever_waits_for_several_names_asks_before_its_turn_has_ended() {
        let turn = grace(100 * MS);
        assert_eq!(within_a_turn(turn / 2, 0), turn / 4);
        // Both ways of the hint and of the claim are one round trip.
        assert!(within_a_turn(turn / 2, u64::MAX) + 100 * MS < turn);
    }

    #[test]
    fn those_who_split_the_nodes_do_not_ask_at_the_same_time_again() {
        assert_eq!(gathering(10 * MS, 0, u64::MAX), 20 * MS);
        assert_eq!(gathering(10 * MS, 3, u64::MAX / 2), 200 * MS);
        assert!(gathering(10 * MS, 3, u64::MAX) > 239 * MS && gathering(10 * MS, 99, u64::MAX) <= 7_500 * MS);
    }
}
