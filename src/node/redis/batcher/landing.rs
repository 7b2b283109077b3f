//! What came back: whose replies count, and in which order they are handed out.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::task::coop::unconstrained;

use super::{Batcher, TIMEOUTS};
use crate::node::Request;
use crate::node::operation::Operation;
use crate::node::redis::admission::{Server, during, parse};
use crate::node::redis::flight::{Confirmation, Landed, What};
use crate::node::redis::looks::Looking;
use crate::node::redis::script;
use crate::node::redis::transport::Value;
use crate::node::redis::{Job, State};
use crate::node::reply::{Fault, FaultKind, Reply, ReplyTo};
use crate::node::trust::{trusted, unlisted};
use crate::rules::Tick;
use crate::rules::doubt::Trust;
use crate::rules::handover::Stamp;
use crate::words::harmless;

impl Batcher {
    /// Takes note of who has the script. Returns why the generation must end, if it must.
    pub(super) fn confirm(&mut self, confirmation: Confirmation) -> Option<String> {
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
    pub(super) async fn land_in_order(&mut self, landed: Landed) -> Option<String> {
        let mut ended = None;
        // However many came before, most of them have been looked at: what counts is whether any
        // waits still.
        self.messages.start_again();
        self.asked = false;
        while ended.is_none() && !self.messages.are_enough() {
            // Whatever else this task has done in this turn: Tokio would let it look as if there
            // was none.
            let event = poll_fn(|context| Poll::Ready(self.wire.poll_event(context)));
            let Poll::Ready(event) = unconstrained(event).await else {
                self.asked = true;
                break;
            };
            ended = self.happened(event);
        }
        self.overtaken = self.messages.are_enough();
        let landed = self.land(landed);
        ended.or(landed)
    }

    /// A message came.
    pub(super) fn heard(&mut self, text: &str) {
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
    pub(super) fn land(&mut self, landed: Landed) -> Option<String> {
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
                self.answer(jobs, sent, received, &value)
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
            return self.answer(jobs, sent, received, &value);
        }
        let why = "another server answers at this address";
        self.fail_all(jobs, &Fault::new(FaultKind::Closed, why));
        Some(why.to_owned())
    }

    fn answer(&self, jobs: Vec<Job>, sent: Tick, received: Tick, value: &Value) -> Option<String> {
        let Some(script::Returned { time, unheard, mut replies }) = script::returned(value, jobs.len()) else {
            self.fail_all(jobs, &script::garbled());
            return None;
        };
        if let Some(why) = unheard {
            self.shared.without_hints(&harmless(&why));
        }
        let (trust, uncounted) = self.observe(time, sent, received);
        let mut ended = None;
        for job in jobs {
            let reply = replies.next(&job.request.operation, &self.run);
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

    pub(super) fn fail_all(&self, jobs: Vec<Job>, fault: &Fault) {
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
    pub(super) fn let_it_look(&self) {
        let now = self.shared.host.now();
        let due = self.shared.state().looks.due(now);
        if let Some(steps) = due {
            let reply = ReplyTo::new(self.shared.index, Arc::new(Looking(self.shared.clone(), steps)));
            self.shared.enqueue(Request { operation: Arc::new(Operation::Record), reply });
        }
    }
}

fn demoted(reply: &Reply) -> bool {
    matches!(reply, Err(fault) if fault.to_string().starts_with("READONLY"))
}
