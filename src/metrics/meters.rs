//! The metrics of a quorum.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Label, SharedString};

use super::class::Class;
use super::family::{Ended, Family, RenewalEnded, RoundEnded};
use super::table::{self, describe};
use crate::rules::{LostReason, NodeSet, Renewed};

/// The metrics of a quorum. They are registered when the quorum connects, and those of a class when
/// options with that class are first used. So recording an event needs no lookup.
#[derive(Debug)]
pub(crate) struct Meters {
    quorum: SharedString,
    classes: [OnceLock<ClassMeters>; Class::COUNT],
    queue_wait: Histogram,
    round_duration: Histogram,
    rounds: Family<RoundEnded, Counter>,
    split: Counter,
    renewals: Family<RenewalEnded, Counter>,
    margin: Histogram,
    waiting: Gauge,
    late_grants: Counter,
    in_line: Gauge,
    handover: Histogram,
    handovers: Counter,
    /// How many locks of all classes are held now.
    held: AtomicUsize,
}

/// The gauges that change with hellos.
#[derive(Debug)]
pub(crate) struct GreeterMeters {
    other: Gauge,
    twins: Vec<Gauge>,
    /// The gauges that the nodes set to 0 when a connection ends.
    up: Vec<Gauge>,
}

impl GreeterMeters {
    /// Records whether another list of this name is in force, which nodes' names lead to two
    /// servers, and which nodes are usable.
    pub(crate) fn tell(&self, other: bool, twins: NodeSet, up: NodeSet) {
        set(&self.other, other);
        self.tell_twins(twins);
        self.up.iter().enumerate().for_each(|(node, gauge)| set(gauge, up.contains(node)));
    }

    fn tell_twins(&self, twins: NodeSet) {
        self.twins.iter().enumerate().for_each(|(node, gauge)| set(gauge, twins.contains(node)));
    }
}

fn set(gauge: &Gauge, on: bool) {
    gauge.set(f64::from(u8::from(on)));
}

/// Counts one caller in a gauge for as long as this value lives.
pub(crate) struct Counted<'a>(&'a Gauge);

impl<'a> Counted<'a> {
    fn begin(gauge: &'a Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// The metrics of the locks of one class.
#[derive(Debug)]
struct ClassMeters {
    acquire: Histogram,
    acquisitions: Family<Ended, Counter>,
    held_time: Histogram,
    held: Gauge,
    lost: Family<LostReason, Counter>,
}

impl ClassMeters {
    fn new(quorum: &SharedString, class: Class) -> Self {
        let labels = |more: Option<Label>| -> Vec<Label> {
            let class = class.label().map(|class| Label::new("class", class));
            std::iter::once(Label::new("quorum", quorum.clone())).chain(class).chain(more).collect()
        };
        let with = |key: &'static str, value: &'static str| labels(Some(Label::new(key, value)));
        Self {
            acquire: metrics::histogram!(table::ACQUIRE, labels(None)),
            acquisitions: Family::new(Ended::ALL.iter().copied(), |outcome| {
                metrics::counter!(table::ACQUISITIONS, with("outcome", outcome.as_str()))
            }),
            held_time: metrics::histogram!(table::HELD_TIME, labels(None)),
            held: metrics::gauge!(table::HELD, labels(None)),
            lost: Family::new(LostReason::ALL, |reason| {
                metrics::counter!(table::LOST, with("reason", reason.as_str()))
            }),
        }
    }
}

impl Meters {
    /// Registers the metrics of a quorum in which `size` nodes must agree.
    pub(crate) fn new(quorum: SharedString, size: u32, protocol: u32) -> Self {
        describe();
        metrics::gauge!(table::BUILD, "version" => env!("CARGO_PKG_VERSION"), "protocol" => protocol.to_string())
            .set(1.0);
        metrics::gauge!(table::QUORUM_SIZE, "quorum" => quorum.clone()).set(f64::from(size));
        let labelled = |key: &'static str, value: &'static str| -> Vec<Label> {
            vec![Label::new("quorum", quorum.clone()), Label::new(key, value)]
        };
        let histogram = |name: &'static str| metrics::histogram!(name, "quorum" => quorum.clone());
        let counter = |name: &'static str| metrics::counter!(name, "quorum" => quorum.clone());
        let gauge = |name: &'static str| metrics::gauge!(name, "quorum" => quorum.clone());
        let meters = Self {
            classes: std::array::from_fn(|_| OnceLock::new()),
            queue_wait: histogram(table::QUEUE_WAIT),
            round_duration: histogram(table::ROUND),
            rounds: Family::new(RoundEnded::ALL.iter().copied(), |verdict| {
                metrics::counter!(table::ROUNDS, labelled("verdict", verdict.as_str()))
            }),
            split: counter(table::SPLIT),
            renewals: Family::new(RenewalEnded::ALL.iter().copied(), |outcome| {
                metrics::counter!(table::RENEWALS, labelled("outcome", outcome.as_str()))
            }),
            margin: histogram(table::MARGIN),
            waiting: gauge(table::WAITING),
            late_grants: counter(table::LATE_GRANTS),
            in_line: gauge(table::IN_LINE),
            handover: histogram(table::HANDOVER),
            handovers: counter(table::HANDOVERS),
            held: AtomicUsize::new(0),
            quorum,
        };
        meters.register(Class::default());
        meters
    }

    /// The name of the quorum.
    pub(crate) const fn quorum(&self) -> &SharedString {
        &self.quorum
    }

    /// Registers the series of a class, before its locks are acquired.
    pub(crate) fn register(&self, class: Class) {
        self.class(class);
    }

    /// Two counters of nodes' messages to waiters and observers: those that reach an acquisition or
    /// an observer, and those to acquisitions that have ended.
    pub(crate) fn hints(&self) -> (Counter, Counter) {
        let counter = |outcome: &'static str| metrics::counter!(table::HINTS, "quorum" => self.quorum.clone(), "outcome" => outcome);
        (counter("heard"), counter("wasted"))
    }

    /// The gauges that change with hellos. `nodes` are the labels of the nodes.
    pub(crate) fn greeter<'a>(&self, nodes: impl Iterator<Item = &'a Arc<str>>) -> GreeterMeters {
        let of = |node: &Arc<str>| {
            let gauge =
                |name: &'static str| metrics::gauge!(name, "quorum" => self.quorum.clone(), "node" => node.clone());
            (gauge(table::NODE_TWINS), gauge(table::NODE_UP))
        };
        let other = metrics::gauge!(table::OTHER_LIST, "quorum" => self.quorum.clone());
        let (twins, up) = nodes.map(of).unzip();
        let meters = GreeterMeters { other, twins, up };
        set(&meters.other, false);
        meters.tell_twins(NodeSet::default());
        meters
    }

    fn class(&self, class: Class) -> &ClassMeters {
        self.classes[class.index()].get_or_init(|| ClassMeters::new(&self.quorum, class))
    }

    pub(crate) fn acquire(&self, class: Class, outcome: Ended, took: Duration) {
        let meters = self.class(class);
        meters.acquisitions.count(outcome);
        if outcome == Ended::Acquired {
            meters.acquire.record(took);
        }
    }

    pub(crate) fn queue_wait(&self, took: Duration) {
        self.queue_wait.record(took);
    }

    /// Counts one ask of a round, which ended with `verdict`. `took` is the time since the ask;
    /// `None` if a node has pushed since then.
    pub(crate) fn round(&self, verdict: RoundEnded, split: bool, took: Option<Duration>) {
        self.rounds.count(verdict);
        if split {
            self.split.increment(1);
        }
        if let Some(took) = took {
            self.round_duration.record(took);
        }
    }

    /// Counts a renewal, unless its lease ended for another reason than the nodes' replies.
    pub(crate) fn renewed(&self, renewed: Renewed) {
        match renewed {
            Renewed::Extended { margin, of, .. } => {
                self.renewals.count(RenewalEnded::Extended);
                self.margin.record(share(margin, of));
            }
            Renewed::Unclear { .. } => self.renewals.count(RenewalEnded::Unclear),
            Renewed::Lost(LostReason::Revoked | LostReason::Forgotten) => self.renewals.count(RenewalEnded::Lost),
            Renewed::Lost(_) | Renewed::Over => {}
        }
    }

    pub(crate) fn lost(&self, class: Class, reason: LostReason) {
        self.class(class).lost.count(reason);
    }

    pub(crate) fn held(&self, class: Class) {
        // Count before the gauge is set: if the recorder panics there, this count must not be too
        // low.
        self.held.fetch_add(1, Ordering::Relaxed);
        self.class(class).held.increment(1.0);
    }

    /// Whether any lock is held now.
    pub(crate) fn any_held(&self) -> bool {
        self.held.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn freed(&self, class: Class, after: Duration) {
        self.held.fetch_sub(1, Ordering::Relaxed);
        let meters = self.class(class);
        meters.held.decrement(1.0);
        meters.held_time.record(after);
    }

    /// Counts a caller that waits, as long as the returned value lives.
    pub(crate) fn waits(&self) -> Counted<'_> {
        Counted::begin(&self.waiting)
    }

    /// Counts a caller that waits in the nodes' queues, as long as the returned value lives.
    pub(crate) fn in_line(&self) -> Counted<'_> {
        Counted::begin(&self.in_line)
    }

    /// Counts a lock that a quorum handed over. `after` is the time since the first push.
    pub(crate) fn handed_over(&self, after: Duration) {
        self.handovers.increment(1);
        self.handover.record(after);
    }

    pub(crate) fn late_grant(&self) {
        self.late_grants.increment(1);
    }
}

/// The share of the validity `of` that is left, from 0 to 1.
fn share(left: Duration, of: Duration) -> f64 {
    let share = left.as_secs_f64() / of.as_secs_f64();
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_between_nothing_and_all() {
        let second = Duration::from_secs(1);
        assert_eq!(share(second, 4 * second), 0.25);
        assert_eq!(share(2 * second, second), 1.0);
        assert_eq!(share(Duration::ZERO, Duration::ZERO), 0.0);
    }
}
