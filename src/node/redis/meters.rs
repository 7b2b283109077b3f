//! What is recorded of one node.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, SharedString};

use crate::metrics::{Family, NODE_QUARANTINED, NODE_UP, OUTCOMES, ROUND_TRIP};
use crate::node::operation::Verb;
use crate::node::reply::{FaultKind, Outcome};

/// The answers to each verb, apart from faults, which any can meet.
const fn answers(verb: Verb) -> &'static [&'static str] {
    match verb {
        Verb::Claim => &["granted", "held", "stale", "reserved", "misused"],
        Verb::Renew => &["extended", "healed", "lost"],
        Verb::Count => &["counted", "lost"],
        Verb::Release => &["released"],
        Verb::Inspect => &["inspected"],
        Verb::Teach => &["taught"],
        Verb::Record => &["record"],
        Verb::Revoke => &["revoked"],
        Verb::Enrol => &["listed"],
        Verb::Retire => &["retired"],
        Verb::Reset => &["reset"],
        Verb::Note => &["noted", "lost"],
        Verb::Scan => &["scanned"],
        Verb::Watch => &["watched"],
    }
}

/// Why a node gave no answer.
const FAULTS: [&str; 11] = [
    "down",
    "quarantined",
    // An enrolment may be answered so, too.
    "unlisted",
    "unfit",
    "overloaded",
    "timeout",
    "closed",
    "busy",
    "rejected",
    "garbled",
    "doubted",
];

const VERBS: usize = Verb::ALL.len();

#[derive(Debug)]
pub(super) struct NodeMeters {
    round_trips: [Histogram; VERBS],
    outcomes: [Family<&'static str, Counter>; VERBS],
    up: Gauge,
    quarantined: Gauge,
}

impl NodeMeters {
    pub(super) fn new(label: &Arc<str>) -> Self {
        let node = SharedString::from(label.clone());
        let up = metrics::gauge!(NODE_UP, "node" => node.clone());
        let quarantined = metrics::gauge!(NODE_QUARANTINED, "node" => node.clone());
        up.set(0.0);
        quarantined.set(0.0);
        let round_trip =
            |verb: Verb| metrics::histogram!(ROUND_TRIP, "node" => node.clone(), "operation" => verb.as_str());
        let outcomes = |verb: Verb| {
            Family::new(answers(verb).iter().chain(&FAULTS).copied(), |outcome| {
                let operation = verb.as_str();
                metrics::counter!(OUTCOMES, "node" => node.clone(), "operation" => operation, "outcome" => outcome)
            })
        };
        Self { round_trips: Verb::ALL.map(round_trip), outcomes: Verb::ALL.map(outcomes), up, quarantined }
    }

    pub(super) fn answered(&self, verb: Verb, reply: Result<&Outcome, FaultKind>) {
        self.outcomes[verb as usize].count(reply.map_or_else(FaultKind::as_str, Outcome::as_str));
    }

    pub(super) fn round_trip(&self, verb: Verb, took: Duration) {
        self.round_trips[verb as usize].record(took);
    }

    pub(super) fn up(&self, up: bool) {
        self.up.set(if up { 1.0 } else { 0.0 });
    }

    pub(super) fn quarantined(&self, quarantined: bool) {
        self.quarantined.set(if quarantined { 1.0 } else { 0.0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_a_counter() {
        let meters = NodeMeters::new(&"redis://eu:6379".into());
        let counted = |verb: Verb, outcome| meters.outcomes[verb as usize].get(outcome).is_some();
        let faults = [
            FaultKind::Down,
            FaultKind::Quarantined,
            FaultKind::Unlisted,
            FaultKind::Unfit,
            FaultKind::Overloaded,
            FaultKind::Timeout,
            FaultKind::Closed,
            FaultKind::Busy,
            FaultKind::Rejected,
            FaultKind::Garbled,
            FaultKind::Doubted,
        ];
        for verb in Verb::ALL {
            assert!(faults.iter().all(|fault| counted(verb, fault.as_str())), "{verb:?}");
        }
        for (verb, outcome) in [
            (Verb::Claim, Outcome::Granted { fence: 1 }),
            (Verb::Renew, Outcome::Healed),
            (Verb::Release, Outcome::Released { held: 1 }),
            (Verb::Inspect, Outcome::Inspected(Vec::new())),
            (Verb::Watch, Outcome::Watched { entries: Vec::new(), registered: true }),
        ] {
            assert!(counted(verb, outcome.as_str()), "{outcome:?}");
        }
    }
}
