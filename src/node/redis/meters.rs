//! The metrics of one node.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Label, SharedString};

use crate::metrics::{NODE_DOUBTS, NODE_FAULTS, NODE_OPERATIONS, NODE_QUARANTINED, NODE_UP, ROUND_TRIP};
use crate::node::operation::Verb;
use crate::node::reply::{FaultKind, Outcome};
use crate::rules::doubt::Doubt;

/// The verbs that decide about a lock; `other` stands for all other verbs.
const OPERATIONS: [&str; 4] = ["claim", "renew", "release", "other"];
/// The reasons of failures in metrics. Each reason needs its own remedy.
const REASONS: [&str; 7] = ["down", "quarantined", "unfit", "overloaded", "timeout", "rejected", "garbled"];

const fn operation(verb: Verb) -> usize {
    match verb {
        Verb::Claim => 0,
        Verb::Renew => 1,
        Verb::Release => 2,
        _ => 3,
    }
}

const fn reason(fault: FaultKind) -> usize {
    match fault {
        // There was no usable connection, or the connection ended before the reply.
        FaultKind::Down | FaultKind::Closed => 0,
        // The node's vote did not count, or the claim was not sent for this reason.
        FaultKind::Quarantined | FaultKind::Doubted => 1,
        FaultKind::Unfit => 2,
        FaultKind::Overloaded => 3,
        FaultKind::Timeout => 4,
        FaultKind::Busy | FaultKind::Rejected => 5,
        FaultKind::Garbled => 6,
    }
}

/// Whether the node refused the operation.
const fn refused(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Held { .. }
            | Outcome::Stale { .. }
            | Outcome::Misused { .. }
            | Outcome::Healed
            | Outcome::Lost { .. }
            | Outcome::Forgot
            | Outcome::NoList
            | Outcome::OtherList { .. }
    )
}

#[derive(Debug)]
struct Answers {
    ok: Counter,
    refused: Counter,
    failed: Counter,
}

#[derive(Debug)]
pub(super) struct NodeMeters {
    round_trip: Histogram,
    operations: [Answers; OPERATIONS.len()],
    faults: [Counter; REASONS.len()],
    /// The number of doubts about the node by cause, in the order of `Doubt::CAUSES`.
    doubts: [Counter; Doubt::CAUSES.len()],
    up: Gauge,
    quarantined: Gauge,
}

impl NodeMeters {
    pub(super) fn new(quorum: &SharedString, label: &Arc<str>) -> Self {
        let labels = |more: &[(&'static str, &'static str)]| -> Vec<Label> {
            let node = Label::new("node", SharedString::from(label.clone()));
            let more = more.iter().map(|&(key, value)| Label::new(key, value));
            [Label::new("quorum", quorum.clone()), node].into_iter().chain(more).collect()
        };
        let up = metrics::gauge!(NODE_UP, labels(&[]));
        let quarantined = metrics::gauge!(NODE_QUARANTINED, labels(&[]));
        up.set(0.0);
        quarantined.set(0.0);
        let answers = |operation: &'static str| {
            let counter = |outcome: &'static str| {
                metrics::counter!(NODE_OPERATIONS, labels(&[("operation", operation), ("outcome", outcome)]))
            };
            // A node refuses no release. The reply `forgot` to a release is not counted.
            let refused = if operation == "release" { Counter::noop() } else { counter("refused") };
            Answers { ok: counter("ok"), refused, failed: counter("failed") }
        };
        Self {
            round_trip: metrics::histogram!(ROUND_TRIP, labels(&[])),
            operations: OPERATIONS.map(answers),
            doubts: Doubt::CAUSES.map(|doubt| metrics::counter!(NODE_DOUBTS, labels(&[("reason", doubt.as_str())]))),
            faults: REASONS.map(|reason| metrics::counter!(NODE_FAULTS, labels(&[("reason", reason)]))),
            up,
            quarantined,
        }
    }

    pub(super) fn answered(&self, verb: Verb, reply: Result<&Outcome, FaultKind>) {
        let answers = &self.operations[operation(verb)];
        match reply {
            Ok(outcome) if refused(outcome) => answers.refused.increment(1),
            Ok(_) => answers.ok.increment(1),
            Err(fault) => {
                answers.failed.increment(1);
                self.faults[reason(fault)].increment(1);
            }
        }
    }

    pub(super) fn round_trip(&self, took: Duration) {
        self.round_trip.record(took);
    }

    pub(super) fn doubted(&self, why: Doubt) {
        let at = Doubt::CAUSES.iter().position(|doubt| *doubt == why);
        at.into_iter().for_each(|at| self.doubts[at].increment(1));
    }

    /// Notes that the connection has ended. Only the greeter sets this gauge to 1, and it may have
    /// ended before the connection.
    pub(super) fn down(&self) {
        self.up.set(0.0);
    }

    pub(super) fn quarantined(&self, quarantined: bool) {
        self.quarantined.set(if quarantined { 1.0 } else { 0.0 });
    }
}
