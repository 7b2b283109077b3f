//! Every sample counted, in bounded memory: buckets whose width grows with the value.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Buckets a power of two: a bucket is at most a 64th of its value wide.
const FINE: u64 = 64;
const FINE_BITS: u32 = FINE.trailing_zeros();

/// Latencies in microseconds. There are at most 64 buckets a power of two, so some 4,000 in all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Histogram(BTreeMap<u32, u64>);

impl Histogram {
    pub(crate) fn record(&mut self, sample: Duration) {
        let microseconds = u64::try_from(sample.as_micros()).unwrap_or(u64::MAX);
        *self.0.entry(bucket(microseconds)).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (&bucket, &count) in &other.0 {
            *self.0.entry(bucket).or_default() += count;
        }
    }

    pub(crate) fn samples(&self) -> u64 {
        self.0.values().sum()
    }

    /// The upper bound of the bucket of the sample that `share` of all samples do not exceed; zero
    /// without samples.
    pub(crate) fn percentile(&self, share: f64) -> Duration {
        let rank = (self.samples() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.0.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        found.map_or(Duration::ZERO, |(&bucket, _)| Duration::from_micros(upper(bucket)))
    }
}

/// Small values have a bucket each; above, the exponent and the leading bits name it.
fn bucket(value: u64) -> u32 {
    let Some(shift) = value.checked_ilog2().and_then(|log| log.checked_sub(FINE_BITS)) else {
        return u32::try_from(value).unwrap_or(u32::MAX);
    };
    let leading = u32::try_from(value >> shift).unwrap_or(u32::MAX);
    shift * FINE as u32 + leading
}

fn upper(bucket: u32) -> u64 {
    let fine = FINE as u32;
    let shift = (bucket / fine).saturating_sub(1);
    let leading = u64::from(bucket - shift * fine);
    ((leading + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buckets_bound_is_never_below_its_values_and_within_two_percent() {
        for value in (0..5_000).chain((0..40).map(|power| 3 << power)) {
            let bound = upper(bucket(value));
            assert!(bound >= value && bound - value <= value / 50, "{value} is told as {bound}");
        }
    }

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
}
