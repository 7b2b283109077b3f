//! What a node's TIME shows about its clock: how far it is ahead, and whether it was stepped.

use std::time::Duration;

use super::{Doubt, RestartGuard};
use crate::rules::tick::Tick;

impl RestartGuard {
    /// Takes the node's `time` from a reply. The request was sent at `sent`, and the reply was
    /// received at `received`. Returns whether the clock was stepped between the last reply and
    /// this one. If so, the votes of this reply do not count.
    pub fn observe(&mut self, time: Duration, sent: Tick, received: Tick) -> bool {
        let seen = Offset::new(time, sent, received);
        let Some(last) = self.offset else {
            self.offset = Some(seen);
            return false;
        };
        let expected = last.widened(received, self.rate);
        let stepped = !expected.meets(seen);
        self.offset = Some(if stepped { seen } else { expected.intersected(seen) });
        if stepped {
            self.doubt(Doubt::ClockStepped, Duration::ZERO, received);
        }
        stepped && !self.max_ttl.is_zero()
    }

    /// Takes the node's `time` from a push, which was received at `received`. The client cannot
    /// know when the push was sent. So the push gives only a lower bound of how far the clock is
    /// ahead. Returns whether the clock was stepped, like [`observe`](Self::observe).
    pub fn observe_push(&mut self, time: Duration, received: Tick) -> bool {
        let Some(last) = self.offset else { return false };
        let expected = last.widened(received, self.rate);
        // After a step, the old bounds are useless. The next reply gives new bounds.
        self.offset = expected.at_least(time, received);
        let stepped = self.offset.is_none();
        if stepped {
            self.doubt(Doubt::ClockStepped, Duration::ZERO, received);
        }
        stepped && !self.max_ttl.is_zero()
    }

    /// How far the node's clock is ahead of this client's, in microseconds: the middle between the
    /// two bounds. `None` if there are no bounds yet.
    #[must_use]
    pub fn clock_ahead(&self) -> Option<i128> {
        self.offset.map(|offset| offset.low.midpoint(offset.high))
    }
}

/// By how much the node's clock is ahead of this client's, in microseconds: at least `low` and at
/// most `high`, at the moment `at`. Each clock counts from its own origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Offset {
    low: i128,
    high: i128,
    at: Tick,
}

impl Offset {
    /// The bounds for a clock that showed `time` at some moment between `sent` and `received`. The
    /// bounds widen from `sent` on, because the clock may have shown `time` at `sent` already.
    fn new(time: Duration, sent: Tick, received: Tick) -> Self {
        let time = micros(time);
        Self { low: time - micros(received.since_origin()), high: time - micros(sent.since_origin()), at: sent }
    }

    /// The latest time that the clock may have shown at the moment `at`.
    pub(super) fn time(self) -> i128 {
        self.high + micros(self.at.since_origin())
    }

    /// The bounds at `later`, if the two clocks run apart by at most `rate` (parts per million).
    fn widened(self, later: Tick, rate: u32) -> Self {
        let drift = micros(later.since(self.at)) * i128::from(rate) / 1_000_000 + 1;
        Self { low: self.low - drift, high: self.high + drift, at: later }
    }

    fn meets(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// Narrows the bounds, because the clock showed `time` at some moment before `received`. `None`
    /// if the clock cannot have shown `time` within these bounds.
    fn at_least(self, time: Duration, received: Tick) -> Option<Self> {
        let low = self.low.max(micros(time) - micros(received.since_origin()));
        (low <= self.high).then_some(Self { low, ..self })
    }

    fn intersected(self, other: Self) -> Self {
        Self { low: self.low.max(other.low), high: self.high.min(other.high), at: other.at }
    }
}

/// The result is below 2^85, so a sum of several results does not overflow.
pub(super) fn micros(duration: Duration) -> i128 {
    duration.as_micros().cast_signed()
}
