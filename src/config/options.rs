//! The options of one lock, which users set.

use std::sync::Arc;
use std::time::Duration;

use crate::rules::{Backoff, Drift};

/// The options of one lock. The quorum's default options are checked when the quorum connects, and
/// a lock's own options when the lock is made.
///
/// ```
/// use quorumlock::LockOptions;
/// use std::time::Duration;
///
/// let ttl = Duration::from_secs(10);
/// let options = LockOptions::default().ttl(ttl).max_hold(60 * ttl);
/// ```
#[derive(Clone, Debug, Default)]
pub struct LockOptions {
    pub(super) ttl: Option<Duration>,
    pub(super) manual: bool,
    pub(super) max_hold: Option<Duration>,
    pub(super) drift: Drift,
    pub(super) min_validity: Duration,
    pub(super) round_timeout: Option<Duration>,
    pub(super) backoff: Backoff,
    pub(super) barging: bool,
    pub(super) wait: Option<Duration>,
    pub(super) max_rounds: Option<u32>,
    pub(super) metrics_class: Option<Arc<str>>,
    pub(super) trace_name: bool,
}

impl LockOptions {
    /// How long a node holds the lock without a renewal. Default 30 s; from 100 ms to the quorum's
    /// [`max_ttl`](crate::QuorumBuilder::max_ttl), or to 24 h if `max_ttl` is zero. Nodes count
    /// whole milliseconds. A lock can be held for longer than its ttl, because it is
    /// [renewed](Self::auto_renew).
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Whether the lock is renewed for as long as its guard lives. Default on. With `auto_renew`
    /// off, two kinds of renewals remain. A lock that nodes handed over is renewed once, to get its
    /// whole ttl. Each note and each proclaimed value renews the lock once, because renewals carry
    /// notes and values.
    #[must_use]
    pub const fn auto_renew(mut self, on: bool) -> Self {
        self.manual = !on;
        self
    }

    /// For how long after its acquisition the lock is renewed. Default: without end.
    #[must_use]
    pub const fn max_hold(mut self, longest: Duration) -> Self {
        self.max_hold = Some(longest);
        self
    }

    /// The share of the ttl by which clocks may run apart. Default 0.01; from 0 to 0.2. A factor
    /// above 0.01 must not exceed the factor in
    /// [`QuorumBuilder::options`](crate::QuorumBuilder::options), which decides when a node's clock
    /// counts as stepped.
    #[must_use]
    pub const fn drift_factor(mut self, factor: f64) -> Self {
        self.drift.factor = factor;
        self
    }

    /// The part of the drift that does not depend on the ttl. Default and least: 2 ms, as in
    /// Redlock. Of these, 1 ms is needed because nodes count whole milliseconds: a hold may end 1
    /// ms too early.
    #[must_use]
    pub const fn drift_constant(mut self, constant: Duration) -> Self {
        self.drift.constant = constant;
        self
    }

    /// How much validity a lock must have left when it is acquired. A round that leaves less counts
    /// as failed. Default 0.
    ///
    /// A lock that nodes hand over has a validity of about 3 s at most. If `least` is longer, the
    /// caller asks the nodes once more after a hand-over, which takes a round trip.
    #[must_use]
    pub const fn min_validity(mut self, least: Duration) -> Self {
        self.min_validity = least;
        self
    }

    /// How long a round waits for a quorum at most. Default 2 s, or a third of the validity if that
    /// is shorter. At most 5 s, because no vote counts for longer.
    #[must_use]
    pub const fn round_timeout(mut self, timeout: Duration) -> Self {
        self.round_timeout = Some(timeout);
        self
    }

    /// Bounds of the pause between two rounds. Default 5 ms to 250 ms. Pauses are random, and scale
    /// with the measured round trip.
    #[must_use]
    pub const fn backoff(mut self, min: Duration, max: Duration) -> Self {
        self.backoff = Backoff { min, max };
        self
    }

    /// Whether callers of all processes get the lock in the order of their calls. Default on.
    ///
    /// With `fair` off, callers ask again after random pauses, and may overtake callers that have
    /// waited longer. If the nodes are near, the lock changes hands more often than with `fair` on.
    /// But an unlucky caller may wait without a limit.
    #[must_use]
    pub const fn fair(mut self, on: bool) -> Self {
        self.barging = !on;
        self
    }

    /// How long [`acquire_default`](crate::QuorumLock::acquire_default) waits. Default 10 s. With
    /// zero, the call waits for no holder. With `Duration::MAX`, it waits for ever.
    #[must_use]
    pub const fn wait(mut self, timeout: Duration) -> Self {
        self.wait = Some(timeout);
        self
    }

    /// An acquisition gives up after this many failed rounds, unless its timeout comes first.
    /// Default: no bound. `most` must be at least 1.
    ///
    /// A round asks all nodes. If a node has seen another caller's claim with a higher ballot, the
    /// round asks again, up to three times. Between two rounds, a caller waits in the nodes'
    /// queues: for at most 5 s or a third of the ttl, whichever is longer. Behind other callers of
    /// this process, a caller waits for at most `most` times the
    /// [`round_timeout`](Self::round_timeout). A caller that gives up gets the error `Timeout`,
    /// which names `max_rounds`. If too few nodes vote, the error is `Unavailable`.
    ///
    /// With 1, a caller waits only for its turn among the callers of this process.
    #[must_use]
    pub const fn max_rounds(mut self, most: u32) -> Self {
        self.max_rounds = Some(most);
        self
    }

    /// The class of these locks in metrics: the value of the label `class` of
    /// `quorumlock_acquire_duration_seconds`, `acquisitions_total`, `hold_duration_seconds`,
    /// `locks_held` and `locks_lost_total`. Default: no class, and no such label.
    ///
    /// Use one word for many locks, such as `orders`, and never a lock's own name: each class adds
    /// about 50 time series. A class has 1 to 32 of the characters `a-z A-Z 0-9 _ . -`. A process
    /// has at most [`MAX_CLASSES`](crate::metrics::MAX_CLASSES) classes. Further classes are
    /// recorded as `other`.
    #[must_use]
    pub fn metrics_class(mut self, class: impl Into<Arc<str>>) -> Self {
        self.metrics_class = Some(class.into());
        self
    }

    /// Whether the lock's [spans](crate#tracing) have its name, in the field `name`. Default off,
    /// because names may be secret. (Messages about a lost lock always name the lock.)
    #[must_use]
    pub const fn trace_name(mut self, on: bool) -> Self {
        self.trace_name = on;
        self
    }
}
