//! Listening to what is logged, by one thread of a test program that has many.

use std::sync::OnceLock;

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// Somebody else who listens. With one listener alone, tracing asks the thread that is first at a
/// place in the code whether anybody wants what is logged there, and never again: that may be
/// another test's, which has none.
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

/// `listener` gets all that this thread logs, until what is returned is dropped.
pub fn listens(listener: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    BESIDE.get_or_init(|| Dispatch::new(Nobody));
    set_default(listener)
}
