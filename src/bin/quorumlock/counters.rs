//! Reads the library's own counters: installs a metrics recorder that stores them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use crate::failure::Failure;

/// A recorder that stores counters and ignores other metrics.
#[derive(Clone, Default)]
pub(crate) struct Counters(Arc<Mutex<Vec<Kept>>>);

type Kept = (Key, Arc<AtomicU64>);

impl Counters {
    /// Installs the recorder for the whole process.
    pub(crate) fn install() -> Result<Self, Failure> {
        let this = Self::default();
        metrics::set_global_recorder(this.clone()).map_err(|error| Failure::internal(error.to_string()))?;
        Ok(this)
    }

    /// Calls `look` with each counter and its value.
    pub(crate) fn each(&self, mut look: impl FnMut(&Key, u64)) {
        let counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counters.iter().for_each(|(key, count)| look(key, count.load(Ordering::Relaxed)));
    }
}

/// The value of the counter's label `name`.
pub(crate) fn label<'a>(key: &'a Key, name: &str) -> Option<&'a str> {
    key.labels().find(|label| label.key() == name).map(|label| label.value())
}

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let count = Arc::new(AtomicU64::new(0));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((key.clone(), count.clone()));
        Counter::from_arc(count)
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
