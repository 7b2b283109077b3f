//! The times of a `run`: its ttl, its timeouts, and the grace that a command gets to end.

use std::time::{Duration, Instant};

use crate::cli::Run;
use crate::duration::exact;
use crate::failure::Failure;
use crate::settings::{self, Settings};

/// The library's default of `ttl`.
const TTL: Duration = Duration::from_secs(30);
/// The library's default of `max_ttl`.
const MAX_TTL: Duration = Duration::from_secs(60);
/// How long to wait for the lock by default.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(15);
/// The library's default of `connect_timeout`. `run --timeout 0` waits this long for nodes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const LEAST_GRACE: Duration = Duration::from_millis(10);

/// The ttl of the lock. The library checks a ttl from `--ttl` or from a configuration file. This
/// function checks a ttl from the environment, and the default ttl, so that the error says which of
/// the two is too long.
pub(crate) fn ttl(given: Option<Duration>, settings: &Settings) -> Result<Duration, Failure> {
    if let Some(ttl) = given {
        return Ok(ttl);
    }
    match (settings::ttl()?, settings.ttl) {
        (Some(ttl), _) => fits(ttl, settings::TTL, settings.max_ttl),
        (None, Some(ttl)) => Ok(ttl),
        (None, None) => fits(TTL, "the default", settings.max_ttl),
    }
}

pub(crate) fn timeout(args: &Run, settings: &Settings) -> Result<Duration, Failure> {
    if args.no_wait {
        return Ok(Duration::ZERO);
    }
    let told = match args.timeout {
        None => settings::time(settings::TIMEOUT)?,
        given => given,
    };
    Ok(told.or(settings.timeout).unwrap_or(TIMEOUT))
}

/// The time in which to connect and to acquire the lock, before the command starts.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) began: Instant,
    pub(crate) timeout: Duration,
}

impl Wait {
    /// How long to wait for a quorum of nodes. With a timeout of zero this time is not zero: `run`
    /// tries once in this case, and a try needs a quorum.
    pub(crate) fn connecting(&self, longest: Option<Duration>) -> Duration {
        match (longest, self.timeout) {
            (longest, Duration::ZERO) => longest.unwrap_or(CONNECT_TIMEOUT),
            (longest, timeout) => longest.map_or(timeout, |longest| longest.min(timeout)),
        }
    }

    /// The option with which the user can make `run` wait longer for nodes.
    pub(crate) fn option(&self, longest: Option<Duration>) -> &'static str {
        let bounds = self.timeout.is_zero() || longest.is_some_and(|longest| longest < self.timeout);
        if bounds { "--connect-timeout" } else { "--timeout" }
    }

    /// The next wait, which may take as long as the first one.
    pub(crate) fn again(self) -> Self {
        Self { began: Instant::now(), ..self }
    }

    /// How much longer to wait for the lock.
    pub(crate) fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.began.elapsed())
    }
}

/// The grace: a fifth of the ttl by default, and half of the ttl at most. Renewals begin when about
/// a third of the ttl has passed, so some time is left for renewals before the command must be
/// stopped. The library checks the ttl.
pub(crate) fn grace(given: Option<Duration>, ttl: Duration) -> Result<Duration, Failure> {
    match given {
        None => Ok(ttl / 5),
        Some(grace) if (LEAST_GRACE..=ttl / 2).contains(&grace) => Ok(grace),
        Some(grace) => {
            let bounds = format!("use {} to {}, which is half of the ttl", exact(LEAST_GRACE), exact(ttl / 2));
            Err(Failure::usage(format!("--kill-grace is {}; {bounds}", exact(grace))))
        }
    }
}

/// The validity that an acquired lock must have at least: 1.5 times the grace. A lock that nodes
/// have handed over is first renewed when a quarter of its validity has passed, at the latest. If
/// less than the grace were left at this renewal, the command would be stopped at once. The upper
/// limit, 11/20 of the ttl, leaves more than a third of the ttl for the round of claims.
pub(crate) fn least(grace: Duration, ttl: Duration) -> Duration {
    (grace + grace / 2).min(ttl * 11 / 20)
}

/// Checks that the ttl is at most `max_ttl`. The error says that the ttl comes from `origin`.
fn fits(ttl: Duration, origin: &str, max_ttl: Option<Duration>) -> Result<Duration, Failure> {
    match Some(max_ttl.unwrap_or(MAX_TTL)).filter(|longest| !longest.is_zero() && *longest < ttl) {
        None => Ok(ttl),
        Some(longest) => Err(Failure::usage(format!(
            "ttl is {} ({origin}), above max_ttl ({}); use --ttl {}s, or a larger max_ttl",
            exact(ttl),
            exact(longest),
            longest.as_secs_f64()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_timeout_follows_the_lock_timeout_unless_set() {
        let seconds = Duration::from_secs;
        let connecting = |timeout, told| Wait { began: Instant::now(), timeout }.connecting(told);
        assert_eq!(connecting(seconds(40), None), seconds(40));
        assert_eq!(connecting(seconds(40), Some(seconds(3))), seconds(3));
        assert_eq!(connecting(seconds(2), Some(seconds(3))), seconds(2));
        assert_eq!(connecting(Duration::ZERO, Some(seconds(3))), seconds(3), "one try with a quorum");
        assert_eq!(connecting(Duration::ZERO, None), CONNECT_TIMEOUT);
    }

    #[test]
    fn second_wait_has_the_timeout_of_the_first() {
        let began = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        let again = Wait { began, timeout: Duration::from_secs(40) }.again();
        assert!(again.began > began && again.timeout == Duration::from_secs(40));
    }

    #[test]
    fn least_validity_exceeds_grace_and_leaves_time_for_a_round() {
        for ttl in [20, 100, 3_000, 12_000, 30_000].map(Duration::from_millis) {
            let length = ttl - ttl / 100 - Duration::from_millis(2);
            for grace in [ttl / 50, ttl / 5, ttl * 2 / 5, ttl / 2] {
                let least = least(grace, ttl);
                assert!(grace < least && least <= length - length / 3, "{grace:?} of {ttl:?}: {least:?}");
            }
            assert_eq!(least(ttl / 5, ttl), ttl * 3 / 10, "a quarter of it is above what the grace leaves");
        }
    }

    #[test]
    fn the_grace_leaves_time_for_renewals() {
        let ttl = Duration::from_secs(10);
        assert_eq!(grace(None, ttl).unwrap(), Duration::from_secs(2));
        assert!(grace(Some(Duration::from_secs(6)), ttl).is_err());
        assert!(grace(Some(Duration::ZERO), ttl).is_err());
        assert!(grace(None, Duration::from_millis(100)).is_ok());
    }
}
