//! All randomness of a run, from one seed.

use std::time::Duration;

/// SplitMix64 (Steele, Lea, Flood 2014): small, fast, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        let mut dice = Self(seed ^ 0x5851_F42D_4C95_7F2D);
        dice.next();
        dice
    }

    /// Separate dice for one part of the simulation. Draws from these dice do not change the draws
    /// of other parts.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A random number from 0 to 1, evenly distributed.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn chance(&mut self, share: f64) -> bool {
        self.share() < share
    }

    /// A random number from `low` to below `high`, evenly distributed.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low).max(1)
    }

    pub fn index(&mut self, length: usize) -> usize {
        self.between(0, length as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// One of `from`, chosen by weight.
    pub fn weighed<T: Copy>(&mut self, from: &[(u32, T)]) -> T {
        let mut at = self.between(0, from.iter().map(|(weight, _)| u64::from(*weight)).sum());
        for &(weight, what) in from {
            if at < u64::from(weight) {
                return what;
            }
            at -= u64::from(weight);
        }
        from[0].1
    }

    /// A random time, evenly distributed on a logarithmic scale.
    pub fn log(&mut self, low: Duration, high: Duration) -> Duration {
        let (low, high) = (low.as_secs_f64().max(1e-6), high.as_secs_f64().max(2e-6));
        Duration::from_secs_f64(low * (high / low).powf(self.share()))
    }

    /// A random time, exponentially distributed with this mean.
    pub fn around(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-(1.0 - self.share()).ln())
    }
}
