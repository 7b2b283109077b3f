//! Captures the log of one thread of a test program that has many threads.

use std::sync::OnceLock;

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// Two subscribers that want nothing. While a process has a single subscriber, tracing asks only
/// one thread, for each place in the code that logs, whether the log is wanted: the first thread at
/// this place. This thread may belong to another test, which has no subscriber.
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

/// Call this before the code that a test captures may run in any thread of the test program.
pub fn ready() {
    BESIDE.get_or_init(|| [Dispatch::new(Nobody), Dispatch::new(Nobody)]);
}

/// `listener` gets all that this thread logs, until the returned guard is dropped.
pub fn listens(listener: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    ready();
    set_default(listener)
}
