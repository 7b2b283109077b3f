//! Events, and which of them are shown.

use std::collections::VecDeque;
use std::time::Instant;

use super::seen::Mood;

/// How many events are kept. Events of nodes matter most, so the oldest event of another kind is
/// removed first. If more than half of the events are of nodes, the oldest event of a node is
/// removed.
pub(super) const KEPT: usize = 500;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A lock got another holder, note or number of readers, was released, revoked or lost, or no
    /// quorum agrees on its holder.
    Lock,
    /// A node changed its state or its speed, or a quorum of nodes began or ceased to vote.
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

    /// The selection that follows `selected`. `None` selects all kinds.
    pub(super) const fn after(selected: Option<Self>) -> Option<Self> {
        match selected {
            None => Some(Self::Lock),
            Some(Self::Lock) => Some(Self::Node),
            Some(Self::Node) => Some(Self::Queue),
            Some(Self::Queue) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: Kind,
    /// The name or node that the event is about; empty if it is about all nodes.
    pub(super) subject: String,
    pub(super) text: String,
    pub(super) mood: Mood,
}

/// The latest events, latest first.
#[derive(Debug, Default)]
pub(super) struct Log(VecDeque<(Instant, Event)>);

impl Log {
    pub(super) fn add(&mut self, now: Instant, event: Event) {
        if self.0.len() == KEPT {
            let of_nodes = self.0.iter().filter(|(_, event)| event.kind == Kind::Node).count();
            let are_many = of_nodes > KEPT / 2;
            let oldest = self.0.iter().rposition(|(_, event)| (event.kind == Kind::Node) == are_many);
            self.0.remove(oldest.unwrap_or(KEPT - 1));
        }
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
    fn log_keeps_the_latest_and_those_of_nodes() {
        let mut log = Log::default();
        for number in 0..2 * KEPT {
            let (subject, text) = (String::new(), number.to_string());
            let kind = if number == 0 { Kind::Node } else { Kind::Lock };
            log.add(Instant::now(), Event { kind, subject, text, mood: Mood::Good });
        }
        let texts: Vec<_> = log.iter().map(|(_, event)| event.text.clone()).collect();
        let latest = (KEPT + 1..2 * KEPT).rev().chain([0]);
        assert_eq!(texts, latest.map(|number| number.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn selections_come_round() {
        let kinds: Vec<_> = std::iter::successors(Some(None), |&kind| Some(Kind::after(kind))).take(5).collect();
        assert_eq!(kinds, [None, Some(Kind::Lock), Some(Kind::Node), Some(Kind::Queue), None]);
    }
}
