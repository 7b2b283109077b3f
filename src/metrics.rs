//! Every metric: name, unit, labels, description, in one table.
//!
//! The library records through the [`metrics`] facade and installs no exporter. Install yours
//! **before** connecting: that registers every series, at zero, so that a rate sees the first event
//! too. Quorums of one process share them. Labels are bounded: nodes, operations and outcomes,
//! never lock names.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Unit};

use crate::rules::{LostReason, Renewed};

/// Bounds of the latency histograms' buckets, in seconds, from one region to a long wait: 0.0005,
/// 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30 and 60.
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
#[non_exhaustive]
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
        $(pub(crate) const $constant: &str = $name;)*
        /// Name, kind, labels and meaning of each:
        ///
        $(#[doc = concat!("- `", $name, "` (", stringify!($kind), $(", `", $label, "`",)* "): ", $help)])*
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
        "Time from the first node's turn, or from the first that handed it over, to having the lock";
    HANDOVERS = "quorumlock_handovers_total", Counter, Count, [],
        "Locks that nodes handed over to a waiter of this process, which had not to claim them again";
    LATE_GRANTS = "quorumlock_late_grants_total", Counter, Count, [],
        "Grants that came after their round had failed, and were released";
}

/// Describes all metrics to the installed recorder.
fn describe() {
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

/// Metrics of one name that differ in the value of one label. All are registered from the start: a
/// counter that appears with its first event goes from nothing to one, which `increase()` does not
/// see.
#[derive(Debug)]
pub(crate) struct Family<L, M>(Box<[(L, M)]>);

impl<L: Copy + PartialEq, M> Family<L, M> {
    pub(crate) fn new(values: impl IntoIterator<Item = L>, register: impl Fn(L) -> M) -> Self {
        Self(values.into_iter().map(|value| (value, register(value))).collect())
    }

    pub(crate) fn get(&self, value: L) -> Option<&M> {
        self.0.iter().find(|(known, _)| *known == value).map(|(_, metric)| metric)
    }
}

impl<L: Copy + PartialEq> Family<L, Counter> {
    pub(crate) fn count(&self, value: L) {
        if let Some(counter) = self.get(value) {
            counter.increment(1);
        }
    }
}

/// The values of a label.
macro_rules! labels {
    ($(#[$what:meta])* $name:ident { $($value:ident = $text:literal),* }) => {
        $(#[$what])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($value),* }

        impl $name {
            const ALL: &'static [Self] = &[$(Self::$value),*];

            const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $text),* }
            }
        }
    };
}

labels! {
    /// How an acquisition ended.
    Ended {
        Acquired = "acquired", Contended = "contended", Timeout = "timeout", Unavailable = "unavailable",
        Cancelled = "cancelled", Error = "error"
    }
}

labels! {
    /// What a round of claims came to.
    RoundEnded { Won = "won", Failed = "failed", Stale = "stale", Timeout = "timeout" }
}

labels! {
    /// What a renewal came to.
    RenewalEnded { Extended = "extended", Lost = "lost", Unclear = "unclear" }
}

/// What is recorded of a quorum.
#[derive(Debug)]
pub(crate) struct Meters {
    acquire: Family<Ended, Histogram>,
    queue_wait: Histogram,
    held_time: Histogram,
    rounds: Family<RoundEnded, Counter>,
    split: Counter,
    renewals: Family<RenewalEnded, Counter>,
    margin: Histogram,
    lost: Family<LostReason, Counter>,
    held: Gauge,
    waiting: Gauge,
    late_grants: Counter,
    turns_taken: Counter,
    turns_missed: Counter,
    in_line: Gauge,
    by_turn: Histogram,
    by_push: Histogram,
    handovers: Counter,
}

impl Meters {
    pub(crate) fn new() -> Self {
        describe();
        Self {
            acquire: Family::new(
                Ended::ALL.iter().copied(),
                |outcome| metrics::histogram!(ACQUIRE, "outcome" => outcome.as_str()),
            ),
            queue_wait: metrics::histogram!(QUEUE_WAIT),
            held_time: metrics::histogram!(HELD_TIME),
            rounds: Family::new(
                RoundEnded::ALL.iter().copied(),
                |verdict| metrics::counter!(ROUNDS, "verdict" => verdict.as_str()),
            ),
            split: metrics::counter!(SPLIT),
            renewals: Family::new(
                RenewalEnded::ALL.iter().copied(),
                |outcome| metrics::counter!(RENEWALS, "outcome" => outcome.as_str()),
            ),
            margin: metrics::histogram!(MARGIN),
            lost: Family::new(LostReason::ALL, |reason| metrics::counter!(LOST, "reason" => reason.as_str())),
            held: metrics::gauge!(HELD),
            waiting: metrics::gauge!(WAITING),
            late_grants: metrics::counter!(LATE_GRANTS),
            turns_taken: metrics::counter!(TURNS, "outcome" => "taken"),
            turns_missed: metrics::counter!(TURNS, "outcome" => "missed"),
            in_line: metrics::gauge!(IN_LINE),
            by_turn: metrics::histogram!(HANDOVER, "by" => "turn"),
            by_push: metrics::histogram!(HANDOVER, "by" => "push"),
            handovers: metrics::counter!(HANDOVERS),
        }
    }

    pub(crate) fn acquire(&self, outcome: Ended, took: Duration) {
        if let Some(histogram) = self.acquire.get(outcome) {
            histogram.record(took);
        }
    }

    pub(crate) fn queue_wait(&self, took: Duration) {
        self.queue_wait.record(took);
    }

    pub(crate) fn round(&self, verdict: RoundEnded, split: bool) {
        self.rounds.count(verdict);
        if split {
            self.split.increment(1);
        }
    }

    /// What a renewal came to. One that came when its lease was over is not counted.
    pub(crate) fn renewed(&self, renewed: Renewed) {
        match renewed {
            Renewed::Extended { margin, .. } => {
                self.renewals.count(RenewalEnded::Extended);
                self.margin.record(margin);
            }
            Renewed::Unclear { .. } => self.renewals.count(RenewalEnded::Unclear),
            Renewed::Lost(LostReason::Refused) => self.renewals.count(RenewalEnded::Lost),
            Renewed::Lost(_) | Renewed::Over => {}
        }
    }

    pub(crate) fn lost(&self, reason: LostReason) {
        self.lost.count(reason);
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

    /// A lock was handed over, by a quorum this long after the first node.
    pub(crate) fn handed_over(&self, after: Duration) {
        self.handovers.increment(1);
        self.by_push.record(after);
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
}
