//! Makes script calls from the operations that are queued for a node, and delivers the replies.
//!
//! While fewer than [`FLIGHTS`] commands are in flight, queued operations are sent at once. They do
//! not wait for more operations, or for the replies to earlier calls. A queued operation stays
//! queued even if its caller goes away.

mod landing;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::mpsc::{self, error::TryRecvError};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::answers::Answers;
use super::batches::{BATCH, batches};
use super::encode::Call;
use super::in_flight::{Completed, InFlight, InFlightQueue, What};
use super::messages::Messages;
use super::patience::Patience;
use super::script::Script;
use super::transport::{Answer, Arguments, Connection, Event, Value};
use super::{Job, QUEUE, Shared, scan};
use crate::host::before;
use crate::node::operation::Operation;
use crate::node::reply::{Fault, FaultKind};
use crate::rules::Tick;

/// While at least this many commands are in flight, operations wait in the queue, so that the next
/// calls carry more operations.
const FLIGHTS: usize = 16;

/// Makes the calls of one connection.
pub(super) struct Batcher {
    shared: Arc<Shared>,
    connection: Box<dyn Connection>,
    /// Declared before `flights`, and so dropped first: when calls in flight are dropped, their
    /// callers may submit new operations, which must fail at once.
    queue: mpsc::Receiver<Job>,
    answers: Answers,
    /// The run id that the server had when the connection began.
    run_id: String,
    /// When the last call was sent (or the connection began), to see how long the connection was
    /// idle; `None` after the first probe.
    unprobed: Option<Tick>,
    flights: InFlightQueue,
    patience: Patience,
    messages: Messages,
}

impl Batcher {
    /// Returns a batcher, and the sender of its queue.
    pub(super) fn new(
        shared: Arc<Shared>,
        connection: Box<dyn Connection>,
        run_id: String,
    ) -> (Self, mpsc::Sender<Job>) {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let mut state = shared.state();
        state.generations += 1;
        let generation = state.generations;
        drop(state);
        let batcher = Self {
            connection,
            queue,
            answers: Answers::new(shared.clone(), generation),
            messages: Messages::new(shared.clone()),
            run_id,
            unprobed: Some(shared.host.now()),
            flights: InFlightQueue::default(),
            patience: Patience::new(shared.host.clone(), shared.settings.timeout),
            shared,
        };
        (batcher, jobs)
    }

    /// Runs until the connection ends or `closing` is cancelled. After `closing`, the batcher still
    /// sends queued operations. Returns why the connection ended.
    pub(super) async fn run(mut self, closing: &CancellationToken) -> String {
        let mut batch = Vec::with_capacity(BATCH);
        let mut probe = interval(self.shared.state().probing.interval);
        probe.set_missed_tick_behavior(MissedTickBehavior::Delay);
        probe.reset();
        let closed = closing.cancelled();
        tokio::pin!(closed);
        loop {
            let full = self.messages.are_enough();
            let ended = tokio::select! {
                biased;
                // Handle replies first: `land_in_order` reads pending messages before each reply.
                landed = landed(&mut self.flights, &mut self.patience) => match landed {
                    Some(landed) => self.land_in_order(landed).await,
                    None => self.give_up(),
                },
                event = poll_fn(|context| self.connection.poll_event(context)), if !full => self.happened(event),
                1.. = self.queue.recv_many(&mut batch, BATCH), if self.flights.len() < FLIGHTS => {
                    self.take_off(&mut batch);
                    None
                }
                () = self.messages.due(), if self.messages.were_missed() => {
                    self.messages.tell_missed();
                    None
                }
                _ = probe.tick() => {
                    self.probe();
                    None
                }
                () = &mut closed => return self.finish().await,
                () = tokio::task::yield_now(), if full => None,
            };
            if full {
                self.messages.start_again();
            }
            if let Some(why) = ended {
                return self.end(why);
            }
        }
    }

    /// Sends the queued operations, and waits for replies for one command timeout at most.
    async fn finish(mut self) -> String {
        self.queue.close();
        let until = self.shared.host.now() + self.shared.settings.timeout;
        let host = self.shared.host.clone();
        let _ = before(&host, until, self.drained()).await;
        "the quorum was closed".to_owned()
    }

    async fn drained(&mut self) {
        let mut batch = Vec::new();
        while self.take(&mut batch) {
            self.take_off(&mut batch);
        }
        while self.flights.len() > 0 {
            match landed(&mut self.flights, &mut self.patience).await {
                Some(landed) => self.land(landed),
                None => self.give_up(),
            };
        }
    }

    /// Fails all operations that are still queued. Operations that were sent get the fault `Closed`
    /// when `flights` is dropped.
    fn end(mut self, why: String) -> String {
        self.queue.close();
        let mut batch = Vec::new();
        while self.take(&mut batch) {
            let fault = Fault::new(FaultKind::Down, format!("down: {why}"));
            batch.drain(..).for_each(|job| self.shared.fail_job(job, &fault));
        }
        why
    }

    /// Moves queued jobs into `batch` until `batch` is full or the queue is empty. Returns whether
    /// `batch` has jobs. Close the queue before you call this method.
    fn take(&mut self, batch: &mut Vec<Job>) -> bool {
        while batch.len() < BATCH {
            match self.queue.try_recv() {
                Ok(job) => batch.push(job),
                // A caller has reserved a place before the queue was closed, and will fill it soon.
                Err(TryRecvError::Empty) => std::thread::yield_now(),
                Err(TryRecvError::Disconnected) => break,
            }
        }
        !batch.is_empty()
    }

    fn take_off(&mut self, batch: &mut Vec<Job>) {
        if batch.iter().any(|job| !job.others.is_empty()) {
            *batch = std::mem::take(batch).into_iter().flat_map(Job::apart).collect();
        }
        let sent = self.shared.host.now();
        let timeout = self.shared.settings.timeout;
        let overdue = |job: &mut Job| sent.since(job.submitted) > timeout;
        for job in batch.extract_if(.., overdue) {
            self.shared.fail(job.request, Fault::new(FaultKind::Overloaded, "not sent: it was queued too long"));
        }
        for job in batch.extract_if(.., |job| matches!(*job.request.operation, Operation::Scan(_))) {
            let send = |command, arguments: &dyn Arguments| self.connection.send(command, arguments);
            if let Some(answer) = scan::ask(send, &job.request.operation, &self.shared.settings.record) {
                self.flights.push(InFlight { what: What::Page(vec![job]), sent, answer });
            }
        }
        for batch in batches(batch.drain(..), |job| &job.request.operation) {
            let digest = batch.script.digest();
            // Read the time again for each call: writing the earlier calls may have taken long.
            let sent = self.shared.host.now();
            self.unprobed = self.unprobed.map(|_| sent);
            let answer = self.connection.send("EVALSHA", &self.script_call(digest, batch.script, &batch.jobs));
            self.launch(What::Batch(batch.jobs), sent, answer);
        }
    }

    fn probe(&mut self) {
        let sent = self.shared.host.now();
        self.unprobed = None;
        let answer = self.connection.send("INFO", &[]);
        self.launch(What::Probe, sent, answer);
    }

    /// After the error NOSCRIPT, sends the call again with the whole script. The server has carried
    /// nothing out. The time limit counts from the first call.
    fn again(&mut self, jobs: Vec<Job>, sent: Tick) {
        let Some(script) = jobs.first().map(|job| Script::of(job.request.operation.verb())) else { return };
        let answer = self.connection.send("EVAL", &self.script_call(script.source(), script, &jobs));
        self.launch(What::Again(jobs), sent, answer);
    }

    /// Fails the commands that have timed out. Returns a reason if the connection must end.
    fn give_up(&mut self) -> Option<String> {
        let now = self.shared.host.now();
        let mut ended = None;
        while let Some(landed) = self.flights.give_up(|sent| self.patience.has_ended(sent, now), now) {
            ended = self.land(landed).or(ended);
        }
        ended
    }

    fn launch(&mut self, what: What, sent: Tick, answer: Answer<Value>) {
        self.flights.push(InFlight { what, sent, answer });
    }

    fn script_call<'a>(&'a self, text: &'a str, script: Script, jobs: &'a [Job]) -> impl Arguments + 'a {
        let operations = jobs.iter().map(|job| &*job.request.operation);
        Call::new(text, script, &self.shared.settings.record, operations)
    }

    /// Notes that the connection ended while idle, perhaps by the server's `timeout`.
    fn note_idle_end(&self) {
        if let Some(since) = self.unprobed.filter(|_| self.flights.len() == 0) {
            let idle = self.shared.host.now().since(since);
            self.shared.state().probing.ended_idle(idle);
        }
    }

    /// Handles an event. Returns a reason if the connection must end.
    fn happened(&mut self, event: Event) -> Option<String> {
        match event {
            Event::Ended(why) => {
                self.note_idle_end();
                return Some(why);
            }
            Event::Message(text) => self.heard(&text),
            Event::Missed => self.messages.miss(),
        }
        None
    }
}

impl Drop for Batcher {
    /// Sends the queued operations if the runtime ends: a release may be queued when `main`
    /// returns, and the batcher is not polled after that. If this drop is due to a panic, queued
    /// requests are not sent, and get faults.
    fn drop(&mut self) {
        self.queue.close();
        let mut batch = Vec::new();
        while !std::thread::panicking() && self.take(&mut batch) {
            self.take_off(&mut batch);
        }
    }
}

/// Waits for the next reply to a command. Returns `None` if a command may have timed out.
async fn landed(flights: &mut InFlightQueue, patience: &mut Patience) -> Option<Completed> {
    poll_fn(|context| match flights.poll_landed(patience.host(), context) {
        Poll::Ready(landed) => Poll::Ready(Some(landed)),
        Poll::Pending => patience.poll(flights.first(), context).map(|()| None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use crate::node::operation::Verb;

    #[test]
    fn verbs_keep_their_order_in_metrics() {
        assert_eq!(Verb::ALL.map(|verb| verb as usize), [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
