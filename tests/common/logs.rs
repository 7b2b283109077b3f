//! Captures the log, for tests to read.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

use super::beside::listens;

/// All that this thread logs while this value lives, from every crate and at all levels.
pub struct Logs {
    lines: Arc<Mutex<String>>,
    _default: DefaultGuard,
}

impl Logs {
    /// Starts to capture the log of this thread.
    pub fn capture() -> Self {
        let lines = Arc::<Mutex<String>>::default();
        let _default = listens(Listener(lines.clone()));
        Self { lines, _default }
    }

    /// The log up to this moment, with one line for each event.
    pub fn text(&self) -> String {
        self.lines.lock().unwrap().clone()
    }
}

struct Listener(Arc<Mutex<String>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = self.0.lock().unwrap();
        let _ = write!(text, "SPAN {}:", span.metadata().name());
        span.record(&mut Line(&mut text));
        text.push('\n');
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut text = self.0.lock().unwrap();
        text.push_str("SPAN:");
        values.record(&mut Line(&mut text));
        text.push('\n');
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = self.0.lock().unwrap();
        let _ = write!(text, "{} {}:", event.metadata().level(), event.metadata().target());
        event.record(&mut Line(&mut text));
        text.push('\n');
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
