//! The least `high` that a node's record must show, by the grants that were counted.

use std::time::Duration;

use super::clock::micros;
use crate::rules::tick::Tick;

/// Nodes do not raise `high` to a ballot more than a day ahead of TIME. This limit is lower,
/// because the client does not know TIME exactly.
const NEAR: Duration = Duration::from_secs(23 * 3_600);

/// The highest ballots of grants that were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Granted {
    ballot: u64,
    /// When `ballot` was counted.
    at: Tick,
    /// The value of `ballot` when the last hello was answered.
    before: u64,
}

impl Granted {
    /// A grant was counted at `now`, when the node's clock showed `time`, in microseconds.
    pub(super) fn count(&mut self, ballot: u64, time: Option<i128>, now: Tick) {
        let is_far = time.is_some_and(|time| i128::from(ballot) > time + micros(NEAR));
        if ballot > self.ballot && !is_far {
            *self = Self { ballot, at: now, ..*self };
        }
    }

    /// A hello was answered.
    pub(super) const fn heard(&mut self) {
        self.before = self.ballot;
    }

    /// The least `high` of a record that was requested at `sent`.
    pub(super) fn least(self, sent: Tick) -> u64 {
        if self.at <= sent { self.ballot } else { self.before }
    }
}
