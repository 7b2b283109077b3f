//! Counts samples in bounded memory (HdrHistogram). Worker processes send their histograms to the
//! process that started them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Significant digits: a recorded value may be wrong by 1 %.
const DIGITS: u8 = 2;

/// Latencies in microseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Counts", into = "Counts")]
pub(crate) struct Histogram(hdrhistogram::Histogram<u64>);

/// The recorded values, each with its count.
type Counts = Vec<(u64, u64)>;

impl Histogram {
    pub(crate) fn record(&mut self, sample: Duration) {
        self.count(u64::try_from(sample.as_micros()).unwrap_or(u64::MAX), 1);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (value, count) in Counts::from(other.clone()) {
            self.count(value, count);
        }
    }

    pub(crate) fn samples(&self) -> u64 {
        self.0.len()
    }

    /// The value at or below which `share` of all samples lie. Zero if there are no samples.
    pub(crate) fn percentile(&self, share: f64) -> Duration {
        Duration::from_micros(self.0.value_at_quantile(share))
    }

    /// Adds `count` samples. The histogram grows to hold any value.
    #[expect(clippy::expect_used, reason = "fails only if a value does not fit, and every value fits")]
    fn count(&mut self, value: u64, count: u64) {
        self.0.record_n(value, count).expect("room for each value");
    }
}

impl Default for Histogram {
    #[expect(clippy::expect_used, reason = "fails only for more than five digits")]
    fn default() -> Self {
        Self(hdrhistogram::Histogram::new(DIGITS).expect("few digits"))
    }
}

impl From<Counts> for Histogram {
    fn from(counts: Counts) -> Self {
        let mut histogram = Self::default();
        counts.into_iter().for_each(|(value, count)| histogram.count(value, count));
        histogram
    }
}

impl From<Histogram> for Counts {
    fn from(histogram: Histogram) -> Self {
        histogram.0.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_all_samples() {
        let mut one = Histogram::default();
        let mut other = Histogram::default();
        (1..=50).for_each(|ms| one.record(Duration::from_millis(ms)));
        (51..=100).for_each(|ms| other.record(Duration::from_millis(ms)));
        one.add(&other);
        let near = |share, ms: f64| (one.percentile(share).as_secs_f64() * 1e3 / ms - 1.0).abs() < 0.02;
        assert!(one.samples() == 100 && near(0.5, 50.0) && near(0.99, 99.0) && near(1.0, 100.0));
        assert_eq!(Histogram::default().percentile(0.99), Duration::ZERO);
    }

    #[test]
    fn histogram_keeps_its_percentiles_through_json() {
        let mut told = Histogram::default();
        for sample in [Duration::ZERO, Duration::from_micros(1), Duration::from_millis(70), Duration::MAX] {
            told.record(sample);
        }
        let heard: Histogram = serde_json::from_str(&serde_json::to_string(&told).unwrap()).unwrap();
        assert_eq!(heard.samples(), 4);
        for share in [0.25, 0.5, 0.75, 1.0] {
            assert_eq!(heard.percentile(share), told.percentile(share));
        }
    }
}
