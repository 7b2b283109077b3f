//! The interface to one server: dial it, send commands in order, receive pushes.
//!
//! The interface has all that this library needs from a connection, and no type of a client
//! library. `fred.rs`, `redis_rs.rs` and simulations implement the interface.

use std::fmt;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use tokio::task::coop::unconstrained;

use crate::node::reply::Fault;

/// Connects to one server.
pub trait Dialer: fmt::Debug + Send + Sync + 'static {
    /// The server's address without user and password.
    fn address(&self) -> String;

    /// The number of the database that connections select.
    fn database(&self) -> u8 {
        0
    }

    /// Opens a connection and authenticates. No step may take longer than `timeout`.
    ///
    /// # Cancel safety
    /// Safe: if this future is dropped, its connection is closed.
    fn dial(&self, timeout: Duration) -> Dialing<'_>;
}

/// A connection that is being opened.
pub type Dialing<'a> = BoxFuture<'a, Result<Box<dyn Connection>, Fault>>;

/// The reply to a command, or its fault: [`Timeout`], [`Closed`], [`Overloaded`], [`Garbled`],
/// [`Busy`] or [`Rejected`]. The messages of `Busy` and `Rejected` begin with the server's error
/// code, such as NOSCRIPT.
///
/// [`Timeout`]: crate::node::FaultKind::Timeout
/// [`Closed`]: crate::node::FaultKind::Closed
/// [`Overloaded`]: crate::node::FaultKind::Overloaded
/// [`Garbled`]: crate::node::FaultKind::Garbled
/// [`Busy`]: crate::node::FaultKind::Busy
/// [`Rejected`]: crate::node::FaultKind::Rejected
pub type Answer<T> = BoxFuture<'static, Result<T, Fault>>;

/// One connection to one server. It never reconnects. Dropping this value ends the connection.
pub trait Connection: fmt::Debug + Send + Sync + 'static {
    /// Sends a command after all earlier commands. The command is sent even if the answer is never
    /// polled, or is dropped. The answer has no time limit.
    fn send(&self, command: &'static str, arguments: &dyn Arguments) -> Answer<Value>;

    /// Subscribes to more channels. Messages that are published after the answer are pushed over
    /// this connection. After a refusal, do not use the connection again: replies may be assigned
    /// to the wrong commands.
    fn subscribe(&self, channels: &[String]) -> Answer<()>;

    /// Unsubscribes from these channels. After a refusal, do not use the connection again.
    fn unsubscribe(&self, channels: &[String]) -> Answer<()>;

    /// The next event. Must not be polled again after the connection has ended.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event>;
}

/// Polls an answer once, because fred and redis-rs queue a command at the first poll of its future.
/// So commands are sent in the order in which `send` is called.
pub(super) fn started<T: Send + 'static>(mut answer: Answer<T>) -> Answer<T> {
    // If the task's budget were used up, Tokio would report the queue as full. `unconstrained`
    // prevents this.
    match unconstrained(&mut answer).poll_unpin(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => ready(result).boxed(),
        Poll::Pending => answer,
    }
}

/// An event on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection ended, for this reason.
    Ended(String),
    /// A message was published on a channel that the connection is subscribed to.
    Message(String),
    /// Messages were lost.
    Missed,
}

/// The SHA-1 of a script. EVALSHA names a loaded script by this digest.
#[must_use]
pub fn digest(script: &str) -> String {
    sha1_smol::Sha1::from(script).digest().to_string()
}

/// One argument of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument<'a> {
    /// A word with a static lifetime, which needs no copy.
    Word(&'static str),
    /// Any text.
    Text(&'a str),
    /// A number, sent in decimal digits.
    Integer(i64),
}

impl Argument<'_> {
    /// How many bytes the argument needs in the buffer of texts.
    pub(super) const fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Word(_) | Self::Integer(_) => 0,
        }
    }
}

/// The arguments of a command. A transport reads them one by one into its own form, so that no text
/// is copied twice.
pub trait Arguments {
    /// The number of arguments.
    fn count(&self) -> usize;

    /// The total length of all texts, to allocate one buffer for them.
    fn bytes(&self) -> usize;

    /// Passes each argument to `take`, in order.
    fn each(&self, take: &mut dyn FnMut(Argument<'_>));
}

impl<const N: usize> Arguments for [Argument<'_>; N] {
    fn count(&self) -> usize {
        N
    }

    fn bytes(&self) -> usize {
        self.iter().map(Argument::bytes).sum()
    }

    fn each(&self, take: &mut dyn FnMut(Argument<'_>)) {
        self.iter().copied().for_each(take);
    }
}

/// A server's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing, or a kind of reply that this library's commands never get.
    Null,
    /// A number.
    Integer(i64),
    /// A text, usually in UTF-8.
    Text(Bytes),
    /// Several replies.
    Array(Vec<Self>),
}

impl Value {
    /// The text, if this is a text in UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// The number, if this is a number or a text of digits: Redis returns stored numbers as texts.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            other => other.text()?.parse().ok(),
        }
    }

    /// The parts of an array; empty for anything else.
    #[must_use]
    pub fn items(self) -> Vec<Self> {
        match self {
            Self::Array(items) => items,
            _ => Vec::new(),
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(Bytes::from_static(text.as_bytes()))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_matches_that_of_script_load() {
        assert_eq!(digest("return 1"), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }

    #[test]
    fn numbers_are_read_from_digits_too_and_other_texts_are_none() {
        assert_eq!(Value::from("9007199254740992").integer(), Some(1 << 53));
        assert_eq!(Value::from(-1).integer(), Some(-1));
        assert_eq!([Value::from("x").integer(), Value::Null.integer()], [None, None]);
        assert_eq!(Value::Text(Bytes::from_static(&[0xff])).text(), None);
    }
}
