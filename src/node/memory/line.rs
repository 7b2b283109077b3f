//! Those who wait for a name, oldest first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Acquisitions by ticket, then by their own order: what a sorted set is on a real node. It expires as a whole, with the longest wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Line {
    waiting: BTreeSet<(u64, Arc<str>)>,
    until: Duration,
}

impl Line {
    pub(super) fn join(&mut self, ticket: u64, acquisition: Arc<str>, until: Duration) {
        self.leave(&acquisition);
        self.waiting.insert((ticket, acquisition));
        self.until = self.until.max(until);
    }

    pub(super) fn leave(&mut self, acquisition: &str) {
        self.waiting.retain(|(_, known)| **known != *acquisition);
        self.forget_when_empty();
    }

    pub(super) fn pop(&mut self) -> Option<Arc<str>> {
        let first = self.waiting.pop_first().map(|(_, first)| first);
        self.forget_when_empty();
        first
    }

    pub(super) fn first(&self) -> Option<(u64, &Arc<str>)> {
        self.waiting.first().map(|(ticket, first)| (*ticket, first))
    }

    pub(super) fn len(&self, now: Duration) -> u32 {
        if now < self.until { u32::try_from(self.waiting.len()).unwrap_or(u32::MAX) } else { 0 }
    }

    pub(super) fn contains(&self, acquisition: &str, now: Duration) -> bool {
        now < self.until && self.waiting.iter().any(|(_, known)| **known == *acquisition)
    }

    pub(super) fn expire(&mut self, now: Duration) {
        if self.until <= now {
            self.waiting.clear();
            self.until = Duration::ZERO;
        }
    }

    /// An empty sorted set is no key, and has no expiry.
    fn forget_when_empty(&mut self) {
        if self.waiting.is_empty() {
            self.until = Duration::ZERO;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_queue_that_was_empty_is_kept_for_no_longer_than_who_joined_since() {
        for leave in [|line: &mut Line| line.leave("long"), |line: &mut Line| drop(line.pop())] {
            let mut line = Line::default();
            line.join(1, "long".into(), 100 * SECOND);
            leave(&mut line);
            line.join(2, "short".into(), 5 * SECOND);
            assert!(line.contains("short", 4 * SECOND) && !line.contains("short", 5 * SECOND));
            line.expire(4 * SECOND);
            assert_eq!(line.first().map(|(ticket, _)| ticket), Some(2));
            line.expire(5 * SECOND);
            assert_eq!(line.first(), None);
        }
    }
}
