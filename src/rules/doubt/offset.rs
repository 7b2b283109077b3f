//! Bounds of how far a node's clock is ahead.

use std::time::Duration;

use crate::rules::tick::Tick;

/// Bounds of the node's clock minus ours, in microseconds. Each clock counts from its own origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Offset {
    pub(super) low: i128,
    pub(super) high: i128,
    at: Tick,
}

impl Offset {
    /// The bounds from a clock that showed `time` at some moment between `sent` and `received`.
    /// Drift counts from `sent`, the earliest such moment.
    pub(super) fn new(time: Duration, sent: Tick, received: Tick) -> Self {
        let time = micros(time);
        Self { low: time - micros(received.since_origin()), high: time - micros(sent.since_origin()), at: sent }
    }

    /// The latest time that the clock may have shown when it was last read.
    pub(super) fn time(self) -> i128 {
        self.high + micros(self.at.since_origin())
    }

    /// The bounds at `later`, if the two clocks run apart by at most `rate` (parts per million).
    pub(super) fn widened(self, later: Tick, rate: u32) -> Self {
        let drift = micros(later.since(self.at)) * i128::from(rate) / 1_000_000 + 1;
        Self { low: self.low - drift, high: self.high + drift, at: later }
    }

    pub(super) fn meets(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// The bounds, if the clock also showed `time` at some moment before `received`; `None` if
    /// these bounds exclude that.
    pub(super) fn at_least(self, time: Duration, received: Tick) -> Option<Self> {
        let low = self.low.max(micros(time) - micros(received.since_origin()));
        (low <= self.high).then_some(Self { low, ..self })
    }

    pub(super) fn intersected(self, other: Self) -> Self {
        Self { low: self.low.max(other.low), high: self.high.min(other.high), at: other.at }
    }
}

/// The result is below 2^85, so a sum of several does not overflow.
pub(super) fn micros(duration: Duration) -> i128 {
    duration.as_micros().cast_signed()
}
