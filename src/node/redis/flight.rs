//! Commands that are on their way, and what came back.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::{BoxFuture, join};

use super::Job;
use super::admission::load;
use super::transport::{Answer, Connection, Value};
use crate::host::Host;
use crate::node::reply::Fault;
use crate::rules::Tick;

/// A command on its way. Dropped, it answers its jobs that the connection ended.
pub(super) struct Flight {
    pub(super) what: What,
    pub(super) sent: Tick,
    pub(super) host: Arc<dyn Host>,
    pub(super) answer: Answer<Value>,
}

/// What a command is for.
pub(super) enum What {
    /// Carries out the jobs.
    Batch(Vec<Job>),
    /// The same, with the whole script: the server did not know it, so nothing had run.
    Again(Vec<Job>),
    /// Asks who carried out the jobs, and replied so.
    Verify(Vec<Job>, Value),
    /// Asks whether the server is still the same.
    Probe,
    /// Loads the script again. If that fails, the next batch meets NOSCRIPT again.
    Load,
    /// It landed.
    Nothing,
}

/// A command that came back, or did not.
pub(super) struct Landed {
    pub(super) what: What,
    pub(super) sent: Tick,
    pub(super) received: Tick,
    pub(super) result: Result<Value, Fault>,
}

/// Who has the script: what SCRIPT LOAD and the INFO behind it came to.
pub(super) struct Confirmation {
    pub(super) digest: Result<Value, Fault>,
    pub(super) info: Result<Value, Fault>,
    pub(super) sent: Tick,
    pub(super) received: Tick,
}

/// Loads the script into the server that was admitted, and asks behind it who has it now.
pub(super) fn confirming(
    connection: &dyn Connection,
    script: &str,
    host: Arc<dyn Host>,
) -> BoxFuture<'static, Confirmation> {
    let sent = host.now();
    let both = join(load(connection, script), connection.send("INFO", &[]));
    both.map(move |(digest, info)| Confirmation { digest, info, sent, received: host.now() }).boxed()
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl Future for Flight {
    type Output = Landed;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Landed> {
        let result = ready!(self.answer.poll_unpin(context));
        let what = std::mem::replace(&mut self.what, What::Nothing);
        Poll::Ready(Landed { what, sent: self.sent, received: self.host.now(), result })
    }
}
