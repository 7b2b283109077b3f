//! The connection of one generation, which callers and the batcher share.
//!
//! A lone operation goes straight from its caller to the connection: that saves waking the batcher,
//! which then has nothing to put together. As soon as anything is queued or on its way, the batcher
//! sends, so that the order is that of the submissions, and a crowd shares calls.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use futures::FutureExt;
use futures::future::ready as known;

use super::Job;
use super::call::Call;
use super::flight::{Flight, Flights, Landed, What};
use super::transport::{Answer, Arguments, Connection, Event, Value};
use super::wording::PANICKED;
use crate::host::Host;
use crate::node::reply::{Fault, FaultKind};

#[derive(Debug)]
pub(super) struct Wire(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    /// `None` once the generation has ended.
    connection: Option<Box<dyn Connection>>,
    /// What the server calls the script.
    digest: String,
    /// What callers sent and the batcher has not taken over yet.
    launched: Vec<Flight>,
    /// How many jobs are queued for the batcher and not sent.
    queued: usize,
    /// How many commands are on their way.
    under_way: usize,
    /// Wakes the batcher; `None` while callers may send nothing.
    batcher: Option<Waker>,
    /// Whether callers may send nothing any more.
    shut: bool,
    /// Whether the transport panicked while a caller sent something.
    panicked: bool,
}

/// What became of a job.
pub(super) enum Straight {
    Sent,
    /// It is to be queued.
    NotSent(Job),
    /// The transport panicked: it may have been sent, and must not be sent again.
    Unknown(Job),
}

impl Inner {
    fn answers_wake(&mut self, task: &Waker) {
        if !self.shut && !self.batcher.as_ref().is_some_and(|known| known.will_wake(task)) {
            self.batcher = Some(task.clone());
        }
    }

    fn shut(&mut self) {
        (self.shut, self.batcher) = (true, None);
    }
}

/// What is left of a generation that has ended.
pub(super) struct Ended {
    _connection: Option<Box<dyn Connection>>,
    _launched: Vec<Flight>,
}

impl Wire {
    pub(super) fn new(connection: Box<dyn Connection>, digest: String) -> Self {
        let connection = Some(connection);
        Self(Mutex::new(Inner {
            connection,
            digest,
            launched: Vec::new(),
            queued: 0,
            under_way: 0,
            batcher: None,
            shut: false,
            panicked: false,
        }))
    }

    /// Sends `job` alone, unless something is before it, or nobody would hear the answer, or `may`
    /// says no, which is asked last.
    pub(super) fn straight(&self, job: Job, record: &str, may: impl FnOnce() -> bool) -> Straight {
        let mut inner = self.inner();
        let Inner { connection: Some(connection), batcher: Some(batcher), queued: 0, under_way: 0, digest, .. } =
            &*inner
        else {
            return Straight::NotSent(job);
        };
        if !may() {
            return Straight::NotSent(job);
        }
        let sending = AssertUnwindSafe(|| {
            let call = Call::new(digest, record, std::iter::once(&*job.request.operation));
            connection.send_for("EVALSHA", &call, batcher)
        });
        let Ok(answer) = catch_unwind(sending) else {
            batcher.wake_by_ref();
            inner.panicked = true;
            return Straight::Unknown(job);
        };
        let sent = job.submitted;
        inner.launched.push(Flight { what: What::Batch(vec![job]), sent, answer });
        inner.under_way += 1;
        Straight::Sent
    }

    /// Puts a job behind all that were queued, if `queues` does so.
    pub(super) fn queue<E>(&self, queues: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut inner = self.inner();
        queues()?;
        inner.queued += 1;
        Ok(())
    }

    /// So many jobs that were queued have been sent, or answered.
    pub(super) fn dequeued(&self, jobs: usize) {
        let mut inner = self.inner();
        inner.queued = inner.queued.saturating_sub(jobs);
    }

    /// Sends a command of the batcher's, which is on its way then.
    pub(super) fn send(&self, command: &'static str, arguments: &dyn Arguments) -> Answer<Value> {
        let mut inner = self.inner();
        inner.under_way += 1;
        match &inner.connection {
            Some(connection) => connection.send(command, arguments),
            None => known(Err(Fault::new(FaultKind::Closed, "the connection has ended"))).boxed(),
        }
    }

    /// The server calls the script so.
    pub(super) fn rename(&self, digest: &str) {
        digest.clone_into(&mut self.inner().digest);
    }

    /// What happens next to the connection.
    pub(super) fn poll_event(&self, context: &mut Context<'_>) -> Poll<Event> {
        let mut inner = self.inner();
        if inner.panicked {
            return Poll::Ready(Event::Ended(PANICKED.to_owned()));
        }
        match &mut inner.connection {
            Some(connection) => connection.poll_event(context),
            None => Poll::Pending,
        }
    }

    /// The next command that has come back, of these and of those that callers send. As long as
    /// somebody asks, they may send.
    pub(super) fn poll_landed(
        &self,
        flights: &mut Flights,
        host: &dyn Host,
        context: &mut Context<'_>,
    ) -> Poll<Landed> {
        let mut inner = self.inner();
        inner.answers_wake(context.waker());
        flights.extend(inner.launched.drain(..));
        drop(inner);
        // Where none is on its way, the next one will wake this task.
        let landed = ready!(flights.poll_landed(host, context));
        let mut inner = self.inner();
        inner.under_way = inner.under_way.saturating_sub(1);
        Poll::Ready(landed)
    }

    /// Whether an answer is missing.
    pub(super) fn is_under_way(&self) -> bool {
        self.inner().under_way > 0
    }

    /// From now on callers send nothing by themselves.
    pub(super) fn shut(&self) {
        self.inner().shut();
    }

    /// The generation has ended. What is returned is to be dropped: it ends the connection, and
    /// answers whoever has sent something, who may ask this node again.
    pub(super) fn end(&self) -> Ended {
        let mut inner = self.inner();
        inner.shut();
        Ended { _connection: inner.connection.take(), _launched: std::mem::take(&mut inner.launched) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
