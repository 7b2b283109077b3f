//! How long a client pauses before it asks again, if no reply says when to ask.

use std::time::Duration;

/// Bounds of the pause between two rounds.
///
/// Full jitter (<https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/>): each
/// pause is drawn evenly from zero to a ceiling, which doubles with every failure. The first
/// ceiling is at least two measured round trips: clients that ask more often split each other's
/// votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The ceiling is never lower than this. Default 5 ms.
    pub min: Duration,
    /// The ceiling is never higher than this, unless two round trips take longer. Default 250 ms.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { min: Duration::from_millis(5), max: Duration::from_millis(250) }
    }
}

impl Backoff {
    /// The longest pause after failure number `failures`, counted from 0. It is at least two round
    /// trips.
    #[must_use]
    pub fn ceiling(self, failures: u32, round_trip: Duration) -> Duration {
        let base = self.min.max(round_trip.saturating_mul(2));
        base.saturating_mul(1 << failures.min(16)).min(self.max.max(base))
    }

    /// The pause after failure number `failures`. `random` must be evenly distributed.
    #[must_use]
    pub fn pause(self, failures: u32, round_trip: Duration, random: u64) -> Duration {
        self.ceiling(failures, round_trip).mul_f64(share(random))
    }
}

/// Turns a random number into a share: from 0 to below 1.
#[allow(clippy::cast_precision_loss, reason = "a double holds 53 bits exactly")]
pub(super) fn share(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_ceiling_doubles_up_to_its_bound() {
        let backoff = Backoff { min: 10 * MS, max: 70 * MS };
        let ceilings: Vec<_> = (0..5).map(|failures| backoff.ceiling(failures, Duration::ZERO)).collect();
        assert_eq!(ceilings, [10 * MS, 20 * MS, 40 * MS, 70 * MS, 70 * MS]);
    }

    #[test]
    fn far_nodes_are_asked_less_often_than_every_two_round_trips() {
        assert_eq!(Backoff::default().ceiling(0, 150 * MS), 300 * MS);
    }

    #[test]
    fn pauses_are_spread_from_nothing_to_the_ceiling() {
        let backoff = Backoff { min: 100 * MS, max: 100 * MS };
        let pause = |random| backoff.pause(0, Duration::ZERO, random);
        assert_eq!((pause(0), pause(1 << 63)), (Duration::ZERO, 50 * MS));
        assert!(pause(u64::MAX) > 99 * MS);
    }

    proptest! {
        #[test]
        fn a_pause_never_exceeds_its_ceiling(failures: u32, trip in 0u64..10_000, random: u64) {
            let backoff = Backoff::default();
            let trip = Duration::from_millis(trip);
            prop_assert!(backoff.pause(failures, trip, random) <= backoff.ceiling(failures, trip));
        }
    }
}
