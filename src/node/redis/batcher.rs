//! Puts what is queued for a node into script calls, and hands out the replies.
//!
//! Whatever is queued at a moment goes into one call; nothing waits for more to come. Calls are
//! pipelined: a far node's round trip is not a queue. Nothing is withdrawn once it was queued.

mod landing;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::{BoxFuture, Fuse, FusedFuture};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::admission::{give, once, run, source};
use super::answers::Answers;
use super::encode::{BATCH, Call, batches};
use super::flight::{Confirmation, Flight, Flights, Landed, What, confirming};
use super::messages::Messages;
use super::patience::Patience;
use super::script::Script;
use super::transport::{Answer, Arguments, Connection, Event, Value, digest};
use super::wire::{Digests, Wire};
use super::{Job, Shared, scan};
use crate::host::before;
use crate::node::operation::Operation;
use crate::node::reply::{Fault, FaultKind};
use crate::rules::Tick;

/// How many calls are under way at most. Past that, operations gather into fuller calls.
const FLIGHTS: usize = 16;
/// How many timeouts in a row end a connection.
const TIMEOUTS: u32 = 3;

/// How a generation ended.
pub(super) struct End {
    pub(super) why: String,
    /// Whether the server was confirmed before.
    pub(super) answered: bool,
}

/// The calls of one generation.
pub(super) struct Batcher {
    shared: Arc<Shared>,
    wire: Arc<Wire>,
    answers: Arc<Answers>,
    digests: Digests,
    lineage: String,
    /// Until it is confirmed that the server that was admitted has the scripts, calls are sent and
    /// no reply counts: they may be another server's.
    confirming: Fuse<BoxFuture<'static, Confirmation>>,
    /// Whether it was confirmed.
    answered: bool,
    /// When it was, until the server is asked again whether it is the same.
    unprobed: Option<Tick>,
    /// Whether the server takes SCRIPT LOAD.
    loads: bool,
    /// How many scripts are on their way to it again.
    loading: usize,
    flights: Flights,
    patience: Patience,
    messages: Messages,
    /// The connection was just asked what happens to it: nothing, and it wakes this task.
    asked: bool,
}

impl Batcher {
    pub(super) fn new(shared: Arc<Shared>, connection: Box<dyn Connection>, lineage: String, loads: bool) -> Self {
        let sources = Script::ALL.map(|script| (script, source(script, &lineage)));
        let send = |command, arguments: &dyn Arguments| connection.send(command, arguments);
        let give = |(script, source): &(Script, String)| give(send, (*script, source), &shared.settings.record, loads);
        let confirming = confirming(sources.iter().map(give), &*connection, shared.host.clone()).fuse();
        let digests = sources.map(|(_, source)| digest(&source));
        let mut state = shared.state();
        state.generations += 1;
        let generation = state.generations;
        drop(state);
        let patience = Patience::new(shared.host.clone(), shared.settings.timeout);
        let answers = Arc::new(Answers::new(shared.clone(), generation, run(&lineage)));
        Self {
            asked: false,
            messages: Messages::new(shared.clone()),
            shared,
            wire: Arc::new(Wire::new(connection, digests.clone(), Arc::downgrade(&answers))),
            answers,
            digests,
            lineage,
            confirming,
            answered: false,
            unprobed: None,
            loads,
            loading: 0,
            flights: Flights::default(),
            patience,
        }
    }

    /// Where callers send what needs no batch.
    pub(super) fn wire(&self) -> Arc<Wire> {
        self.wire.clone()
    }

    /// Runs until the connection ends or `closing` does. What was queued by then is still sent in
    /// the latter case.
    pub(super) async fn run(mut self, closing: &CancellationToken) -> End {
        let mut batch = Vec::with_capacity(BATCH);
        let mut probe = interval(self.shared.state().probing.interval());
        probe.set_missed_tick_behavior(MissedTickBehavior::Delay);
        probe.reset();
        let closed = closing.cancelled();
        tokio::pin!(closed);
        loop {
            let full = self.messages.are_enough();
            let confirmed = self.confirming.is_terminated();
            let ended = tokio::select! {
                biased;
                // First: what happened meanwhile is looked at there, before a reply is handed out.
                landed = landed(&self.wire, &mut self.flights, &mut self.patience), if confirmed => match landed {
                    Some(landed) => self.land_in_order(landed).await,
                    None => self.give_up(),
                },
                event = poll_fn(|context| poll_event(&self.wire, &mut self.asked, context)), if !full => self.happened(event),
                confirmation = &mut self.confirming, if !confirmed => self.confirm(confirmation),
                () = poll_fn(|context| self.wire.poll_queue(&mut batch, context)), if self.flights.len() < FLIGHTS => {
                    self.take_off(&mut batch);
                    None
                }
                () = self.messages.due(), if self.messages.were_missed() => {
                    self.messages.tell_missed();
                    None
                }
                _ = probe.tick(), if confirmed => {
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

    /// Sends what is queued still, waits for the answers as long as one may take, and ends.
    async fn finish(mut self) -> End {
        self.wire.shut();
        self.wire.close();
        let until = self.shared.host.now() + self.shared.settings.timeout;
        let host = self.shared.host.clone();
        let _ = before(&host, until, self.drained()).await;
        End { why: "the quorum was closed".to_owned(), answered: self.answered }
    }

    async fn drained(&mut self) {
        let mut batch = Vec::new();
        while self.wire.take(&mut batch) {
            self.take_off(&mut batch);
        }
        if !self.confirming.is_terminated() {
            let confirmation = (&mut self.confirming).await;
            if self.confirm(confirmation).is_some() {
                return;
            }
        }
        while self.wire.is_under_way() {
            match landed(&self.wire, &mut self.flights, &mut self.patience).await {
                Some(landed) => self.land(landed),
                None => self.give_up(),
            };
        }
    }

    /// Answers all that was not sent. What was sent answers by itself, when its flight is dropped,
    /// that nobody knows.
    fn end(self, why: String) -> End {
        self.wire.close();
        let mut batch = Vec::new();
        while self.wire.take(&mut batch) {
            let fault = Fault::new(FaultKind::Down, format!("down: {why}"));
            batch.drain(..).for_each(|job| self.shared.fail_job(job, &fault));
        }
        End { why, answered: self.answered }
    }

    fn take_off(&mut self, batch: &mut Vec<Job>) {
        if batch.iter().any(|job| !job.others.is_empty()) {
            *batch = std::mem::take(batch).into_iter().flat_map(Job::apart).collect();
        }
        let sent = self.shared.host.now();
        let timeout = self.shared.settings.timeout;
        let overdue = |job: &mut Job| sent.since(job.submitted) > timeout;
        for job in batch.extract_if(.., overdue) {
            self.shared.fail(job.request, Fault::new(FaultKind::Overloaded, "it waited too long to be sent"));
        }
        for job in batch.extract_if(.., |job| matches!(*job.request.operation, Operation::Scan(_))) {
            let send = |command, arguments: &dyn Arguments| self.wire.send(command, arguments);
            if let Some(answer) = scan::ask(send, &job.request.operation, &self.shared.settings.record) {
                self.flights.push(Flight { what: What::Page(vec![job]), sent, answer });
            }
        }
        for batch in batches(batch.drain(..), |job| &job.request.operation) {
            let digest = &self.digests[batch.script as usize];
            let answer = self.wire.send("EVALSHA", &self.script_call(digest, batch.script, &batch.jobs));
            self.launch(What::Batch(batch.jobs), sent, answer);
        }
        // Last: nothing that callers send overtakes these.
        self.wire.sent();
    }

    fn probe(&mut self) {
        let sent = self.shared.host.now();
        self.unprobed = None;
        let answer = self.wire.send("INFO", &[]);
        self.launch(What::Probe, sent, answer);
        self.answers.let_it_look();
    }

    /// NOSCRIPT means that nothing of this call ran, so it may be sent again, whole. All within what is
    /// left of the call's time. Whoever answers now must not know the loaded script from this:
    /// another client's connection may not have met NOSCRIPT yet.
    fn again(&mut self, jobs: Vec<Job>, sent: Tick) {
        let Some(script) = jobs.first().map(|job| Script::of(job.request.operation.verb())) else { return };
        if script == Script::Roster {
            // It would write the old one's run to a new one's roster. It is asked again when it is
            // known who answers.
            let why = "the server does not know the script, and may be another";
            self.answers.fail_all(jobs, &Fault::new(FaultKind::Down, why));
            return self.verify(Vec::new(), Value::Array(Vec::new()), sent);
        }
        let answer = self.wire.send("EVAL", &self.script_call(&once(script, &self.lineage), script, &jobs));
        self.launch(What::Again(jobs), sent, answer);
    }

    /// NOSCRIPT may also be the first sign of a restarted server behind a proxy, so who carried the
    /// jobs out is asked afterwards: a grant by another server is none, and is released.
    fn verify(&mut self, jobs: Vec<Job>, value: Value, sent: Tick) {
        let answer = self.wire.send("INFO", &[]);
        self.launch(What::Verify(jobs, value), sent, answer);
    }

    /// The server has lost its scripts, and is the same.
    fn load_again(&mut self) {
        if self.loading > 0 {
            return;
        }
        self.loading = Script::ALL.len();
        let sent = self.shared.host.now();
        for script in Script::ALL {
            let send = |command, arguments: &dyn Arguments| self.wire.send(command, arguments);
            let source = source(script, &self.lineage);
            let answer = give(send, (script, &source), &self.shared.settings.record, self.loads);
            self.launch(What::Load, sent, answer);
        }
    }

    /// Gives up the commands that have had their time. Returns why the generation must end, if it
    /// must.
    fn give_up(&mut self) -> Option<String> {
        let now = self.shared.host.now();
        let mut ended = None;
        while let Some(landed) = self.flights.give_up(|sent| self.patience.has_ended(sent, now), now) {
            self.wire.landed();
            ended = self.land(landed).or(ended);
        }
        // The timer has fired, and it is not known whether another one will run: until it does, each
        // caller that sends by itself wakes this.
        self.wire.unwatch(&mut self.flights);
        ended
    }

    fn launch(&mut self, what: What, sent: Tick, answer: Answer<Value>) {
        self.flights.push(Flight { what, sent, answer });
    }

    fn script_call<'a>(&'a self, text: &'a str, script: Script, jobs: &'a [Job]) -> impl Arguments + 'a {
        let operations = jobs.iter().map(|job| &*job.request.operation);
        Call::new(text, script, &self.shared.settings.record, operations)
    }

    /// The connection has ended: perhaps because nobody used it, as `timeout` makes servers do.
    fn note_idle_end(&self) {
        if let Some(since) = self.unprobed.filter(|_| !self.wire.is_under_way()) {
            let idle = self.shared.host.now().since(since);
            self.shared.state().probing.ended_idle(idle);
        }
    }

    /// Returns why the generation must end, if it must.
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
    /// Sends what is queued if its runtime ends: nothing polls it any more, and a release may be
    /// queued as `main` returns. After a panic it only ends the connection, and answers all
    /// requests.
    fn drop(&mut self) {
        let mut batch = Vec::new();
        while self.answered && !std::thread::panicking() && self.wire.take(&mut batch) {
            self.take_off(&mut batch);
        }
        drop(self.wire.end());
    }
}

/// What happens next to the connection, unless that was just asked.
fn poll_event(wire: &Wire, asked: &mut bool, context: &mut Context<'_>) -> Poll<Event> {
    if std::mem::take(asked) { Poll::Pending } else { wire.poll_event(context) }
}

/// The next command that has come back, or `None` where one may have had its time.
async fn landed(wire: &Wire, flights: &mut Flights, patience: &mut Patience) -> Option<Landed> {
    poll_fn(|context| match wire.poll_landed(flights, patience.host(), context) {
        Poll::Ready(landed) => Poll::Ready(Some(landed)),
        Poll::Pending => patience.poll(flights.first(), wire, context).map(|()| None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use crate::node::operation::Verb;

    #[test]
    fn verbs_keep_their_order_in_metrics() {
        assert_eq!(Verb::ALL.map(|verb| verb as usize), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    }
}
