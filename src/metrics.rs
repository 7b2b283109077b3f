//! Every metric: name, unit, labels, description, in one table.
//!
//! The library records through the [`metrics`] facade and installs no exporter. Install yours **before**
//! connecting: handles are made then, or at their first use. Quorums of one process share them. Labels are bounded: nodes, operations and outcomes, never lock names.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, SharedString, Unit};

use crate::node::Verb;

/// Bounds of the latency histograms' buckets, in seconds: from half a millisecond (one region) to a minute (a long wait).
pub const BUCKETS: [f64; 16] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counts events.
    Counter,
    /// A present value.
    Gauge,
    /// A distribution, over [`BUCKETS`].
    Histogram,
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its unit.
    pub unit: Unit,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: &'static str,
}

macro_rules! table {
    ($($constant:ident = $name:literal, $kind:ident, $unit:ident, [$($label:literal),*], $help:literal;)*) => {
        $(const $constant: &str = $name;)*
        /// The table.
        pub const METRICS: &[Metric] = &[
            $(Metric { name: $name, kind: Kind::$kind, unit: Unit::$unit, labels: &[$($label),*], help: $help },)*
        ];
    };
}

table! {
    ACQUIRE = "quorumlock_acquire_seconds", Histogram, Seconds, ["outcome"],
        "Time from asking for a lock to having it or giving up";
    QUEUE_WAIT = "quorumlock_queue_wait_seconds", Histogram, Seconds, [],
        "Time spent behind callers of the same name in this process";
    HELD_TIME = "quorumlock_held_seconds", Histogram, Seconds, [], "Time for which locks were held";
    ROUND_TRIP = "quorumlock_node_round_trip_seconds", Histogram, Seconds, ["node", "operation"],
        "Time from submitting an operation to its answer";
    OUTCOMES = "quorumlock_node_outcomes_total", Counter, Count, ["node", "operation", "outcome"],
        "Answers by node, operation and outcome";
    ROUNDS = "quorumlock_rounds_total", Counter, Count, ["verdict"], "Rounds of claims by verdict";
    SPLIT = "quorumlock_split_rounds_total", Counter, Count, [], "Rounds in which several contenders got votes and none a quorum";
    RENEWALS = "quorumlock_renewals_total", Counter, Count, ["outcome"], "Renewals by outcome";
    MARGIN = "quorumlock_renewal_margin_seconds", Histogram, Seconds, [], "Validity that was left when a renewal succeeded";
    LOST = "quorumlock_lost_total", Counter, Count, ["reason"], "Locks lost by reason";
    HELD = "quorumlock_held", Gauge, Count, [], "Locks held now";
    WAITING = "quorumlock_waiting", Gauge, Count, [], "Callers waiting for a lock now";
    NODE_UP = "quorumlock_node_up", Gauge, Count, ["node"], "1 while the node is connected and checked";
    NODE_QUARANTINED = "quorumlock_node_quarantined", Gauge, Count, ["node"],
        "1 while the node votes on no claim, because it restarted or its clock was stepped";
    HINTS = "quorumlock_hints_total", Counter, Count, ["outcome"],
        "Wake-ups received: heard by a waiter, or wasted since it had gone or held the lock already";
    TURNS = "quorumlock_turns_total", Counter, Count, ["outcome"],
        "Turns in line that a quorum of nodes gave: taken, or missed since the round failed all the same";
    IN_LINE = "quorumlock_in_line", Gauge, Count, [], "Acquisitions of this process that wait in line now";
    HANDOVER = "quorumlock_handover_seconds", Histogram, Seconds, ["by"],
        "Time from the first hint, or from the release of the one before in this process, to having the lock";
    PASSES = "quorumlock_passes_total", Counter, Count, [], "Locks passed from caller to caller within this process";
    LATE_GRANTS = "quorumlock_late_grants_total", Counter, Count, [],
        "Grants that came after their round had failed, and were released";
}

/// Describes all metrics to the installed recorder. Connecting does this.
pub fn describe() {
    for metric in METRICS {
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, metric.unit, metric.help),
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.unit, metric.help),
            Kind::Histogram => metrics::describe_histogram!(metric.name, metric.unit, metric.help),
        }
    }
}

/// Hints that somebody heard, and hints that nobody did.
pub(crate) fn hint_counters() -> (Counter, Counter) {
    (metrics::counter!(HINTS, "outcome" => "heard"), metrics::counter!(HINTS, "outcome" => "wasted"))
}

/// Counters of one name that differ in one label, registered at their first use.
#[derive(Debug)]
struct Family<const N: usize> {
    values: [&'static str; N],
    counters: [OnceLock<Counter>; N],
}

impl<const N: usize> Family<N> {
    fn new(values: [&'static str; N]) -> Self {
        Self { values, counters: [const { OnceLock::new() }; N] }
    }

    fn get(&self, value: &'static str, register: impl FnOnce(&'static str) -> Counter) -> Option<&Counter> {
        let index = self.values.iter().position(|known| *known == value)?;
        Some(self.counters[index].get_or_init(|| register(value)))
    }
}

/// Every outcome a node's answer can have.
const ANSWERS: [&str; 17] = [
    "granted",
    "reserved",
    "passed",
    "held",
    "stale",
    "extended",
    "healed",
    "lost",
    "released",
    "inspected",
    "down",
    "quarantined",
    "overloaded",
    "timeout",
    "closed",
    "rejected",
    "garbled",
];

/// What is recorded of one node.
#[derive(Debug)]
pub(crate) struct NodeMeters {
    node: SharedString,
    round_trips: [OnceLock<Histogram>; 5],
    outcomes: [Family<17>; 5],
    up: Gauge,
    quarantined: Gauge,
}

impl NodeMeters {
    pub(crate) fn new(label: &Arc<str>) -> Self {
        let node = SharedString::from(label.clone());
        let up = metrics::gauge!(NODE_UP, "node" => node.clone());
        let quarantined = metrics::gauge!(NODE_QUARANTINED, "node" => node.clone());
        up.set(0.0);
        quarantined.set(0.0);
        let outcomes = std::array::from_fn(|_| Family::new(ANSWERS));
        Self { node, round_trips: [const { OnceLock::new() }; 5], outcomes, up, quarantined }
    }

    pub(crate) fn answered(&self, verb: Verb, outcome: &'static str) {
        let register = |outcome: &'static str| metrics::counter!(OUTCOMES, "node" => self.node.clone(), "operation" => verb.as_str(), "outcome" => outcome);
        if let Some(counter) = self.outcomes[verb as usize].get(outcome, register) {
            counter.increment(1);
        }
    }

    pub(crate) fn round_trip(&self, verb: Verb, took: Duration) {
        let register = || metrics::histogram!(ROUND_TRIP, "node" => self.node.clone(), "operation" => verb.as_str());
        self.round_trips[verb as usize].get_or_init(register).record(took);
    }

    pub(crate) fn up(&self, up: bool) {
        self.up.set(if up { 1.0 } else { 0.0 });
    }

    pub(crate) fn quarantined(&self, quarantined: bool) {
        self.quarantined.set(if quarantined { 1.0 } else { 0.0 });
    }
}

/// How an acquisition can end.
const ACQUIRED: [&str; 6] = ["acquired", "contended", "timeout", "unavailable", "cancelled", "error"];

/// What is recorded of a quorum.
#[derive(Debug)]
pub(crate) struct Meters {
    acquire: [OnceLock<Histogram>; 6],
    queue_wait: Histogram,
    held_time: Histogram,
    rounds: Family<4>,
    split: Counter,
    renewals: Family<3>,
    margin: Histogram,
    lost: Family<4>,
    held: Gauge,
    waiting: Gauge,
    late_grants: Counter,
    turns_taken: Counter,
    turns_missed: Counter,
    in_line: Gauge,
    by_turn: Histogram,
    by_pass: Histogram,
    passes: Counter,
}

impl Meters {
    pub(crate) fn new() -> Self {
        describe();
        Self {
            acquire: [const { OnceLock::new() }; 6],
            queue_wait: metrics::histogram!(QUEUE_WAIT),
            held_time: metrics::histogram!(HELD_TIME),
            rounds: Family::new(["won", "failed", "stale", "timeout"]),
            split: metrics::counter!(SPLIT),
            renewals: Family::new(["extended", "lost", "unclear"]),
            margin: metrics::histogram!(MARGIN),
            lost: Family::new(["expired", "refused", "max_hold", "closed"]),
            held: metrics::gauge!(HELD),
            waiting: metrics::gauge!(WAITING),
            late_grants: metrics::counter!(LATE_GRANTS),
            turns_taken: metrics::counter!(TURNS, "outcome" => "taken"),
            turns_missed: metrics::counter!(TURNS, "outcome" => "missed"),
            in_line: metrics::gauge!(IN_LINE),
            by_turn: metrics::histogram!(HANDOVER, "by" => "turn"),
            by_pass: metrics::histogram!(HANDOVER, "by" => "pass"),
            passes: metrics::counter!(PASSES),
        }
    }

    pub(crate) fn acquire(&self, outcome: &'static str, took: Duration) {
        if let Some(index) = ACQUIRED.iter().position(|known| *known == outcome) {
            let register = || metrics::histogram!(ACQUIRE, "outcome" => outcome);
            self.acquire[index].get_or_init(register).record(took);
        }
    }

    pub(crate) fn queue_wait(&self, took: Duration) {
        self.queue_wait.record(took);
    }

    pub(crate) fn round(&self, verdict: &'static str, split: bool) {
        if let Some(counter) = self.rounds.get(verdict, |verdict| metrics::counter!(ROUNDS, "verdict" => verdict)) {
            counter.increment(1);
        }
        if split {
            self.split.increment(1);
        }
    }

    pub(crate) fn renewal(&self, outcome: &'static str) {
        if let Some(counter) = self.renewals.get(outcome, |outcome| metrics::counter!(RENEWALS, "outcome" => outcome)) {
            counter.increment(1);
        }
    }

    pub(crate) fn margin(&self, left: Duration) {
        self.margin.record(left);
    }

    pub(crate) fn lost(&self, reason: &'static str) {
        if let Some(counter) = self.lost.get(reason, |reason| metrics::counter!(LOST, "reason" => reason)) {
            counter.increment(1);
        }
    }

    pub(crate) fn held(&self) {
        self.held.increment(1.0);
    }

    pub(crate) fn freed(&self, after: Duration) {
        self.held.decrement(1.0);
        self.held_time.record(after);
    }

    pub(crate) fn waits(&self, waits: bool) {
        if waits { self.waiting.increment(1.0) } else { self.waiting.decrement(1.0) }
    }

    /// A turn was taken, this long after its first hint.
    pub(crate) fn turn_taken(&self, after: Duration) {
        self.turns_taken.increment(1);
        self.by_turn.record(after);
    }

    pub(crate) fn turn_missed(&self) {
        self.turns_missed.increment(1);
    }

    pub(crate) fn in_line(&self, waits: bool) {
        if waits { self.in_line.increment(1.0) } else { self.in_line.decrement(1.0) }
    }

    /// A lock was passed within this process, this long after its release.
    pub(crate) fn passed(&self, after: Duration) {
        self.passes.increment(1);
        self.by_pass.record(after);
    }

    pub(crate) fn late_grant(&self) {
        self.late_grants.increment(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_unit_and_labels_are_bounded() {
        for metric in METRICS {
            let suffix = match (metric.kind, metric.unit) {
                (Kind::Counter, _) => "_total",
                (Kind::Histogram, Unit::Seconds) => "_seconds",
                _ => "",
            };
            assert!(metric.name.starts_with("quorumlock_") && metric.name.ends_with(suffix), "{}", metric.name);
            assert!(!metric.labels.contains(&"name"), "{}: lock names are not bounded", metric.name);
        }
    }

    #[test]
    fn every_answer_has_a_counter() {
        use crate::node::FaultKind;
        for kind in [
            FaultKind::Down,
            FaultKind::Quarantined,
            FaultKind::Overloaded,
            FaultKind::Timeout,
            FaultKind::Closed,
            FaultKind::Rejected,
            FaultKind::Garbled,
        ] {
            assert!(ANSWERS.contains(&kind.as_str()));
        }
    }
}
