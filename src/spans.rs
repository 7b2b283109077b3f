//! Spans for `tracing`: the parts of an acquisition, a renewal and a release.
//!
//! A span that no subscriber has enabled costs one check and allocates nothing. A subscriber may
//! panic. This module catches the panic, so renewals and replies go on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::Empty;
use tracing::level_filters::LevelFilter;
use tracing::{Span, Value, debug_span, trace_span};

/// A span that ends when [`end`](Self::end) is called, or its last clone is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spanned(Option<Arc<Running>>);

#[derive(Debug)]
struct Running(Mutex<Span>);

impl Spanned {
    /// One ask of a round. The caller must have entered the acquisition's span, which becomes the
    /// parent.
    pub(crate) fn round() -> Self {
        Self::at(LevelFilter::DEBUG, || debug_span!("round", outcome = Empty))
    }

    /// A renewal: a root span, even if the caller has entered another span.
    pub(crate) fn renew() -> Self {
        Self::at(
            LevelFilter::DEBUG,
            || debug_span!(parent: None, "renew", name = Empty, token = Empty, outcome = Empty),
        )
    }

    /// A release. The span ends when it is known whether a quorum held the names.
    pub(crate) fn release() -> Self {
        Self::at(LevelFilter::DEBUG, || debug_span!("release", name = Empty, token = Empty, outcome = Empty))
    }

    /// A request to one node. The parent is `self`, or the entered span if `self` is off.
    pub(crate) fn node_call(&self, node: &str, operation: &'static str) -> Self {
        Self::at(LevelFilter::TRACE, || match self.id() {
            Some(id) => trace_span!(parent: id, "node_call", node, operation, outcome = Empty),
            None => trace_span!("node_call", node, operation, outcome = Empty),
        })
    }

    /// Whether a subscriber may have enabled the spans of node calls.
    pub(crate) fn of_nodes() -> bool {
        LevelFilter::current() >= LevelFilter::TRACE
    }

    fn at(level: LevelFilter, make: impl FnOnce() -> Span) -> Self {
        if LevelFilter::current() < level {
            return Self::default();
        }
        let span = quietly(make).filter(|span| !span.is_disabled());
        Self(span.map(|span| Arc::new(Running(Mutex::new(span)))))
    }

    /// Whether a subscriber has enabled the span.
    pub(crate) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn record(&self, field: &'static str, value: impl Value) {
        if let Some(running) = &self.0 {
            record(&running.0.lock().unwrap_or_else(PoisonError::into_inner), field, value);
        }
    }

    /// Ends the span with this outcome.
    pub(crate) fn end(&self, outcome: &'static str) {
        if let Some(running) = &self.0 {
            let span = running.take();
            record(&span, "outcome", outcome);
            close(span);
        }
    }

    fn id(&self) -> Option<tracing::Id> {
        self.0.as_ref()?.0.lock().unwrap_or_else(PoisonError::into_inner).id()
    }
}

impl Running {
    fn take(&self) -> Span {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), Span::none())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        close(self.take());
    }
}

/// An acquisition. The span is entered while the acquisition is polled.
pub(crate) fn acquire(quorum: &str) -> Span {
    debug_span!("acquire", quorum, name = Empty, token = Empty, outcome = Empty)
}

pub(crate) fn record(span: &Span, field: &'static str, value: impl Value) {
    if !span.is_disabled() {
        quietly(|| {
            span.record(field, value);
        });
    }
}

fn close(span: Span) {
    if !span.is_disabled() {
        quietly(|| drop(span));
    }
}

/// Runs `what`, and catches a panic, which the panic hook has already reported.
fn quietly<T>(what: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(what)).ok()
}
