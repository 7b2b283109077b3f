//! Captures the log of one thread of a test program that has many threads.

use std::sync::OnceLock;

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// Two subscribers that want nothing. For each place in the code that logs, tracing remembers
/// whether any subscriber wants the messages of this place. If the process has a single subscriber,
/// tracing asks only the subscriber of the thread that reaches the place first. This thread may
/// belong to another test, without a subscriber. With several subscribers, tracing asks all of
/// them.
static BESIDE: OnceLock<[Dispatch; 2]> = OnceLock::new();

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

/// If a test captures the log of some code, call this before any thread of the test program may run
/// that code.
pub fn ready() {
    BESIDE.get_or_init(|| [Dispatch::new(Nobody), Dispatch::new(Nobody)]);
}

/// From now on, `listener` gets all that this thread logs, until the returned guard is dropped.
pub fn listens(listener: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    ready();
    set_default(listener)
}
