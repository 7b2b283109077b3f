//! Compares a server's clock with this machine's clock, by several readings.

use std::time::{Duration, Instant, SystemTime};

/// How far clocks may run apart: 1 % of the time that passes, plus 2 ms, as in the library's
/// default drift.
const DRIFT: f64 = 0.01;
const CONSTANT: f64 = 0.002;

/// One reading of a server's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) sent: Instant,
    pub(super) received: Instant,
    /// This machine's wall clock when the reply arrived, since the epoch.
    pub(super) here: Duration,
    /// The server's clock, since the epoch.
    pub(super) there: Duration,
}

impl Sample {
    /// A reading. Its request was sent at `sent`, and its reply has just arrived.
    pub(super) fn taken(sent: Instant, there: Duration) -> Self {
        let here = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { sent, received: Instant::now(), here, there }
    }

    pub(super) fn trip(&self) -> Duration {
        self.received.saturating_duration_since(self.sent)
    }
}

/// Finds the largest step of the clock between two readings. Returns by how many seconds this step
/// exceeds what drift and round trips can explain (negative for a step back); `None` if there is no
/// step. Does not find steps shorter than the round trips.
pub(super) fn step(samples: &[Sample]) -> Option<f64> {
    let pairs =
        samples.iter().enumerate().flat_map(|(index, one)| samples[index + 1..].iter().map(move |next| (one, next)));
    pairs.filter_map(|(one, next)| left(one, next)).max_by(|one, other| one.abs().total_cmp(&other.abs()))
}

fn left(one: &Sample, next: &Sample) -> Option<f64> {
    let seconds = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64();
    let least = seconds(one.received, next.sent) * (1.0 - DRIFT) - CONSTANT;
    let most = seconds(one.sent, next.received) * (1.0 + DRIFT) + CONSTANT;
    let passed = next.there.as_secs_f64() - one.there.as_secs_f64();
    let over = if passed > most { passed - most } else { (passed - least).min(0.0) };
    (over != 0.0).then_some(over)
}

/// The difference between the server's clock and this machine's clock, in seconds; negative if the
/// server's clock is behind. Uses only the reading with the shortest round trip, and returns the
/// smallest difference that this reading allows.
pub(super) fn ahead(samples: &[Sample]) -> f64 {
    let Some(best) = samples.iter().min_by_key(|sample| sample.trip()) else { return 0.0 };
    let most = best.there.as_secs_f64() - (best.here.as_secs_f64() - best.trip().as_secs_f64());
    let least = best.there.as_secs_f64() - best.here.as_secs_f64();
    if least > 0.0 { least } else { most.min(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes readings with this round trip. Each pair has the time of the request and the time that
    /// the server's clock shows, in milliseconds.
    fn samples(trip: u64, readings: &[(u64, u64)]) -> Vec<Sample> {
        let (began, epoch, ms) = (Instant::now(), Duration::from_secs(1_000_000), Duration::from_millis);
        let sample = |&(at, shows): &(u64, u64)| Sample {
            sent: began + ms(at),
            received: began + ms(at + trip),
            here: epoch + ms(at + trip),
            there: epoch + ms(shows),
        };
        readings.iter().map(sample).collect()
    }

    #[test]
    fn clock_at_the_same_rate_shows_no_step_despite_slow_replies() {
        assert_eq!(step(&samples(1, &[(0, 1), (200, 202), (400, 400)])), None);
        assert_eq!(step(&samples(300, &[(0, 0), (200, 500), (400, 650)])), None);
    }

    #[test]
    fn a_step_there_and_back_is_seen_in_both_directions() {
        let there = step(&samples(1, &[(0, 0), (200, 5_200), (400, 400)])).unwrap();
        assert!((4.9..5.1).contains(&there.abs()), "{there}");
        let back = step(&samples(1, &[(0, 9_000), (200, 200)])).unwrap();
        assert!((-9.1..-8.9).contains(&back), "{back}");
    }

    #[test]
    fn a_clock_that_runs_too_fast_is_seen() {
        assert!(step(&samples(0, &[(0, 0), (1_000, 1_100)])).is_some());
    }

    #[test]
    fn a_difference_is_told_as_far_as_the_round_trip_shows_it() {
        assert!((ahead(&samples(10, &[(0, 5_010)])) - 5.0).abs() < 1e-6);
        assert!((ahead(&samples(10, &[(20_000, 15_000)])) + 5.0).abs() < 1e-6);
        assert!(ahead(&samples(10, &[(0, 4)])).abs() < 1e-6);
    }
}
