//! Counts the nodes' answers to claims, by listening to the library's own metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use serde::{Deserialize, Serialize};

/// How a node answered claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Votes {
    pub(super) granted: u64,
    /// Somebody else holds it, or the ballot was old.
    pub(super) refused: u64,
    /// No vote: down, quarantined, too late.
    pub(super) missing: u64,
}

/// Votes by node.
pub(super) type Tally = BTreeMap<String, Votes>;

/// A recorder that keeps the answers to claims and drops all else.
#[derive(Clone, Default)]
pub(super) struct Listener(Arc<Mutex<Vec<Heard>>>);

struct Heard {
    node: String,
    outcome: String,
    count: Arc<AtomicU64>,
}

impl Listener {
    /// What has been heard so far.
    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::new();
        for heard in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let votes = tally.entry(heard.node.clone()).or_default();
            let count = heard.count.load(Ordering::Relaxed);
            match heard.outcome.as_str() {
                "granted" => votes.granted += count,
                "held" | "stale" => votes.refused += count,
                _ => votes.missing += count,
            }
        }
        tally
    }
}

impl Votes {
    pub(super) fn add(&mut self, other: Self) {
        self.granted += other.granted;
        self.refused += other.refused;
        self.missing += other.missing;
    }
}

impl Recorder for Listener {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let label = |name| key.labels().find(|label| label.key() == name).map(|label| label.value().to_owned());
        let (Some(node), Some(outcome), Some("claim")) =
            (label("node"), label("outcome"), label("operation").as_deref())
        else {
            return Counter::noop();
        };
        let count = Arc::new(AtomicU64::new(0));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Heard { node, outcome, count: count.clone() });
        Counter::from_arc(count)
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
