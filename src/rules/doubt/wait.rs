//! How long a doubted node does not vote on claims, and from when on `extended` counts.

use std::time::Duration;

use super::{Doubt, RestartGuard, Trust};
use crate::rules::list::Record;
use crate::rules::tick::Tick;
use crate::rules::validity::MAX_ROUND;

/// How long the client waits, after the quarantine of a node that forgot, for enough synced nodes.
/// After this time, the client syncs the node to the `high` of other nodes, synced or not.
pub(in crate::rules) const LATE: Duration = Duration::from_secs(2);
/// The shortest wait that is reported for an unsynced node, because a hello must first sync it.
pub(super) const SOON: Duration = Duration::from_secs(1);
/// How long after the quarantine of a node that forgot the node is synced at the latest, if a
/// quorum answers: a hello must follow [`LATE`].
pub(crate) const LATEST_SYNC: Duration = Duration::from_secs(LATE.as_secs() + SOON.as_secs());

impl RestartGuard {
    /// The shortest time until the node may vote on claims, and why it may not vote now; `None` if
    /// it may vote.
    #[must_use]
    pub fn quarantined(&self, now: Tick) -> Option<(Duration, Doubt)> {
        if self.max_ttl.is_zero() {
            return None;
        }
        let Some(record) = self.current() else {
            let forgot = self.record.is_some() && !self.present && !self.replaced;
            let why = if forgot { Doubt::Forgot } else { Doubt::Restarted };
            return Some((self.wait(now, Duration::ZERO).until.since(now), why));
        };
        let free_at = self.free_at();
        if now < free_at {
            let doubted = self.doubted.filter(|(_, wait)| now < wait.until);
            return Some((free_at.since(now), doubted.map_or(Doubt::Restarted, |(why, _)| why)));
        }
        (!record.synced).then(|| ((free_at + LATE).since(now).max(SOON), Doubt::Unsynced))
    }

    /// The node's record, if it belongs to the present process.
    fn current(&self) -> Option<&Record> {
        let record = self.record().filter(|_| !self.replaced)?;
        self.process.as_deref().is_none_or(|process| record.is_of(process)).then_some(record)
    }

    /// When the quarantine ends. If the node is synced by then (see `Record::synced`), it may vote
    /// again.
    #[must_use]
    pub fn free_at(&self) -> Tick {
        self.waits().until
    }

    /// From when on `extended` counts and the node can be synced.
    #[must_use]
    pub fn settles_at(&self) -> Tick {
        self.waits().settled
    }

    /// Whether `extended` counts at `now`.
    #[must_use]
    pub fn settled(&self, now: Tick) -> bool {
        self.max_ttl.is_zero() || self.current().is_some() && now >= self.settles_at()
    }

    /// Which replies of the node count at `now`.
    #[must_use]
    pub fn trust(&self, now: Tick) -> Trust {
        Trust { grants: self.quarantined(now).is_none(), extensions: self.settled(now) }
    }

    fn waits(&self) -> Wait {
        self.doubted.map_or(self.young, |(_, wait)| wait.longer(self.young))
    }

    /// The wait that follows from a doubt that began `age` before `at`.
    pub(super) fn wait(&self, at: Tick, age: Duration) -> Wait {
        let ends = |length: Duration| match length.checked_sub(age) {
            Some(left) => at + left,
            None => at.minus(age.saturating_sub(length)),
        };
        let apart = |time: Duration| time.saturating_mul(self.rate) / 1_000_000;
        // No client counts a forgotten grant for longer than the grant's ttl, so `max_ttl` is
        // always enough.
        let settle = (MAX_ROUND + apart(MAX_ROUND) * 2).min(self.max_ttl);
        Wait { until: ends(self.max_ttl.saturating_add(apart(self.max_ttl))), settled: ends(settle) }
    }
}

/// The wait that follows from a doubt, or from the age of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Wait {
    /// Until this moment, the node may not vote on claims.
    pub(super) until: Tick,
    /// From this moment on, `extended` counts.
    pub(super) settled: Tick,
}

impl Wait {
    pub(super) fn longer(self, other: Self) -> Self {
        Self { until: self.until.max(other.until), settled: self.settled.max(other.settled) }
    }

    pub(super) fn is_over(self, now: Tick) -> bool {
        now >= self.until.max(self.settled)
    }
}
