//! The least `high` that a node's record must show, because of the grants that this client counted.

use std::time::Duration;

use super::clock::micros;
use crate::rules::tick::Tick;

/// Ballots that are further ahead of TIME than this are ignored here. Nodes do not raise `high` to
/// a ballot more than a day ahead. This limit is lower, because the client does not know TIME
/// exactly.
const NEAR: Duration = Duration::from_secs(23 * 3_600);

/// The highest ballots of grants that this client counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Granted {
    ballot: u64,
    /// When `ballot` was counted.
    at: Tick,
    /// The value that `ballot` had when the last hello was answered.
    before: u64,
}

impl Granted {
    /// Notes that a grant was counted at `now`, when the node's clock showed `time` in
    /// microseconds.
    pub(super) fn count(&mut self, ballot: u64, time: Option<i128>, now: Tick) {
        let is_far = time.is_some_and(|time| i128::from(ballot) > time + micros(NEAR));
        if ballot > self.ballot && !is_far {
            *self = Self { ballot, at: now, ..*self };
        }
    }

    /// Notes that a hello was answered.
    pub(super) const fn heard(&mut self) {
        self.before = self.ballot;
    }

    /// The lowest `high` that the record may have in the answer to a hello that was sent at `sent`.
    pub(super) fn least(self, sent: Tick) -> u64 {
        if self.at <= sent { self.ballot } else { self.before }
    }
}
