//! Checks the options of a lock together, and derives the rules from them.

use std::time::Duration;

use super::options::LockOptions;
use super::{MAX_TTL, SECOND};
use crate::error::{Error, Result};
use crate::metrics::Class;
use crate::rules::validity::MAX_ROUND;
use crate::rules::{Backoff, Drift, Validity, handover};
use crate::words::exact;

/// The shortest ttl, 100 ms. Drift and round trips would use up too much of a shorter ttl.
pub const MIN_TTL: Duration = Duration::from_millis(100);
/// The smallest allowed `drift_constant`, as in Redlock: "2 milliseconds for small TTLs" in
/// <https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>.
const LEAST_DRIFT: Duration = Duration::from_millis(2);

/// The checked options of a lock, with derived values.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) validity: Validity,
    pub(crate) drift: Drift,
    pub(crate) min_validity: Duration,
    pub(crate) round_timeout: Duration,
    pub(crate) auto_renew: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) backoff: Backoff,
    pub(crate) fair: bool,
    /// The timeout of `acquire_default`.
    pub(crate) wait: Duration,
    pub(crate) max_rounds: Option<u32>,
    /// Waiters behind the first two of a node's queue ask again after a third of this ttl, or after
    /// the length of a hand-over if that is longer.
    pub(crate) places: Duration,
    /// The period of a [`Once`](crate::Once): nodes hold the names for this time. Without renewals,
    /// the lease ends after the ttl.
    pub(crate) period: Option<Duration>,
    pub(crate) class: Class,
    /// Whether spans have the name of the lock.
    pub(crate) trace_name: bool,
}

impl Rules {
    /// Whether an acquisition gives up after this many rounds.
    pub(crate) fn spent(&self, rounds: u32) -> bool {
        self.max_rounds.is_some_and(|most| rounds >= most)
    }

    /// The longest time for which a call that does not wait for holders tries again after split
    /// votes.
    pub(crate) fn longest_try(&self) -> Duration {
        self.round_timeout * 2
    }

    /// The rules of a semaphore's gate. While the gate's holder waits for permits, it renews the
    /// gate. Each renewal lasts as long as a hand-over, so a dead holder delays other callers no
    /// longer than a dead waiter does.
    ///
    /// These rules would pass all checks of `LockOptions::checked`. If drift would use up half of a
    /// hand-over, each renewal lasts for the ttl.
    pub(crate) fn of_gate(&self, round_trip: Duration) -> Self {
        let lasts = handover::lasts(self.validity.ttl(), self.drift, round_trip);
        let validity = if leaves_enough(self.drift, lasts.ttl()) { lasts } else { self.validity };
        // If a renewal gets no answer, enough validity must be left for another renewal.
        let round_timeout = self.round_timeout.min(validity.length() / 3);
        let (auto_renew, max_hold, min_validity) = (true, None, Duration::ZERO);
        Self { validity, round_timeout, auto_renew, max_hold, min_validity, ..self.clone() }
    }

    /// How long a caller may wait for its turn among the callers of this process; `None` if only
    /// the caller's own timeout limits this wait.
    pub(crate) fn longest_turn(&self) -> Option<Duration> {
        self.max_rounds.map(|most| self.round_timeout.saturating_mul(most))
    }
}

impl LockOptions {
    /// If a node's clock and this client's clock run apart by more than this share, the node's
    /// clock counts as stepped. At least 0.01.
    pub(crate) const fn clock_rate(&self) -> f64 {
        self.drift.factor.max(0.01)
    }

    /// Checks the options of one lock. `shared` are the quorum's options. They decide when a node's
    /// clock counts as stepped, so they limit the lock's drift factor.
    pub(crate) fn checked_for(&self, shared: &Self, max_ttl: Duration) -> Result<Rules> {
        let (factor, rate) = (self.drift.factor, shared.clock_rate());
        let rules = self.checked(max_ttl)?;
        require(factor <= rate, || {
            format!(
                "drift_factor is {factor}, above the quorum's drift_factor of {rate}; set {factor} in \
                 QuorumBuilder::options, or use at most {rate} here"
            )
        })?;
        Ok(rules)
    }

    /// Checks all options together. If `max_ttl` is zero, only [`MAX_TTL`] limits the ttl.
    pub(crate) fn checked(&self, max_ttl: Duration) -> Result<Rules> {
        let ttl = self.ttl.unwrap_or(30 * SECOND);
        let longest = if max_ttl.is_zero() { MAX_TTL } else { max_ttl };
        require(ttl >= MIN_TTL, || format!("ttl is {}; use at least {}", exact(ttl), exact(MIN_TTL)))?;
        require(ttl <= MAX_TTL, || too_long("ttl", ttl))?;
        require(ttl <= longest, || {
            format!(
                "ttl is {}, above max_ttl; use at most {}, or raise max_ttl for all clients (restarted \
                 nodes then wait that long)",
                exact(ttl),
                exact(longest)
            )
        })?;
        let factor = self.drift.factor;
        require((0.0..=0.2).contains(&factor), || format!("drift_factor is {factor}; use 0 to 0.2, by default 0.01"))?;
        let constant = self.drift.constant;
        require(constant >= LEAST_DRIFT, || {
            let (constant, least) = (exact(constant), exact(LEAST_DRIFT));
            format!("drift_constant is {constant}; use at least {least}: nodes count whole milliseconds")
        })?;
        require(leaves_enough(self.drift, ttl), || {
            let (drift, ttl) = (exact(self.drift.of(ttl)), exact(ttl));
            format!("drift is {drift}, half of ttl or more; lower drift_constant or raise ttl ({ttl})")
        })?;
        let validity = Validity::new(ttl, self.drift);
        let length = validity.length();
        let least = self.min_validity;
        require(least < length, || {
            let (least, length) = (exact(least), exact(length));
            format!("min_validity is {least}; use less than {length}, which is ttl minus drift")
        })?;
        let round = self.round_timeout.unwrap_or((length / 3).min(2 * SECOND));
        require(!round.is_zero() && round <= length - least, || {
            format!(
                "round_timeout is {}; use more than zero and at most {}, which is ttl minus drift and min_validity",
                exact(round),
                exact(length - least)
            )
        })?;
        require(round <= MAX_ROUND, || {
            format!("round_timeout is {}; use at most {}: no vote counts for longer", exact(round), exact(MAX_ROUND))
        })?;
        let Backoff { min, max } = self.backoff;
        require(!min.is_zero() && min <= max, || {
            let (min, max) = (exact(min), exact(max));
            format!("backoff is {min} to {max}; the least pause must be above zero, and at most the greatest pause")
        })?;
        require(self.max_hold.is_none_or(|longest| longest >= ttl), || {
            format!(
                "max_hold is {}; use at least ttl ({}), or turn auto_renew off",
                exact(self.max_hold.unwrap_or_default()),
                exact(ttl)
            )
        })?;
        require(self.max_rounds != Some(0), || "max_rounds is 0; use at least 1".to_owned())?;
        self.metrics_class.as_deref().map_or(Ok(()), |class| labelled("metrics_class", class, 32))?;
        Ok(Rules {
            validity,
            drift: self.drift,
            min_validity: least,
            round_timeout: round,
            auto_renew: !self.manual,
            max_hold: self.max_hold,
            backoff: self.backoff,
            fair: !self.barging,
            wait: self.wait.unwrap_or(10 * SECOND),
            max_rounds: self.max_rounds,
            places: ttl,
            period: None,
            class: Class::named(self.metrics_class.as_deref().unwrap_or_default()),
            trace_name: self.trace_name,
        })
    }
}

/// Whether drift leaves more than half of a ttl.
fn leaves_enough(drift: Drift, ttl: Duration) -> bool {
    drift.of(ttl) < ttl / 2
}

pub(super) fn too_long(what: &str, time: Duration) -> String {
    format!(
        "{what} is {}; use at most {}: after a restart, a node does not vote for max_ttl, the longest ttl of any lock. \
         Work may take longer than the ttl: the client renews a held lock",
        exact(time),
        exact(MAX_TTL)
    )
}

/// Checks that a text may be the value of a label: none of its characters needs escaping.
pub(super) fn labelled(what: &str, text: &str, most: usize) -> Result<()> {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    require(plain && (1..=most).contains(&text.len()), || {
        format!("{what} must have 1 to {most} of the characters a-z A-Z 0-9 _ . -, since it is a label of metrics")
    })
}

pub(super) fn require(right: bool, otherwise: impl FnOnce() -> String) -> Result<()> {
    if right { Ok(()) } else { Err(Error::config(otherwise())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const GUARD: Duration = Duration::from_secs(60);

    fn said(options: LockOptions) -> String {
        options.checked(GUARD).map_or_else(|error| error.to_string(), |rules| format!("{rules:?}"))
    }

    #[test]
    fn invalid_option_is_refused_by_its_field_name() {
        let options = LockOptions::default;
        for (options, field) in [
            (options().ttl(Duration::ZERO), "ttl is 0 s; use at least 100 ms"),
            (options().ttl(MS), "ttl is 1 ms"),
            (options().ttl(61 * SECOND), "ttl is 61 s, above max_ttl"),
            (options().drift_factor(f64::NAN), "drift_factor is NaN"),
            (options().drift_factor(-0.1), "drift_factor"),
            (options().ttl(100 * MS).drift_constant(50 * MS), "drift is 51 ms"),
            (options().drift_constant(Duration::ZERO), "drift_constant is 0 s; use at least 2 ms"),
            (options().drift_constant(2 * MS - Duration::from_nanos(1)), "drift_constant is 1.999999 ms"),
            (options().ttl(SECOND).min_validity(988 * MS), "min_validity is 988 ms; use less than 988 ms"),
            (options().round_timeout(Duration::ZERO), "round_timeout"),
            (options().ttl(SECOND).round_timeout(SECOND), "round_timeout is 1 s"),
            (options().round_timeout(6 * SECOND), "round_timeout is 6 s; use at most 5 s"),
            (options().backoff(10 * MS, MS), "backoff"),
            (options().backoff(Duration::ZERO, MS), "backoff"),
            (options().max_rounds(0), "max_rounds is 0; use at least 1"),
            (options().max_hold(SECOND), "max_hold is 1 s; use at least ttl (30 s)"),
            (options().metrics_class(""), "metrics_class must have 1 to 32 of the characters"),
            (options().metrics_class("orders/42"), "metrics_class"),
            (options().metrics_class("x".repeat(33)), "metrics_class"),
        ] {
            assert!(said(options).contains(field), "{field}");
        }
    }

    #[test]
    fn ttl_without_the_restart_guard_is_bounded_at_24_h() {
        assert!(LockOptions::default().ttl(3_600 * SECOND).checked(Duration::ZERO).is_ok());
        assert!(LockOptions::default().ttl(MAX_TTL).checked(Duration::ZERO).is_ok());
        for ttl in [MAX_TTL + MS, 365 * MAX_TTL, Duration::MAX] {
            let refused = LockOptions::default().ttl(ttl).checked(Duration::ZERO).unwrap_err();
            assert!(refused.is_config() && refused.to_string().contains("use at most 24 h"), "{refused}");
            assert!(
                refused.to_string().contains("the client renews a held lock")
                    && !refused.to_string().contains("raise max_ttl"),
                "{refused}"
            );
        }
    }

    #[test]
    fn the_shortest_ttl_has_rounds_that_fit() {
        let rules = LockOptions::default().ttl(MIN_TTL).checked(GUARD).unwrap();
        assert_eq!(rules.validity.length(), 97 * MS);
        assert!(rules.round_timeout * 3 <= rules.validity.length());
    }

    #[test]
    fn gate_is_held_for_a_hand_over_and_renewed_in_rounds_that_fit() {
        let gate = |options: LockOptions, trip| options.checked(GUARD).unwrap().of_gate(trip);
        let options = || LockOptions::default().round_timeout(5 * SECOND);
        for (trip, ttl) in [(Duration::ZERO, 3 * SECOND), (500 * MS, 5 * SECOND)] {
            let rules = gate(options(), trip);
            assert_eq!((rules.validity.ttl(), rules.places), (ttl, 30 * SECOND));
            assert_eq!(rules.round_timeout, rules.validity.length() / 3);
        }
        assert_eq!(gate(options().round_timeout(100 * MS), Duration::ZERO).round_timeout, 100 * MS);
    }

    #[test]
    fn gate_has_the_full_ttl_if_drift_takes_half_of_a_hand_over() {
        for (constant, ttl) in [(1_400 * MS, 3 * SECOND), (1_500 * MS, 30 * SECOND), (4 * SECOND, 30 * SECOND)] {
            let rules = LockOptions::default().drift_constant(constant).checked(GUARD).unwrap().of_gate(Duration::ZERO);
            assert_eq!(rules.validity.ttl(), ttl, "{constant:?}");
            assert!(rules.validity.length() > ttl / 2);
        }
    }
}
