//! Events, and which of them are shown.

use std::collections::VecDeque;
use std::time::Instant;

use super::seen::Mood;

/// How many events are kept.
pub(super) const KEPT: usize = 500;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A lock was taken, handed over, released, revoked or lost.
    Lock,
    /// A node changed its state.
    Node,
    /// The number of waiters changed.
    Queue,
}

impl Kind {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Node => "node",
            Self::Queue => "queue",
        }
    }

    /// The selection after this one, where `None` selects all.
    pub(super) const fn after(selected: Option<Self>) -> Option<Self> {
        match selected {
            None => Some(Self::Lock),
            Some(Self::Lock) => Some(Self::Node),
            Some(Self::Node) => Some(Self::Queue),
            Some(Self::Queue) => None,
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: Kind,
    /// The name or node that it happened to.
    pub(super) subject: String,
    pub(super) text: String,
    pub(super) mood: Mood,
}

/// The latest events, latest first.
#[derive(Debug, Default)]
pub(super) struct Log(VecDeque<(Instant, Event)>);

impl Log {
    pub(super) fn add(&mut self, now: Instant, event: Event) {
        self.0.truncate(KEPT - 1);
        self.0.push_front((now, event));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(Instant, Event)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_keeps_the_latest() {
        let mut log = Log::default();
        for number in 0..2 * KEPT {
            let (subject, text) = (String::new(), number.to_string());
            log.add(Instant::now(), Event { kind: Kind::Lock, subject, text, mood: Mood::Good });
        }
        assert_eq!(log.iter().count(), KEPT);
        assert_eq!(log.iter().next().unwrap().1.text, (2 * KEPT - 1).to_string());
    }

    #[test]
    fn selections_come_round() {
        let kinds: Vec<_> = std::iter::successors(Some(None), |&kind| Some(Kind::after(kind))).take(5).collect();
        assert_eq!(kinds, [None, Some(Kind::Lock), Some(Kind::Node), Some(Kind::Queue), None]);
    }
}
