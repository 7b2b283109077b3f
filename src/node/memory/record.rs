//! What a node keeps beside its names: below which ballots it grants nothing.

use std::time::Duration;

use super::millis;

/// For how long a fence is kept after the later of its name's last change and the end of its hold: three times [`PERIOD`].
pub const KEEP: Duration = Duration::from_secs(150);
/// How often `high` moves on to `mid`, and `mid` to `floor`.
const PERIOD: Duration = Duration::from_secs(50);
/// A ballot further ahead of the node's clock is some broken clock's: it must not lift all names.
const FAR: u64 = 86_400_000_000;

/// The highest ballots, by age. A name that is not stored was last changed more than three periods
/// ago, so every ballot ever granted for it is at most `floor`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Record {
    high: u64,
    mid: u64,
    floor: u64,
    /// When they moved on last. Not at all on a node that was never asked.
    rotated: Option<Duration>,
    /// Whether it never forgot them in this run, or was taught since.
    taught: bool,
}

impl Record {
    /// Moves on, once a period. A clock that was set back tells nothing of how long ago that was.
    pub(super) fn rotate(&mut self, now: Duration) {
        let now = millis(now);
        let age = self.rotated.map(|rotated| now.checked_sub(rotated));
        match age {
            Some(Some(age)) if age < PERIOD => return,
            Some(Some(age)) if age < 2 * PERIOD => {}
            Some(_) => self.mid = self.high,
            None => {}
        }
        self.floor = self.floor.max(self.mid);
        self.mid = self.high;
        self.rotated = Some(now);
    }

    /// A ballot was granted, healed, or told by a release.
    pub(super) fn heard(&mut self, ballot: u64, now: Duration) {
        if !is_far(ballot, now) {
            self.high = self.high.max(ballot);
        }
    }

    pub(super) const fn high(&self) -> u64 {
        self.high
    }

    pub(super) const fn floor(&self) -> u64 {
        self.floor
    }

    pub(super) const fn taught(&self) -> bool {
        self.taught
    }

    /// Other nodes know of ballots up to `told`.
    pub(super) fn teach(&mut self, told: u64) {
        self.high = self.high.max(told);
        self.mid = self.mid.max(told);
        self.floor = self.floor.max(told);
        self.taught = true;
    }

    /// The node is another process now, which may have forgotten.
    pub(super) const fn restarted(&mut self) {
        self.taught = false;
    }
}

/// Whether a fence is too far ahead for the record.
pub(super) fn is_far(fence: u64, now: Duration) -> bool {
    u128::from(fence) > now.as_micros() + u128::from(FAR)
}
