//! The connection of one generation, which callers and the batcher share.
//!
//! A lone operation goes straight from its caller to the connection, and its answer straight to
//! whoever waits for it: that saves waking the batcher, which has nothing to put together then. As
//! soon as anything is queued, or more than one on its way, the batcher sends, so that the order is
//! that of the submissions, and a crowd shares calls.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker, ready};

use futures::FutureExt;
use futures::future::ready as known;
use tokio::task::coop::unconstrained;

use super::answers::Answers;
use super::encode::{BATCH, Call};
use super::flight::{Flight, Flights, Landed, What};
use super::lone::Lone;
use super::script::Script;
use super::transport::{Answer, Arguments, Connection, Event, Value};
use super::wording::PANICKED;
use super::{Job, QUEUE};
use crate::host::Host;
use crate::node::reply::{Fault, FaultKind};

/// It is the waker of what callers sent: woken, it hands the answer out by itself where nothing has
/// to be done before that, and else wakes the batcher.
#[derive(Debug)]
pub(super) struct Wire {
    inner: Mutex<Inner>,
    /// Nothing else is called or waited for while this is locked: whoever is woken may be in the
    /// middle of anything.
    lone: Mutex<Lone>,
    /// The batcher's: whoever is connected to keeps this, and would be kept by that.
    answers: Weak<Answers>,
}

#[derive(Debug)]
struct Inner {
    /// `None` once the generation has ended.
    connection: Option<Box<dyn Connection>>,
    /// What waits for the batcher.
    queue: VecDeque<Job>,
    /// Whether nothing is queued any more.
    closed: bool,
    /// Whether the batcher has taken jobs from the queue that it has not sent yet.
    sends: bool,
    /// How many commands are on their way.
    under_way: usize,
    /// What has happened and the batcher does not know yet.
    next: Option<Event>,
    /// Whether the batcher was told last of something that happened, and may be at that still.
    told: bool,
    /// Whether the batcher has an answer that it may not have handed out yet.
    delivers: bool,
}

/// What became of a job.
pub(super) enum Straight {
    Sent,
    /// It is to be queued.
    NotSent(Job),
    /// The transport panicked: it may have been sent, and must not be sent again.
    Unknown(Job),
}

/// What is left of a generation that has ended.
pub(super) struct Ended {
    _connection: Option<Box<dyn Connection>>,
    _queue: VecDeque<Job>,
    _lone: Flights,
}

impl Wire {
    pub(super) fn new(connection: Box<dyn Connection>, answers: Weak<Answers>) -> Self {
        let inner = Inner {
            connection: Some(connection),
            queue: VecDeque::new(),
            closed: false,
            sends: false,
            under_way: 0,
            next: None,
            told: false,
            delivers: false,
        };
        Self { inner: Mutex::new(inner), lone: Mutex::default(), answers }
    }

    /// Sends `job` alone, unless something is before it, or nobody would hear the answer, or `may`
    /// says no, which is asked last.
    pub(super) fn straight(self: &Arc<Self>, job: Job, record: &str, may: impl FnOnce() -> bool) -> Straight {
        let mut inner = self.inner();
        let Inner { connection: Some(connection), queue, sends: false, under_way, next: None, .. } = &*inner else {
            return Straight::NotSent(job);
        };
        if !queue.is_empty() || !may() {
            return Straight::NotSent(job);
        }
        let Some(batcher) = self.lone().begin(*under_way) else { return Straight::NotSent(job) };
        let task = if connection.wakes_freely() { Waker::from(self.clone()) } else { batcher };
        let sending = AssertUnwindSafe(|| {
            let operation = &*job.request.operation;
            let script = Script::of(operation.verb());
            let call = Call::new(script.digest(), script, record, std::iter::once(operation));
            connection.send_for("EVALSHA", &call, &task)
        });
        let Ok(answer) = catch_unwind(sending) else {
            inner.next = Some(Event::Ended(PANICKED.to_owned()));
            drop(inner);
            self.lone().idle();
            self.wake_batcher();
            return Straight::Unknown(job);
        };
        inner.under_way += 1;
        drop(inner);
        let sent = job.submitted;
        self.wait_for(Flight { what: What::Batch(vec![job]), sent, answer });
        Straight::Sent
    }

    /// Puts a job behind all that were queued, or returns it with why not.
    pub(super) fn queue(&self, job: Job) -> Result<(), (Job, Fault)> {
        let mut inner = self.inner();
        if inner.closed {
            return Err((job, Fault::new(FaultKind::Down, "the connection has just ended")));
        }
        if inner.queue.len() >= QUEUE {
            return Err((job, Fault::new(FaultKind::Overloaded, format!("{QUEUE} operations are queued"))));
        }
        inner.queue.push_back(job);
        let first = inner.queue.len() == 1;
        drop(inner);
        // It knows of those before.
        if first {
            self.wake_batcher();
        }
        Ok(())
    }

    /// Waits until something is queued, and takes all of that, up to a full batch.
    pub(super) fn poll_queue(&self, batch: &mut Vec<Job>, context: &mut Context<'_>) -> Poll<()> {
        self.lone().wakes(context.waker());
        if self.take(batch) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Takes all that is queued, up to a full batch. Returns whether that was anything.
    pub(super) fn take(&self, batch: &mut Vec<Job>) -> bool {
        let mut inner = self.inner();
        let taken = inner.queue.len().min(BATCH);
        batch.extend(inner.queue.drain(..taken));
        inner.sends = taken > 0;
        inner.sends
    }

    /// What was taken last has been sent, or answered.
    pub(super) fn sent(&self) {
        self.inner().sends = false;
    }

    /// Nothing is queued any more.
    pub(super) fn close(&self) {
        self.inner().closed = true;
    }

    /// Sends a command of the batcher's, which is on its way then.
    pub(super) fn send(&self, command: &'static str, arguments: &dyn Arguments) -> Answer<Value> {
        let batcher = self.lone().batcher();
        let mut inner = self.inner();
        inner.under_way += 1;
        match &inner.connection {
            Some(connection) => connection.send_for(command, arguments, batcher.as_ref().unwrap_or(Waker::noop())),
            None => known(Err(Fault::new(FaultKind::Closed, "the connection has ended"))).boxed(),
        }
    }

    /// What happens next to the connection.
    pub(super) fn poll_event(&self, context: &mut Context<'_>) -> Poll<Event> {
        let mut inner = self.inner();
        let event = match (inner.next.take(), &mut inner.connection) {
            (Some(event), _) => Poll::Ready(event),
            (None, Some(connection)) => connection.poll_event(context),
            (None, None) => Poll::Pending,
        };
        inner.told = event.is_ready();
        event
    }

    /// The next command that has come back, of these and of those that callers send. As long as
    /// somebody asks, they may send.
    pub(super) fn poll_landed(
        &self,
        flights: &mut Flights,
        host: &dyn Host,
        context: &mut Context<'_>,
    ) -> Poll<Landed> {
        self.inner().delivers = false;
        flights.append(self.lone().taken_over(context.waker()));
        // Where none is on its way, the next one will wake this task.
        let landed = ready!(flights.poll_landed(host, context));
        let mut inner = self.inner();
        inner.delivers = true;
        inner.under_way = inner.under_way.saturating_sub(1);
        drop(inner);
        Poll::Ready(landed)
    }

    /// One command less is on its way.
    pub(super) fn landed(&self) {
        let mut inner = self.inner();
        inner.under_way = inner.under_way.saturating_sub(1);
    }

    /// The batcher looks after what callers send when an answer has had its time.
    pub(super) fn watch(&self) {
        self.lone().watch();
    }

    /// It does not any more, and takes over what waits: the next caller wakes it.
    pub(super) fn unwatch(&self, flights: &mut Flights) {
        flights.append(self.lone().unwatch());
    }

    /// Whether an answer is missing.
    pub(super) fn is_under_way(&self) -> bool {
        self.inner().under_way > 0
    }

    /// From now on callers send nothing by themselves.
    pub(super) fn shut(&self) {
        self.lone().shut();
    }

    /// The generation has ended. What is returned is to be dropped: it ends the connection, and
    /// answers whoever has sent something, who may ask this node again.
    pub(super) fn end(&self) -> Ended {
        let mut inner = self.inner();
        inner.closed = true;
        let (connection, queue) = (inner.connection.take(), std::mem::take(&mut inner.queue));
        drop(inner);
        Ended { _connection: connection, _queue: queue, _lone: self.lone().end() }
    }

    /// Lets what a caller sent wait for its answer; the batcher looks after it where that may have
    /// come already.
    fn wait_for(&self, flight: Flight) {
        let (wakes, over) = self.lone().wait(flight);
        if wakes {
            self.wake_batcher();
        }
        // Of a generation that has ended meanwhile: outside of the lock, since it answers somebody.
        drop(over);
    }

    /// These wait on.
    fn looked(&self, flights: Flights) {
        let (wakes, over) = self.lone().looked(flights);
        if wakes {
            self.wake_batcher();
        }
        drop(over);
    }

    /// An answer to what callers sent may be there.
    fn look(self: &Arc<Self>, mut flights: Flights) {
        let Some(answers) = self.answers.upgrade() else { return };
        let (waker, host) = (Waker::from(self.clone()), &*answers.shared.host);
        // Whatever else this task has done in this turn: Tokio would let it look as if there was
        // none, and wake this again.
        let landed = unconstrained(poll_fn(|context| flights.poll_landed(host, context)));
        let landed = pin!(landed).poll(&mut Context::from_waker(&waker));
        match landed {
            Poll::Pending => self.looked(flights),
            Poll::Ready(Landed { what: What::Batch(jobs), sent, received, result: Ok(value) }) if self.is_next() => {
                // Until it is handed out nobody hands out what was sent later; where nothing was, the
                // next may be sent at once.
                let later = Some(flights).filter(|flights| flights.len() > 0);
                if later.is_none() {
                    self.looked(Flights::default());
                }
                answers.comes(false);
                if let Some(why) = answers.answer(jobs, sent, received, &value) {
                    self.inner().next = Some(Event::Ended(why));
                    self.wake_batcher();
                }
                later.into_iter().for_each(|later| self.looked(later));
            }
            Poll::Ready(Landed { what, sent, result, .. }) => {
                flights.push_first(Flight { what, sent, answer: known(result).boxed() });
                self.looked(flights);
                self.wake_batcher();
            }
        }
    }

    /// Whether an answer that has come to what a caller sent is the next thing to be handed out: it
    /// is not on its way any more then. Messages that were received before it are handed out first,
    /// by the batcher: what is handed over counts only where it came after the reply that said it
    /// might be.
    fn is_next(&self) -> bool {
        // Whoever has it may be the one who woke this.
        let Ok(mut inner) = self.inner.try_lock() else { return false };
        let Inner { connection: Some(connection), next: next @ None, told: false, delivers: false, under_way, .. } =
            &mut *inner
        else {
            return false;
        };
        // Whoever closes waits for the batcher to hand out what is on its way.
        let Some(batcher) = self.lone().batcher_of_callers() else { return false };
        let event = unconstrained(poll_fn(|context| connection.poll_event(context)));
        if let Poll::Ready(event) = pin!(event).poll(&mut Context::from_waker(&batcher)) {
            *next = Some(event);
            return false;
        }
        *under_way = under_way.saturating_sub(1);
        true
    }

    fn wake_batcher(&self) {
        let batcher = self.lone().batcher();
        batcher.into_iter().for_each(Waker::wake);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lone(&self) -> MutexGuard<'_, Lone> {
        self.lone.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Wire {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let flights = self.lone().woken();
        flights.into_iter().for_each(|flights| self.look(flights));
    }
}
