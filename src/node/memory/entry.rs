//! What a node keeps of one name.

use std::sync::Arc;
use std::time::Duration;

use super::line::Line;
use super::record::KEEP;
use super::{LONGEST_TURN, millis};
use crate::node::operation::Operation;

/// Who holds a name, or held it last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    pub(super) owner: Arc<str>,
    pub(super) count: u32,
    /// Zero since it was released.
    pub(super) until: Duration,
}

/// A name: the hash and the sorted set of a real node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    hold: Option<Hold>,
    pub(super) fence: u64,
    /// The owner that was last released here without holding it.
    released: Option<Arc<str>>,
    /// Who may claim the free name first, until when.
    pub(super) turn: Option<(Arc<str>, Duration)>,
    pub(super) line: Line,
    /// When the fence is forgotten.
    expires: Duration,
}

impl Entry {
    /// Whoever holds it now.
    pub(super) fn holder(&self, now: Duration) -> Option<&Hold> {
        self.hold.as_ref().filter(|hold| hold.until > now)
    }

    pub(super) fn is_held_by(&self, owner: &str, now: Duration) -> bool {
        self.holder(now).is_some_and(|hold| *hold.owner == *owner)
    }

    /// Whether `owner` was the last that was released: a late renewal must not revive that.
    pub(super) fn was_released(&self, owner: &str) -> bool {
        let freed = self.hold.as_ref().is_some_and(|hold| hold.until.is_zero() && *hold.owner == *owner);
        freed || self.released.as_deref() == Some(owner)
    }

    /// Forgets what has ended. Whether nothing is left.
    pub(super) fn expire(&mut self, now: Duration) -> bool {
        self.line.expire(now);
        // A turn that is longer than any: the node's clock was set back since it was given.
        self.turn.take_if(|(_, until)| *until <= now || *until > now + LONGEST_TURN);
        if self.expires <= now {
            let line = std::mem::take(&mut self.line);
            *self = Self { line, ..Self::default() };
        }
        self.expires.is_zero() && self.line.first().is_none()
    }

    /// It changes: it is kept from now on, or from the end of its hold.
    pub(super) fn keep(&mut self, now: Duration) {
        let until = self.hold.as_ref().map_or(Duration::ZERO, |hold| hold.until);
        // A fence that is ahead of the clock may be too far ahead for the record: it is kept until clocks have passed it.
        let passed = Duration::from_millis(self.fence.div_ceil(1_000));
        self.expires = until.max(now).max(passed) + KEEP;
    }

    pub(super) fn hold(&mut self, operation: &Operation, fence: u64, now: Duration) {
        let until = now + millis(operation.ttl);
        self.hold = Some(Hold { owner: operation.owner.clone(), count: operation.count, until });
        self.fence = fence;
        self.keep(now);
    }

    pub(super) fn extend(&mut self, ttl: Duration, now: Duration) {
        if let Some(hold) = &mut self.hold {
            hold.until = now + millis(ttl);
        }
        self.keep(now);
    }

    pub(super) const fn count(&mut self, count: u32) {
        if let Some(hold) = &mut self.hold {
            hold.count = count;
        }
    }

    /// As if it had never been held.
    pub(super) fn forget(&mut self) {
        self.hold = None;
    }

    /// Whether `owner` held it until now. The fence is at least `ballot` from now on, in either case.
    pub(super) fn release(&mut self, owner: &Arc<str>, ballot: u64, now: Duration) -> bool {
        let mine = self.is_held_by(owner, now);
        match &mut self.hold {
            Some(hold) if mine => hold.until = Duration::ZERO,
            _ => self.released = Some(owner.clone()),
        }
        self.fence = self.fence.max(ballot);
        self.keep(now);
        mine
    }
}
