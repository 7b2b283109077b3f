//! Hands out replies to script calls: which of them count, and what they tell of the node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use super::decode;
use super::looks::Looking;
use super::transport::Value;
use super::{Job, Shared};
use crate::node::Request;
use crate::node::operation::Operation;
use crate::node::reply::{Fault, FaultKind, Reply, ReplyTo};
use crate::node::trust::{trusted, unlisted};
use crate::rules::doubt::Trust;
use crate::rules::handover::Stamp;
use crate::rules::{RestartGuard, Tick};
use crate::words::harmless;

/// The answers of one generation.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) shared: Arc<Shared>,
    /// Which connection to this node it is.
    pub(super) generation: u64,
    /// What the script calls the server.
    pub(super) run: String,
    /// How many answers in a row did not come in time.
    timeouts: AtomicU32,
    /// The last answer may have overtaken messages that were received before it, and wait still.
    overtook: AtomicBool,
}

impl Answers {
    pub(super) const fn new(shared: Arc<Shared>, generation: u64, run: String) -> Self {
        let (timeouts, overtook) = (AtomicU32::new(0), AtomicBool::new(false));
        Self { shared, generation, run, timeouts, overtook }
    }

    /// Hands out replies. Returns why the generation must end, if it must.
    pub(super) fn answer(&self, jobs: Vec<Job>, sent: Tick, received: Tick, value: &Value) -> Option<String> {
        self.in_time();
        let Some(decode::Returned { time, unheard, mut replies }) = decode::returned(value, jobs.len()) else {
            self.fail_all(jobs, &decode::garbled());
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
        self.observed(received, Some(received.since(sent)), |guard| guard.observe(time, sent, received))
    }

    /// Whether a push with this time counts: it tells of the node's clock as replies do.
    pub(super) fn observe_push(&self, time: Duration) -> bool {
        let received = self.shared.host.now();
        let (trust, uncounted) = self.observed(received, None, |guard| guard.observe_push(time, received));
        trust.grants && uncounted.is_none() && !self.overtook.load(Relaxed)
    }

    /// An answer is handed out: whether it may overtake messages that were received before it.
    pub(super) fn comes(&self, overtakes: bool) {
        self.overtook.store(overtakes, Relaxed);
    }

    /// Which votes count at `received`, once the guard was told a time of the node's clock: `look`
    /// returns whether that shows a step. And why they do not, if the server was not enrolled
    /// lately enough for them.
    fn observed(
        &self,
        received: Tick,
        round_trip: Option<Duration>,
        look: impl FnOnce(&mut RestartGuard) -> bool,
    ) -> (Trust, Option<String>) {
        let mut state = self.shared.state();
        state.round_trip = round_trip.or(state.round_trip);
        let stepped = look(&mut state.guard);
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
    pub(super) fn replica(&self, reply: &Reply) -> Option<String> {
        if !demoted(reply) {
            return None;
        }
        self.shared.state().guard.demoted();
        Some("it has become a replica".to_owned())
    }

    pub(super) fn deliver(&self, job: Job, received: Tick, reply: Reply) {
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

    /// An answer came.
    pub(super) fn in_time(&self) {
        self.timeouts.store(0, Relaxed);
    }

    /// An answer is an error, or did not come. Returns how many in a row did not come in time.
    pub(super) fn count(&self, fault: &Fault) -> u32 {
        if fault.kind() == FaultKind::Timeout {
            return self.timeouts.fetch_add(1, Relaxed) + 1;
        }
        self.in_time();
        0
    }

    /// Takes note of whether the clock was stepped, and whether the node is quarantined.
    pub(super) fn note(&self, stepped: bool, quarantined: bool) {
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
