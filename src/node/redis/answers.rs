//! Delivers the replies to script calls. Decides which votes in the replies count, and notes the
//! node's record and clock.

use std::sync::Arc;
use std::time::Duration;

use super::decode;
use super::transport::Value;
use super::{Job, Shared};
use crate::node::operation::Verb;
use crate::node::reply::{Fault, FaultKind, Outcome, Reply};
use crate::node::trust::{of_another_record, trusted};
use crate::rules::doubt::Trust;
use crate::rules::handover::Stamp;
use crate::rules::list::Record;
use crate::rules::{RestartGuard, Tick};
use crate::words::harmless;

/// Handles the replies of one connection.
#[derive(Debug)]
pub(super) struct Answers {
    shared: Arc<Shared>,
    /// The number of this connection. The node's first connection has the number 1.
    pub(super) generation: u64,
    /// How many commands in a row have timed out.
    timeouts: u32,
    /// Whether some messages that came before the last reply may be unhandled.
    pub(super) overtook: bool,
}

impl Answers {
    pub(super) const fn new(shared: Arc<Shared>, generation: u64) -> Self {
        Self { shared, generation, timeouts: 0, overtook: false }
    }

    /// Delivers the replies of one call. Returns a reason if the connection must end.
    pub(super) fn answer(&mut self, jobs: Vec<Job>, sent: Tick, received: Tick, value: &Value) -> Option<String> {
        self.in_time();
        let Some(decode::Returned { time, id, unheard, mut replies }) = decode::returned(value, jobs.len()) else {
            self.fail_all(jobs, &decode::garbled());
            return None;
        };
        if let Some(why) = unheard {
            self.shared.without_hints(&harmless(&why));
        }
        let greets = jobs.iter().any(|job| job.request.operation.verb() == Verb::Hello);
        let shown = if greets { Shown::WholeRecord } else { Shown::Id(id) };
        let seen = self.observe(time, shown, sent, received);
        let (mut ended, mut asks) = (None, false);
        for job in jobs {
            let reply = replies.next(&job.request.operation);
            match &reply {
                Ok(Outcome::Hello(record)) => self.heard(record.as_ref(), sent, received),
                Err(fault) if greets => self.shared.state().unreadable = Some(fault.to_string()),
                _ => {}
            }
            let reply = if seen.same_record { reply } else { of_another_record(reply) };
            let mut reply = trusted(reply, seen.trust);
            if let Ok(outcome) = &mut reply {
                outcome.stamped(Stamp { generation: self.generation, time });
            }
            if let Ok(Outcome::Granted { fence }) = reply {
                self.shared.state().guard.granted(fence, received);
            }
            asks |= matches!(reply, Ok(Outcome::Forgot | Outcome::NoList | Outcome::OtherList { .. }));
            ended = self.replica(&reply).or(ended);
            self.deliver(job, received, reply);
        }
        if asks || !seen.same_record {
            self.reread(received);
        }
        ended
    }

    /// Stores the node's record from the reply to a hello.
    fn heard(&self, record: Option<&Record>, sent: Tick, received: Tick) {
        let mut state = self.shared.state();
        let is_told = state.heard(record, sent, received);
        let quarantined = state.guard.quarantined(received).is_some();
        let doubted = state.guard.take_news();
        let is_over = !quarantined && std::mem::take(&mut state.warned);
        drop(state);
        if is_over {
            tracing::warn!(node = %self.shared.label, "the quarantine is over");
        }
        self.shared.meters.quarantined(quarantined);
        self.shared.tell_doubt(doubted, is_told);
        self.shared.settings.listener.heard(self.shared.index);
    }

    /// Decides which votes of one call count. `time` is the node's time in the reply, which shows
    /// whether the node's clock was stepped.
    fn observe(&self, time: Duration, shown: Shown<'_>, sent: Tick, received: Tick) -> Seen {
        self.observed(received, Some(received.since(sent)), shown, |guard| guard.observe(time, sent, received))
    }

    /// Whether a push counts as a vote. `time` is the node's time in the push, and `id` its record.
    /// The push does not count if a reply that the node sent later may have been handled before the
    /// push.
    pub(super) fn observe_push(&self, time: Duration, id: &str) -> bool {
        let received = self.shared.host.now();
        let seen = self.observed(received, None, Shown::Id(Some(id)), |guard| guard.observe_push(time, received));
        if !seen.same_record {
            self.reread(received);
        }
        seen.same_record && seen.trust.grants && !self.overtook
    }

    /// Asks for a hello, because the node contradicts the record that this client knows.
    fn reread(&self, received: Tick) {
        self.shared.state().stale = Some(received);
        self.shared.settings.listener.heard(self.shared.index);
    }

    /// Decides which votes count at `received`. `look` passes the node's time to the restart guard,
    /// and returns whether the node's clock was stepped.
    fn observed(
        &self,
        received: Tick,
        round_trip: Option<Duration>,
        shown: Shown<'_>,
        look: impl FnOnce(&mut RestartGuard) -> bool,
    ) -> Seen {
        let mut state = self.shared.state();
        state.round_trip = round_trip.or(state.round_trip);
        let stepped = look(&mut state.guard);
        let same_record = match shown {
            Shown::Id(id) => state.guard.showed(id, received),
            Shown::WholeRecord => true,
        };
        let Trust { grants, extensions } = state.guard.trust(received);
        let grants = grants && state.standing.counts(received);
        let extensions = extensions && state.standing.renews();
        let doubted = state.guard.take_news();
        // Log a loss once: until a hello shows the new record, each reply shows the same loss.
        let is_told = !same_record && state.tell_loss() && !stepped;
        drop(state);
        if stepped {
            self.shared.meters.quarantined(!grants);
        }
        self.shared.tell_doubt(doubted, is_told);
        Seen { trust: Trust { grants, extensions }, same_record }
    }

    /// Returns a reason to end the connection if the reply shows that the server is now a replica.
    pub(super) fn replica(&self, reply: &Reply) -> Option<String> {
        if !demoted(reply) {
            return None;
        }
        self.shared.state().guard.demoted();
        Some("the server has become a replica".to_owned())
    }

    pub(super) fn deliver(&self, job: Job, received: Tick, reply: Reply) {
        let Job { request, submitted, .. } = job;
        let verb = request.operation.verb();
        self.shared.meters.round_trip(received.since(submitted));
        self.shared.meters.answered(verb, reply.as_ref().map_err(Fault::kind));
        request.reply.send(reply);
    }

    /// Delivers the fault of a whole call.
    pub(super) fn fail_all(&self, jobs: Vec<Job>, fault: &Fault) {
        for job in jobs {
            if job.request.operation.verb() == Verb::Hello && fault.kind() == FaultKind::Rejected {
                self.shared.state().unreadable = Some(fault.to_string());
            }
            self.shared.fail(job.request, fault.clone());
        }
    }

    pub(super) const fn in_time(&mut self) {
        self.timeouts = 0;
    }

    /// Counts a failed command. Returns how many commands in a row have timed out.
    pub(super) fn count(&mut self, fault: &Fault) -> u32 {
        if fault.kind() == FaultKind::Timeout {
            self.timeouts += 1;
            return self.timeouts;
        }
        self.in_time();
        0
    }
}

/// What a reply or a push shows about the node's record.
#[derive(Clone, Copy, Debug)]
enum Shown<'a> {
    /// The record's id; `None` if the node has no record.
    Id(Option<&'a str>),
    /// The reply to a hello shows the whole record, so no id is compared.
    WholeRecord,
}

/// Which votes count, and whether the node still has the record that the client knows.
struct Seen {
    trust: Trust,
    same_record: bool,
}

fn demoted(reply: &Reply) -> bool {
    matches!(reply, Err(fault) if fault.to_string().starts_with("READONLY"))
}
