//! When a lease is renewed, by its options, the nodes' round trip, and a random share.

use std::time::Duration;

use super::backoff::Backoff;
use super::renewal::Spread;
use super::tick::Tick;

/// Timers may fire late. So a deadline's timer is set this much before the deadline, to report a
/// loss in time.
pub const EARLY: Duration = Duration::from_millis(2);

/// When to renew a lease, and whether to renew its whole session with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Renew the whole session.
    Together(Tick),
    /// Renew only the leases that are due. This lease cannot wait until the other leases are due.
    Alone(Tick),
}

impl Due {
    /// When to renew the lease.
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
    /// Whether the lease is renewed again and again while it is held.
    pub auto_renew: bool,
    /// The pauses after renewals without a result.
    pub backoff: Backoff,
    /// How long a quorum takes to answer.
    pub round_trip: Duration,
    /// The offset of the moments at which this process renews: see [`Spread::phase`].
    pub phase: u64,
    /// When the pause before a repeated renewal begins. Renewals that are repeated together share
    /// this moment.
    pub from: Tick,
    /// Returns an evenly distributed random number. Renewals that are to stay together share one
    /// number.
    pub random: R,
}

impl<R: FnOnce() -> u64> Pace<R> {
    fn spread(self) -> Spread {
        Spread { random: (self.random)(), phase: self.phase }
    }

    /// When to send the first renewal of a lease that began at `t0` and must be renewed by `by`;
    /// `None` without `auto_renew`.
    pub(super) fn first(self, t0: Tick, by: Tick) -> Option<Due> {
        self.auto_renew.then(|| Due::Together(self.spread().first(t0, by)))
    }

    /// When to send the next renewal of a lease whose last renewal began at `t0`, and which must be
    /// renewed by `by`; `None` without `auto_renew`.
    pub(super) fn next(self, t0: Tick, by: Tick) -> Option<Due> {
        self.auto_renew.then(|| Due::Together(self.spread().next(t0, by)))
    }

    /// When to repeat a renewal that had no result. `failures` counts the renewals without a result
    /// just before this one. The pause is at most about half of the time that is left until
    /// `deadline`, because no renewal helps after the deadline.
    pub(super) fn again(self, failures: u32, deadline: Tick) -> Due {
        let pause = self.backoff.pause(failures, self.round_trip, (self.random)());
        let left = deadline.since(self.from) / 2;
        Due::Alone(self.from + pause.min(left.max(self.backoff.min)))
    }
}
