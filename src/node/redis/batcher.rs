//! Puts what is queued for a node into script calls, and hands out the replies.
//!
//! Whatever is queued at a moment goes into one call; nothing waits for more to come. Calls are
//! pipelined: a far node's round trip is not a queue. Nothing is withdrawn once it was queued.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Fuse, FusedFuture};
use tokio::sync::mpsc;
use tokio::task::coop::unconstrained;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::admission::{Server, during, loading, once, parse, run, source};
use super::flight::{Confirmation, Flight, Flights, Landed, What, confirming};
use super::looks::Looking;
use super::messages::Messages;
use super::pack::{BATCH, fitting};
use super::script;
use super::transport::{Answer, Arguments, Connection, Event, Value, digest};
use super::wire::Wire;
use super::{Job, Shared, State};
use crate::host::{Host, before};
use crate::node::Request;
use crate::node::operation::{Operation, Verb};
use crate::node::reply::{Fault, FaultKind, Reply, ReplyTo};
use crate::node::trust::{trusted, unlisted};
use crate::rules::Tick;
use crate::rules::doubt::Trust;
use crate::rules::handover::Stamp;

/// How many calls are under way at most. Past that, operations gather into fuller calls.
const FLIGHTS: usize = 16;
/// How many timeouts in a row end a connection.
const TIMEOUTS: u32 = 3;
/// How often a server is asked whether it is still the same.
const PROBE: Duration = Duration::from_secs(5);

/// Why a generation ended.
pub(super) struct End(pub(super) String);

/// The calls of one generation.
pub(super) struct Batcher {
    shared: Arc<Shared>,
    wire: Arc<Wire>,
    digest: String,
    lineage: String,
    /// What the script calls a server of that lineage.
    run: String,
    /// Until it is confirmed that the server that was admitted has the script, calls are sent and
    /// no reply counts: they may be another server's.
    confirming: Fuse<BoxFuture<'static, Confirmation>>,
    jobs: mpsc::Receiver<Job>,
    flights: Flights,
    timeouts: u32,
    messages: Messages,
    /// Which connection to this node it is.
    generation: u64,
    /// A reply may have overtaken messages that were received before it, and wait still.
    overtaken: bool,
}

impl Batcher {
    pub(super) fn new(
        shared: Arc<Shared>,
        connection: Box<dyn Connection>,
        lineage: String,
        jobs: mpsc::Receiver<Job>,
    ) -> Self {
        let script = source(&lineage);
        let confirming = confirming(&*connection, &script, shared.host.clone()).fuse();
        let digest = digest(&script);
        let mut state = shared.state();
        state.generations += 1;
        let generation = state.generations;
        drop(state);
        Self {
            generation,
            overtaken: false,
            messages: Messages::new(shared.clone()),
            shared,
            wire: Arc::new(Wire::new(connection, digest.clone())),
            digest,
            run: run(&lineage),
            lineage,
            confirming,
            jobs,
            flights: Flights::default(),
            timeouts: 0,
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
        let mut probe = interval(PROBE);
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
                landed = landed(&self.wire, &mut self.flights, &*self.shared.host), if confirmed => self.land_in_order(landed),
                event = poll_fn(|context| self.wire.poll_event(context)), if !full => self.happened(event),
                confirmation = &mut self.confirming, if !confirmed => self.confirm(confirmation),
                _ = self.jobs.recv_many(&mut batch, BATCH), if self.flights.len() < FLIGHTS => {
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
        self.jobs.close();
        let until = self.shared.host.now() + self.shared.settings.timeout;
        let host = self.shared.host.clone();
        let _ = before(&host, until, self.drained()).await;
        End("the quorum was closed".to_owned())
    }

    async fn drained(&mut self) {
        let mut batch = Vec::new();
        while self.jobs.recv_many(&mut batch, BATCH).await > 0 {
            self.take_off(&mut batch);
        }
        if !self.confirming.is_terminated() {
            let confirmation = (&mut self.confirming).await;
            if self.confirm(confirmation).is_some() {
                return;
            }
        }
        while self.wire.is_under_way() {
            let landed = landed(&self.wire, &mut self.flights, &*self.shared.host).await;
            self.land(landed);
        }
    }

    /// Answers all that was not sent. What was sent answers by itself, when its flight is dropped,
    /// that nobody knows.
    fn end(mut self, why: String) -> End {
        self.jobs.close();
        while let Ok(job) = self.jobs.try_recv() {
            self.shared.fail_job(job, &Fault::new(FaultKind::Down, format!("down: {why}")));
        }
        End(why)
    }

    fn take_off(&mut self, batch: &mut Vec<Job>) {
        let taken = batch.len();
        if batch.iter().any(|job| !job.others.is_empty()) {
            *batch = std::mem::take(batch).into_iter().flat_map(Job::apart).collect();
        }
        let sent = self.shared.host.now();
        let timeout = self.shared.settings.timeout;
        let overdue = |job: &mut Job| sent.since(job.submitted) > timeout;
        for job in batch.extract_if(.., overdue) {
            self.shared.fail(job.request, Fault::new(FaultKind::Overloaded, "it waited too long to be sent"));
        }
        let mut jobs = std::mem::take(batch);
        while !jobs.is_empty() {
            let rest = jobs.split_off(fitting(jobs.iter().map(|job| &*job.request.operation)));
            let answer = self.wire.send("EVALSHA", &self.script_call(&self.digest, &jobs));
            self.launch(What::Batch(std::mem::replace(&mut jobs, rest)), sent, answer);
        }
        // Last: nothing that callers send overtakes these.
        self.wire.dequeued(taken);
    }

    fn probe(&mut self) {
        let sent = self.shared.host.now();
        let answer = self.wire.send("INFO", &[]);
        self.launch(What::Probe, sent, answer);
        self.let_it_look();
    }

    /// NOSCRIPT means that nothing ran, so the same may be sent again, whole. All within what is
    /// left of the call's time. Whoever answers now must not know the loaded script from this:
    /// another client's connection may not have met NOSCRIPT yet.
    fn again(&mut self, jobs: Vec<Job>, sent: Tick) {
        // It would write the old one's run to a new one's roster. It is asked again when it is
        // known who answers.
        let of_members = |job: &Job| matches!(job.request.operation.verb(), Verb::Enrol | Verb::Retire | Verb::Reset);
        let (enrolments, jobs): (Vec<_>, Vec<_>) = jobs.into_iter().partition(of_members);
        self.fail_all(
            enrolments,
            &Fault::new(FaultKind::Down, "the server does not know the script, and may be another"),
        );
        if jobs.is_empty() {
            return self.verify(jobs, Value::Array(Vec::new()), sent);
        }
        let answer = self.wire.send("EVAL", &self.script_call(&once(&self.lineage), &jobs));
        self.launch(What::Again(jobs), sent, self.in_time(sent, answer));
    }

    /// NOSCRIPT may also be the first sign of a restarted server behind a proxy, so who carried the
    /// jobs out is asked afterwards: a grant by another server is none, and is released.
    fn verify(&mut self, jobs: Vec<Job>, value: Value, sent: Tick) {
        let answer = self.wire.send("INFO", &[]);
        self.launch(What::Verify(jobs, value), sent, self.in_time(sent, answer));
    }

    /// The server has lost its scripts, and is the same.
    fn load_again(&mut self) {
        let sent = self.shared.host.now();
        let answer = self.wire.send("SCRIPT", &loading(&source(&self.lineage)));
        self.launch(What::Load, sent, answer);
    }

    fn in_time(&self, sent: Tick, answer: Answer<Value>) -> Answer<Value> {
        let (host, until) = (self.shared.host.clone(), sent + self.shared.settings.timeout);
        let late = || Fault::new(FaultKind::Timeout, "no time was left to load the script");
        async move { before(&host, until, answer).await.unwrap_or_else(|| Err(late())) }.boxed()
    }

    fn launch(&mut self, what: What, sent: Tick, answer: Answer<Value>) {
        self.flights.push(Flight { what, sent, answer });
    }

    fn script_call<'a>(&'a self, script: &'a str, jobs: &'a [Job]) -> impl Arguments + 'a {
        let operations = jobs.iter().map(|job| &*job.request.operation);
        script::Call::new(script, &self.shared.settings.record, operations)
    }

    /// Returns why the generation must end, if it must.
    fn happened(&mut self, event: Event) -> Option<String> {
        match event {
            Event::Ended(why) => return Some(why),
            Event::Message(text) => self.heard(&text),
            Event::Missed => self.messages.miss(),
        }
        None
    }

    /// Takes note of who has the script. Returns why the generation must end, if it must.
    fn confirm(&mut self, confirmation: Confirmation) -> Option<String> {
        let Confirmation { digest, info, sent, received } = confirmation;
        let digest = digest.map_err(during("SCRIPT LOAD"));
        let both = digest.and_then(|digest| Ok((digest, info.map_err(during("INFO"))?)));
        match both.map(|(digest, info)| (digest, parse(&info))) {
            Ok((digest, Some(server))) => {
                // Where it has another name for the script, that is the right one.
                if let Some(digest) = digest.text() {
                    digest.clone_into(&mut self.digest);
                    self.wire.rename(digest);
                }
                self.compared(sent, received, server)
            }
            Ok((_, None)) => Some(script::garbled().to_string()),
            Err(fault) => Some(fault.to_string()),
        }
    }

    /// Hands out replies behind the messages that were received before them: what is handed over
    /// counts only where it came after the reply that said it might be. Returns why the generation
    /// must end, if it must.
    fn land_in_order(&mut self, landed: Landed) -> Option<String> {
        let mut ended = None;
        // However many came before, most of them have been looked at: what counts is whether any
        // waits still.
        self.messages.start_again();
        while ended.is_none() && !self.messages.are_enough() {
            // Whatever else this task has done in this turn: Tokio would let it look as if there
            // was none.
            let event = unconstrained(poll_fn(|context| self.wire.poll_event(context))).now_or_never();
            let Some(event) = event else { break };
            ended = self.happened(event);
        }
        self.overtaken = self.messages.are_enough();
        let landed = self.land(landed);
        ended.or(landed)
    }

    /// A message came.
    fn heard(&mut self, text: &str) {
        let Some(mut hint) = self.messages.take(text) else { return };
        if let Some(granted) = &mut hint.granted {
            granted.stamp.generation = self.generation;
            granted.counts = self.observe_push(granted.stamp.time) && !self.overtaken;
        }
        self.shared.settings.listener.hint(self.shared.index, &hint);
    }

    /// Whether a push with this time counts: it tells of the node's clock as replies do.
    fn observe_push(&self, time: Duration) -> bool {
        let received = self.shared.host.now();
        let (trust, uncounted) = self.observed(received, |state| state.guard.observe_push(time, received));
        trust.grants && uncounted.is_none()
    }

    /// Hands out replies. Returns why the generation must end, if it must.
    fn land(&mut self, landed: Landed) -> Option<String> {
        let Landed { what, sent, received, result } = landed;
        match (what, result) {
            (What::Batch(jobs), Err(fault)) if fault.to_string().starts_with("NOSCRIPT") => {
                self.again(jobs, sent);
                None
            }
            (What::Batch(jobs) | What::Again(jobs) | What::Verify(jobs, ..), Err(fault)) => {
                let reply = Err(fault.clone());
                let ended = self.count(&fault).or_else(|| self.replica(&reply));
                self.fail_all(jobs, &fault);
                ended
            }
            (What::Batch(jobs), Ok(value)) => {
                self.timeouts = 0;
                self.answer(jobs, sent, received, value)
            }
            (What::Again(jobs), Ok(value)) => {
                self.verify(jobs, value, sent);
                None
            }
            (What::Verify(jobs, value), Ok(info)) => self.verified(jobs, value, sent, received, &info),
            (What::Probe, Ok(info)) => {
                self.timeouts = 0;
                self.probed(sent, received, &info)
            }
            (What::Probe, Err(fault)) => self.count(&fault),
            (What::Load, _) => None,
        }
    }

    fn verified(&mut self, jobs: Vec<Job>, value: Value, sent: Tick, received: Tick, info: &Value) -> Option<String> {
        self.timeouts = 0;
        if parse(info).is_some_and(|server| server.continues(&self.lineage)) {
            self.load_again();
            return self.answer(jobs, sent, received, value);
        }
        let why = "another server answers at this address";
        self.fail_all(jobs, &Fault::new(FaultKind::Closed, why));
        Some(why.to_owned())
    }

    fn answer(&self, jobs: Vec<Job>, sent: Tick, received: Tick, value: Value) -> Option<String> {
        let operations = jobs.iter().map(|job| &*job.request.operation);
        let returned = script::returned(value, operations, &self.run);
        let Some(script::Returned { time, unheard, replies }) = returned else {
            self.fail_all(jobs, &script::garbled());
            return None;
        };
        if let Some(why) = unheard {
            self.shared.without_hints(&why);
        }
        let (trust, uncounted) = self.observe(time, sent, received);
        let mut ended = None;
        for (job, reply) in jobs.into_iter().zip(replies) {
            let mut reply = trusted(reply, trust);
            if let Some(why) = &uncounted {
                reply = unlisted(reply, why);
            }
            if let Ok(outcome) = &mut reply {
                outcome.stamped(Stamp { generation: self.generation, time });
            }
            ended = self.replica(&reply).or(ended);
            self.deliver(job, received, reply);
        }
        ended
    }

    /// Which replies that came with this time count: the clock may have been stepped now, or a
    /// little before, while they were on their way.
    fn observe(&self, time: Duration, sent: Tick, received: Tick) -> (Trust, Option<String>) {
        self.observed(received, |state| {
            state.round_trip = Some(received.since(sent));
            state.guard.observe(time, sent, received)
        })
    }

    /// Which votes count at `received`, once the guard was told a time of the node's clock: `look`
    /// returns whether that shows a step. And why they do not, if the server was not enrolled
    /// lately enough for them.
    fn observed(&self, received: Tick, look: impl FnOnce(&mut State) -> bool) -> (Trust, Option<String>) {
        let mut state = self.shared.state();
        let stepped = look(&mut state);
        let trust = state.guard.trust(received);
        let uncounted = (!state.standing.counts(received)).then(|| state.unlisted(received));
        let doubted = state.guard.take_news();
        drop(state);
        if stepped {
            self.note(stepped, !trust.grants);
        }
        self.shared.tell_doubt(doubted);
        (trust, uncounted)
    }

    /// Why the generation must end, if this reply says that it is no master any more.
    fn replica(&self, reply: &Reply) -> Option<String> {
        if !demoted(reply) {
            return None;
        }
        self.shared.state().guard.demoted();
        Some("it has become a replica".to_owned())
    }

    fn deliver(&self, job: Job, received: Tick, reply: Reply) {
        let Job { request, submitted, .. } = job;
        let verb = request.operation.verb();
        self.shared.meters.round_trip(received.since(submitted));
        self.shared.meters.answered(verb, reply.as_ref().map_err(Fault::kind));
        request.reply.send(reply);
    }

    fn fail_all(&self, jobs: Vec<Job>, fault: &Fault) {
        for job in jobs {
            self.shared.fail(job.request, fault.clone());
        }
    }

    fn count(&mut self, fault: &Fault) -> Option<String> {
        self.timeouts = if fault.kind() == FaultKind::Timeout { self.timeouts + 1 } else { 0 };
        (self.timeouts >= TIMEOUTS).then(|| format!("{TIMEOUTS} answers in a row did not come in time"))
    }

    fn probed(&self, sent: Tick, received: Tick, value: &Value) -> Option<String> {
        self.compared(sent, received, parse(value)?)
    }

    /// Whether the server is still the one that was admitted. Returns what it is else.
    fn compared(&self, sent: Tick, received: Tick, server: Server) -> Option<String> {
        if !server.continues(&self.lineage) {
            return Some("another server answers at this address".to_owned());
        }
        if !server.master {
            self.shared.state().guard.demoted();
            return Some("it has become a replica".to_owned());
        }
        let renamed = server.lineage != self.lineage;
        self.keep(server, sent, received);
        // The script that is loaded has the old words, in which the node would say that it was
        // taught.
        renamed.then(|| "it forgot of its promotion".to_owned())
    }

    fn keep(&self, server: Server, sent: Tick, received: Tick) {
        let mut state = self.shared.state();
        state.round_trip = Some(received.since(sent));
        state.guard.rename(&server.lineage);
        let stepped = state.guard.meet(&server.lineage, server.uptime, server.time, sent, received);
        let quarantined = state.guard.quarantined(received).is_some();
        state.server = Some(server);
        let doubted = state.guard.take_news();
        drop(state);
        self.note(stepped, quarantined);
        self.shared.tell_doubt(doubted);
    }

    fn note(&self, stepped: bool, quarantined: bool) {
        if stepped {
            self.shared.state().looks.stepped();
            self.let_it_look();
            self.shared.warn_of_a_step();
        }
        self.shared.meters.quarantined(quarantined);
    }

    /// Asks for the record, by which the node looks at its clock, if that is due.
    fn let_it_look(&self) {
        let now = self.shared.host.now();
        let due = self.shared.state().looks.due(now);
        if let Some(steps) = due {
            let reply = ReplyTo::new(self.shared.index, Arc::new(Looking(self.shared.clone(), steps)));
            self.shared.enqueue(Request { operation: Arc::new(Operation::Record), reply });
        }
    }
}

impl Drop for Batcher {
    /// Also where it panicked: whoever has sent something is told, and the connection ends.
    fn drop(&mut self) {
        drop(self.wire.end());
    }
}

/// The next command that has come back.
async fn landed(wire: &Wire, flights: &mut Flights, host: &dyn Host) -> Landed {
    poll_fn(|context| wire.poll_landed(flights, host, context)).await
}

fn demoted(reply: &Reply) -> bool {
    matches!(reply, Err(fault) if fault.to_string().starts_with("READONLY"))
}

#[cfg(test)]
mod tests {
    use crate::node::operation::Verb;

    #[test]
    fn verbs_keep_their_order_in_metrics() {
        assert_eq!(Verb::ALL.map(|verb| verb as usize), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
    }
}
