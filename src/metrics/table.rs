//! The table of all metrics.

use metrics::Unit;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counts events.
    Counter,
    /// A current value.
    Gauge,
    /// A distribution, over its [`buckets`](Metric::buckets).
    Histogram,
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The unit.
    pub unit: Unit,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// The upper bounds of the buckets, in the metric's unit. Empty unless the metric is a
    /// histogram.
    pub buckets: &'static [f64],
    /// What the metric measures.
    pub help: &'static str,
}

/// The name of each histogram, and the upper bounds of its buckets, to configure an exporter.
///
/// # Examples
/// With `metrics-exporter-prometheus`:
/// ```
/// use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
///
/// fn exporter() -> Result<PrometheusBuilder, BuildError> {
///     quorumlock::metrics::buckets().try_fold(PrometheusBuilder::new(), |builder, (name, bounds)| {
///         builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), bounds)
///     })
/// }
/// # exporter().unwrap();
/// ```
pub fn buckets() -> impl Iterator<Item = (&'static str, &'static [f64])> {
    METRICS.iter().filter(|metric| metric.kind == Kind::Histogram).map(|metric| (metric.name, metric.buckets))
}

/// Bounds of buckets, in seconds: from an acquisition with nodes on the same machine to a long
/// wait.
const WAITS: &[f64] = &[
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];
/// Like `WAITS`, but with fewer buckets, and from 1 ms on.
const QUEUES: &[f64] = &[0.001, 0.01, 0.1, 1.0, 10.0, 60.0];
/// Bounds from one round trip to 5 s, the longest time for which a vote counts.
const ROUNDS_TAKE: &[f64] =
    &[0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
/// Bounds from the round trip within one machine to that of a node that is far away or too slow.
const ROUND_TRIPS: &[f64] = &[0.000_25, 0.001, 0.0025, 0.01, 0.03, 0.1, 0.2, 0.5, 1.0];
const HANDOVERS_TAKE: &[f64] = &[0.000_25, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0];
/// Bounds from a short critical section to a job of one day.
const HOLDS: &[f64] = &[0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0];
const SHARES: &[f64] = &[0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7];

macro_rules! table {
    ($($constant:ident = $name:literal, $kind:ident, $unit:ident, $buckets:expr, [$($label:literal),*], $help:literal;)*) => {
        $(pub(crate) const $constant: &str = $name;)*
        /// The name, kind, labels and meaning of each metric:
        ///
        $(#[doc = concat!("- `", $name, "` (", stringify!($kind), $(", `", $label, "`",)* "): ", $help)])*
        pub const METRICS: &[Metric] = &[$(Metric {
            name: $name,
            kind: Kind::$kind,
            unit: Unit::$unit,
            labels: &[$($label),*],
            buckets: $buckets,
            help: $help,
        },)*];
    };
}

table! {
    BUILD = "quorumlock_build_info", Gauge, Count, &[], ["version", "protocol"],
        "Always 1; the labels are the versions of the library and of the protocol";
    QUORUM_SIZE = "quorumlock_quorum_size", Gauge, Count, &[], ["quorum"],
        "How many nodes must agree: 3 if there are 5 nodes";
    ACQUIRE = "quorumlock_acquire_duration_seconds", Histogram, Seconds, WAITS, ["quorum", "class"],
        "Time until an acquisition had the lock";
    ACQUISITIONS = "quorumlock_acquisitions_total", Counter, Count, &[], ["quorum", "class", "outcome"],
        "Acquisitions by outcome";
    QUEUE_WAIT = "quorumlock_queue_wait_seconds", Histogram, Seconds, QUEUES, ["quorum"],
        "Time for which callers waited behind other callers of the same name in this process";
    HELD_TIME = "quorumlock_hold_duration_seconds", Histogram, Seconds, HOLDS, ["quorum", "class"],
        "Time for which locks were held";
    HELD = "quorumlock_locks_held", Gauge, Count, &[], ["quorum", "class"], "Locks held now";
    LOST = "quorumlock_locks_lost_total", Counter, Count, &[], ["quorum", "class", "reason"],
        "Locks lost while they were held, by reason";
    WAITING = "quorumlock_waiting_callers", Gauge, Count, &[], ["quorum"], "Callers waiting for a lock now";
    IN_LINE = "quorumlock_waiting_acquisitions", Gauge, Count, &[], ["quorum"],
        "Acquisitions of this process that wait in the nodes' queues now";
    ROUND = "quorumlock_round_duration_seconds", Histogram, Seconds, ROUNDS_TAKE, ["quorum"],
        "Time from a claim to the decision of the nodes, without the wait for other holders";
    ROUNDS = "quorumlock_rounds_total", Counter, Count, &[], ["quorum", "verdict"],
        "Rounds of claims by verdict. Each repeat with a higher ballot counts as a round";
    SPLIT = "quorumlock_split_rounds_total", Counter, Count, &[], ["quorum"],
        "Rounds in which several callers got votes and no caller got a quorum";
    RENEWALS = "quorumlock_renewals_total", Counter, Count, &[], ["quorum", "outcome"], "Renewals by outcome";
    MARGIN = "quorumlock_renewal_margin_ratio", Histogram, Count, SHARES, ["quorum"],
        "Share of the validity (0 to 1) that was left when a renewal succeeded";
    HANDOVER = "quorumlock_handover_duration_seconds", Histogram, Seconds, HANDOVERS_TAKE, ["quorum"],
        "Time from the first push of a hand-over until the waiter had the lock";
    HANDOVERS = "quorumlock_handovers_total", Counter, Count, &[], ["quorum"],
        "Locks that nodes handed over to a waiter of this process, without another claim";
    HINTS = "quorumlock_hints_total", Counter, Count, &[], ["quorum", "outcome"],
        "Messages of nodes to waiters and observers: heard, or wasted if the acquisition had ended";
    LATE_GRANTS = "quorumlock_late_grants_total", Counter, Count, &[], ["quorum"],
        "Grants that came after their round had failed. The client released them";
    NODE_UP = "quorumlock_node_up", Gauge, Count, &[], ["quorum", "node"],
        "1 while the node is connected, carries out hellos, and is not out of memory";
    NODE_QUARANTINED = "quorumlock_node_quarantined", Gauge, Count, &[], ["quorum", "node"],
        "1 while the node votes on no claim, because it may have forgotten locks, or ended locks early";
    NODE_DOUBTS = "quorumlock_node_doubts_total", Counter, Count, &[], ["quorum", "node", "reason"],
        "Number of times that the node came into doubt: it restarted, it forgot, or its clock was stepped";
    NODE_TWINS = "quorumlock_node_twins", Gauge, Count, &[], ["quorum", "node"],
        "1 while two servers answer under the node's name, so that no vote of the node counts";
    OTHER_LIST = "quorumlock_other_list", Gauge, Count, &[], ["quorum"],
        "1 while nodes have another list of the same name in force, so that nothing is acquired";
    ROUND_TRIP = "quorumlock_node_round_trip_seconds", Histogram, Seconds, ROUND_TRIPS, ["quorum", "node"],
        "Time from submitting an operation to its answer";
    NODE_OPERATIONS = "quorumlock_node_operations_total", Counter, Count, &[], ["quorum", "node", "operation", "outcome"],
        "Operations by node and outcome: ok (carried out), refused, failed (no valid answer)";
    NODE_FAULTS = "quorumlock_node_faults_total", Counter, Count, &[], ["quorum", "node", "reason"],
        "Failed operations by node and reason";
}

/// Describes all metrics to the installed recorder.
pub(super) fn describe() {
    for metric in METRICS {
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, metric.unit, metric.help),
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.unit, metric.help),
            Kind::Histogram => metrics::describe_histogram!(metric.name, metric.unit, metric.help),
        }
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
                (Kind::Histogram, _) => "_ratio",
                _ => "",
            };
            assert!(metric.name.starts_with("quorumlock_") && metric.name.ends_with(suffix), "{}", metric.name);
            assert!(!metric.labels.contains(&"name"), "{}: lock names are not bounded", metric.name);
        }
    }

    #[test]
    fn buckets_exist_only_for_histograms_and_are_in_order() {
        for metric in METRICS {
            assert_eq!(metric.buckets.is_empty(), metric.kind != Kind::Histogram, "{}", metric.name);
            assert!(metric.buckets.is_sorted_by(|one, next| one < next), "{}", metric.name);
        }
        assert_eq!(buckets().count(), METRICS.iter().filter(|metric| metric.kind == Kind::Histogram).count());
    }
}
