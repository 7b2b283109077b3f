//! The port to one server: dial it, send commands in order, take what it pushes.
//!
//! Everything that a connection to a server must do for this library is here, in types of its own.
//! fred is behind it in `fred.rs`; simulations bring their own servers.

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

    /// The database of the server that it selects.
    fn database(&self) -> u8 {
        0
    }

    /// Opens a connection and authenticates on it. No step of that may take longer than `timeout`.
    ///
    /// # Cancel safety
    /// Safe: a connection that nobody took is closed.
    fn dial(&self, timeout: Duration) -> Dialing<'_>;
}

/// A connection on its way.
pub type Dialing<'a> = BoxFuture<'a, Result<Box<dyn Connection>, Fault>>;

/// What a command will come to: [`Timeout`], [`Closed`], [`Overloaded`], [`Garbled`], or [`Busy`]
/// or [`Rejected`] with what the server said first in the message.
///
/// [`Timeout`]: crate::node::FaultKind::Timeout
/// [`Closed`]: crate::node::FaultKind::Closed
/// [`Overloaded`]: crate::node::FaultKind::Overloaded
/// [`Garbled`]: crate::node::FaultKind::Garbled
/// [`Busy`]: crate::node::FaultKind::Busy
/// [`Rejected`]: crate::node::FaultKind::Rejected
pub type Answer<T> = BoxFuture<'static, Result<T, Fault>>;

/// One connection to one server. It is never made anew: a connection that ended stays so. Dropping
/// it ends it.
pub trait Connection: fmt::Debug + Send + Sync + 'static {
    /// Sends a command behind all that were sent before. It is on its way when this returns, and is
    /// never withdrawn: dropping the answer only means that nobody reads it. It has no limit of time.
    fn send(&self, command: &'static str, arguments: &dyn Arguments) -> Answer<Value>;

    /// Listens to these channels too. What is published after the answer came is pushed over this
    /// connection. If the server refuses, the connection is of no further use: replies may be taken
    /// for those to other commands.
    fn subscribe(&self, channels: &[String]) -> Answer<()>;

    /// Listens to these channels no more. A refusal is as with [`subscribe`](Self::subscribe).
    fn unsubscribe(&self, channels: &[String]) -> Answer<()>;

    /// What happens next. Not asked again after the connection ended.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event>;
}

/// An answer that was polled once: both client libraries queue a command when its future is polled
/// first. So commands go out in the order of the calls.
pub(super) fn started<T: Send + 'static>(mut answer: Answer<T>) -> Answer<T> {
    // Where the task has had its turn, Tokio would let it look as if the command could not be queued.
    match unconstrained(&mut answer).poll_unpin(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => ready(result).boxed(),
        Poll::Pending => answer,
    }
}

/// What happens to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It ended, and why.
    Ended(String),
    /// A message was published on one of its channels.
    Message(String),
    /// Messages were lost.
    Missed,
}

/// The name under which a server knows a script that was loaded: its SHA-1.
#[must_use]
pub fn digest(script: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, script.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One argument of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument<'a> {
    /// A word that needs no copy.
    Word(&'static str),
    /// Any text.
    Text(&'a str),
    /// A number, sent in decimal digits.
    Integer(i64),
}

impl Argument<'_> {
    /// How many bytes it takes in a buffer, if it needs one.
    pub(super) const fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Word(_) | Self::Integer(_) => 0,
        }
    }
}

/// The arguments of a command. Each connection writes them in its own form, so that none is copied
/// twice.
pub trait Arguments {
    /// How many there are.
    fn count(&self) -> usize;

    /// How many bytes texts take together, for whoever writes them into one
    /// buffer.
    fn bytes(&self) -> usize;

    /// Hands them out, in order.
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

/// What a server replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing, or a kind of reply that no command of ours has.
    Null,
    /// A number.
    Integer(i64),
    /// A text, with luck in UTF-8.
    Text(Bytes),
    /// Several replies.
    Array(Vec<Self>),
}

impl Value {
    /// The text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// The number, also where its digits came as a text, as all numbers that Redis stores do.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            other => other.text()?.parse().ok(),
        }
    }

    /// The parts of an array; anything else has none.
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
    fn a_digest_is_what_redis_says_to_script_load() {
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
