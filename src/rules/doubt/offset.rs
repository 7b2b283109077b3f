//! What is known of how far a node's clock is ahead.

use std::time::Duration;

use crate::rules::tick::Tick;

/// Bounds of how far the node's clock is ahead of ours, both in microseconds since their own
/// origins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Offset {
    pub(super) low: i128,
    pub(super) high: i128,
    at: Tick,
}

impl Offset {
    /// A clock that showed `time` at some moment between `sent` and `received`. It has drifted since
    /// `sent` at most.
    pub(super) fn new(time: Duration, sent: Tick, received: Tick) -> Self {
        let time = micros(time);
        Self { low: time - micros(received.since_origin()), high: time - micros(sent.since_origin()), at: sent }
    }

    /// What the clock showed at most when it was read last.
    pub(super) fn time(self) -> i128 {
        self.high + micros(self.at.since_origin())
    }

    /// What this reading allows at `later`, if the two clocks run apart by at most `rate`.
    pub(super) fn widened(self, later: Tick, rate: u32) -> Self {
        let drift = micros(later.since(self.at)) * i128::from(rate) / 1_000_000 + 1;
        Self { low: self.low - drift, high: self.high + drift, at: later }
    }

    pub(super) fn meets(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// What is left of it if the clock showed `time` at some moment before `received`; `None` if
    /// nothing is.
    pub(super) fn at_least(self, time: Duration, received: Tick) -> Option<Self> {
        let low = self.low.max(micros(time) - micros(received.since_origin()));
        (low <= self.high).then_some(Self { low, ..self })
    }

    pub(super) fn intersected(self, other: Self) -> Self {
        Self { low: self.low.max(other.low), high: self.high.min(other.high), at: other.at }
    }
}

/// Never more than 2^85, so sums of some do not overflow.
pub(super) fn micros(duration: Duration) -> i128 {
    duration.as_micros().cast_signed()
}
