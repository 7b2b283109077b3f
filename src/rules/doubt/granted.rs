//! What a node's record must show of the grants that were counted.

use std::time::Duration;

use super::offset::micros;
use crate::rules::tick::Tick;

/// A ballot that is further ahead of a node's TIME may be too far ahead for `high`, which nodes do
/// not raise to what is more than a day ahead: with room for what is not known of TIME.
const NEAR: Duration = Duration::from_secs(23 * 3_600);

/// The highest ballots of grants that were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Granted {
    ballot: u64,
    /// When the last of them was counted.
    at: Tick,
    /// What it was when a hello was heard last.
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

    /// A hello was heard.
    pub(super) const fn heard(&mut self) {
        self.before = self.ballot;
    }

    /// What a record must show that was read after `sent`.
    pub(super) fn least(self, sent: Tick) -> u64 {
        if self.at <= sent { self.ballot } else { self.before }
    }
}
