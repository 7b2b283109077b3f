//! How long acquisitions and releases took.

use std::time::{Duration, Instant};

use quorumlock::QuorumLock;
use serde_json::{Map, Value};

use super::{TIMEOUT, rounded};
use crate::failure::Failure;

/// Measured pairs. A pair is an acquisition and its release.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    acquire: Vec<Duration>,
    release: Vec<Duration>,
}

impl Samples {
    /// Acquires and releases `lock` once, and stores how long each of the two took.
    pub(super) async fn add_pair(&mut self, lock: &QuorumLock) -> Result<(), Failure> {
        let begun = Instant::now();
        let guard = lock.acquire(TIMEOUT).await?;
        let acquired = Instant::now();
        guard.release().await?;
        self.acquire.push(acquired - begun);
        self.release.push(acquired.elapsed());
        Ok(())
    }

    pub(super) fn add(&mut self, other: Self) {
        self.acquire.extend(other.acquire);
        self.release.extend(other.release);
    }

    pub(super) fn pairs(&self) -> usize {
        self.acquire.len()
    }

    /// A percentile: the fraction `share` of all acquisitions took at most this long. `None`
    /// without samples.
    pub(super) fn acquired(&self, share: f64) -> Option<Duration> {
        percentile(&self.acquire, share)
    }

    pub(super) fn released(&self, share: f64) -> Option<Duration> {
        percentile(&self.release, share)
    }

    /// p50 and p99 of acquisitions and of releases, in milliseconds.
    pub(super) fn json(&self) -> Map<String, Value> {
        let of = |time: Option<Duration>| time.map(|time| rounded(time.as_secs_f64() * 1e3)).into();
        [
            ("acquire_p50_ms", of(self.acquired(0.5))),
            ("acquire_p99_ms", of(self.acquired(0.99))),
            ("release_p50_ms", of(self.released(0.5))),
            ("release_p99_ms", of(self.released(0.99))),
            ("pairs", self.pairs().into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    /// p50 and p99 of acquisitions and of releases, as cells of a table.
    pub(super) fn cells(&self) -> Vec<String> {
        let times = [self.acquired(0.5), self.acquired(0.99), self.released(0.5), self.released(0.99)];
        times.into_iter().map(|time| time.map_or_else(|| "-".to_owned(), crate::duration::show)).collect()
    }
}

/// The headings of [`Samples::cells`].
pub(super) const HEADING: [&str; 4] = ["acquire p50", "p99", "release p50", "p99"];

fn percentile(samples: &[Duration], share: f64) -> Option<Duration> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() as f64 * share).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_and_none_of_none() {
        let samples: Vec<_> = (1..=200).rev().map(Duration::from_millis).collect();
        let of = |share| percentile(&samples, share).map(|time| time.as_millis());
        assert_eq!([of(0.5), of(0.99), of(1.0)], [Some(100), Some(198), Some(200)]);
        assert_eq!(percentile(&[], 0.5), None);
    }
}
