//! When a lease is renewed: what its user has set, and what the nodes' distance and chance add.

use std::time::Duration;

use super::backoff::Backoff;
use super::renewal::Spread;
use super::tick::Tick;

/// Timers may fire a little late: the deadline's is set this much earlier, so that loss is told by
/// the deadline.
pub const EARLY: Duration = Duration::from_millis(2);

/// When a lease is to be renewed, and what else of its session is renewed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// All parts are.
    Together(Tick),
    /// No other part is that is not due: it alone cannot wait.
    Alone(Tick),
}

impl Due {
    /// When that is.
    #[must_use]
    pub const fn at(self) -> Tick {
        match self {
            Self::Together(at) | Self::Alone(at) => at,
        }
    }
}

/// How a lease is renewed.
#[derive(Clone, Copy, Debug)]
pub struct Pace<R> {
    /// Whether it is renewed until it ends.
    pub auto_renew: bool,
    /// The pauses after renewals that came to nothing.
    pub backoff: Backoff,
    /// How long a quorum takes to answer.
    pub round_trip: Duration,
    /// Where the process's grid of renewals lies: see [`Spread::phase`].
    pub phase: u64,
    /// From when on a pause counts: one moment for all that are to be sent again at one moment.
    pub from: Tick,
    /// Returns a random number, evenly distributed: the same for all that are to stay together.
    pub random: R,
}

impl<R: FnOnce() -> u64> Pace<R> {
    fn spread(self) -> Spread {
        Spread { random: (self.random)(), phase: self.phase }
    }

    /// When what began at `t0`, and is to be renewed by `by`, is renewed for the first time.
    pub(super) fn first(self, t0: Tick, by: Tick) -> Option<Due> {
        self.auto_renew.then(|| Due::Together(self.spread().first(t0, by)))
    }

    /// The same for the times after it.
    pub(super) fn next(self, t0: Tick, by: Tick) -> Option<Due> {
        self.auto_renew.then(|| Due::Together(self.spread().next(t0, by)))
    }

    /// When a renewal is repeated that came to nothing, as `failures` before it: at half of the time
    /// until `deadline` at the latest, since behind it none helps.
    pub(super) fn again(self, failures: u32, deadline: Tick) -> Due {
        let pause = self.backoff.pause(failures, self.round_trip, (self.random)());
        let left = deadline.since(self.from) / 2;
        Due::Alone(self.from + pause.min(left.max(self.backoff.min)))
    }
}
