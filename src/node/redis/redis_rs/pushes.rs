//! Keeps the messages of one redis-rs connection until they are read.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use redis::{PushInfo, PushKind, Value};

use crate::node::redis::transport::Event;

/// How many messages may be unread. If there are more, some are lost, and all waiters ask again.
const MESSAGES: usize = 1_024;

/// The unread messages of one connection.
#[derive(Debug, Default)]
pub(super) struct Pushes(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    messages: VecDeque<String>,
    /// Whether messages were lost because too many were unread.
    missed: bool,
    reader: Option<Waker>,
}

impl Pushes {
    /// Keeps a pushed message. Ignores all other kinds of pushes.
    pub(super) fn push(&self, info: PushInfo) {
        if info.kind != PushKind::Message {
            return;
        }
        let text = info.data.into_iter().next_back().map(text).unwrap_or_default();
        let mut held = self.held();
        match held.messages.len() {
            0..MESSAGES => held.messages.push_back(text),
            _ => held.missed = true,
        }
        let reader = held.reader.take();
        drop(held);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    pub(super) fn next(&self) -> Option<Event> {
        self.held().next()
    }

    /// The next message. If there is none yet, the caller is woken when a message comes.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<Event> {
        let mut held = self.held();
        match held.next() {
            Some(event) => Poll::Ready(event),
            None => {
                held.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn next(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.missed) {
            return Some(Event::Missed);
        }
        self.messages.pop_front().map(Event::Message)
    }
}

/// The text of a message; empty if it is not in UTF-8. All messages of this library are in UTF-8.
fn text(value: Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).unwrap_or_default(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text,
        _ => String::new(),
    }
}
