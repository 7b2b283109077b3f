//! How long a granted lock may be relied on.
//!
//! By the description of Redlock,
//! <https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>, the validity is the ttl
//! minus the duration of the round minus the drift. This file counts the ttl minus the drift from
//! `t0`, which is read *before* the first send. So the round's duration is subtracted, too.

use std::time::Duration;

use super::tick::Tick;

/// No vote for a claim counts for longer than this after the claim was sent. So no round lasts
/// longer.
///
/// The rule about nodes that lost their memory depends on this limit. From `1.02 * MAX_ROUND` after
/// a node lost its memory, no round of any client counts a grant that the node has forgotten.
pub const MAX_ROUND: Duration = Duration::from_secs(5);

/// How far two clocks may run apart during a ttl: `ttl * factor + constant`.
///
/// The factor covers clocks of different rates. The constant covers the resolution of the node's
/// expiry (1 ms) and of this client's clock (1 ms).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// The share of the ttl by which clocks may run apart. Default 0.01.
    pub factor: f64,
    /// A constant that is added to that share of the ttl. Default 2 ms.
    pub constant: Duration,
}

impl Default for Drift {
    fn default() -> Self {
        Self { factor: 0.01, constant: Duration::from_millis(2) }
    }
}

impl Drift {
    /// The drift for a lock with this ttl.
    #[must_use]
    pub fn of(self, ttl: Duration) -> Duration {
        ttl.mul_f64(self.factor).saturating_add(self.constant)
    }
}

/// A ttl, and how much of it may be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Validity {
    ttl: Duration,
    drift: Duration,
}

impl Validity {
    /// The validity of a lock that was requested for `ttl`.
    #[must_use]
    pub fn new(ttl: Duration, drift: Drift) -> Self {
        Self { ttl, drift: drift.of(ttl) }
    }

    /// The validity of another ttl. For a longer ttl, the drift grows in proportion. For a shorter
    /// ttl, the drift stays the same.
    #[must_use]
    pub fn lasting(self, ttl: Duration) -> Self {
        let share = if ttl > self.ttl { ttl.as_secs_f64() / self.ttl.as_secs_f64() } else { 1.0 };
        Self { ttl, drift: self.drift.mul_f64(share) }
    }

    /// The requested ttl.
    #[must_use]
    pub const fn ttl(self) -> Duration {
        self.ttl
    }

    /// How long after `t0` the lock may be relied on: `ttl - drift`.
    #[must_use]
    pub const fn length(self) -> Duration {
        self.ttl.saturating_sub(self.drift)
    }

    /// The deadline of a round whose first request was sent after `t0`: `t0 + ttl - drift`.
    #[must_use]
    pub fn deadline(self, t0: Tick) -> Tick {
        t0 + self.length()
    }

    /// Whether a round that began at `t0` and got its quorum at `now` was in time. More than
    /// `min_validity` must be left, and less than [`MAX_ROUND`] must have passed.
    #[must_use]
    pub fn suffices(self, t0: Tick, now: Tick, min_validity: Duration) -> bool {
        now < self.deadline(t0).minus(min_validity) && now < t0 + MAX_ROUND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(since: u64) -> Tick {
        Tick::new(ms(since))
    }

    #[test]
    fn deadline_is_the_ttl_from_t0_minus_one_percent_and_2_ms() {
        let validity = Validity::new(ms(10_000), Drift::default());
        assert_eq!(validity.deadline(at(500)), at(500 + 10_000 - 102));
    }

    #[test]
    fn a_round_that_ends_at_the_deadline_has_failed() {
        let validity = Validity::new(ms(1_000), Drift::default());
        assert!(validity.suffices(at(0), at(987), Duration::ZERO));
        assert!(!validity.suffices(at(0), at(988), Duration::ZERO));
    }

    #[test]
    fn votes_of_a_round_that_took_too_long_count_for_nothing() {
        let validity = Validity::new(ms(60_000), Drift::default());
        assert!(validity.suffices(at(7), at(5_006), Duration::ZERO));
        assert!(!validity.suffices(at(7), at(5_007), Duration::ZERO), "MAX_ROUND after the first send");
    }

    #[test]
    fn the_least_validity_asked_for_is_kept() {
        let validity = Validity::new(ms(1_000), Drift::default());
        assert!(validity.suffices(at(0), at(887), ms(100)));
        assert!(!validity.suffices(at(0), at(888), ms(100)));
    }

    #[test]
    fn a_drift_beyond_the_ttl_leaves_nothing_to_believe() {
        let drift = Drift { factor: 2.0, constant: Duration::ZERO };
        assert_eq!(Validity::new(ms(100), drift).length(), Duration::ZERO);
    }
}
