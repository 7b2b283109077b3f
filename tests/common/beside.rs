//! Captures the log of one thread of a test program that has many threads.

use std::sync::OnceLock;

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// A second subscriber, which wants nothing. With a single subscriber, tracing asks only once, for
/// each place in the code that logs, whether the log is wanted. The first thread at this place may
/// belong to another test, which has no subscriber.
static BESIDE: OnceLock<Dispatch> = OnceLock::new();

struct Nobody;

impl Subscriber for Nobody {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// `listener` gets all that this thread logs, until the returned guard is dropped.
pub fn listens(listener: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    BESIDE.get_or_init(|| Dispatch::new(Nobody));
    set_default(listener)
}
