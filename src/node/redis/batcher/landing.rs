//! What came back: whose replies count, and in which order they are handed out.

use std::future::poll_fn;
use std::task::Poll;

use tokio::task::coop::unconstrained;

use super::{Batcher, TIMEOUTS};
use crate::node::redis::admission::{Server, during, parse};
use crate::node::redis::decode;
use crate::node::redis::flight::{Confirmation, Landed, What};
use crate::node::redis::transport::Value;
use crate::node::redis::{Job, scan};
use crate::node::reply::{Fault, FaultKind};
use crate::rules::Tick;

impl Batcher {
    /// Takes note of who has the scripts. Returns why the generation must end, if it must.
    pub(super) fn confirm(&mut self, confirmation: Confirmation) -> Option<String> {
        let Confirmation { digests, info, sent, received } = confirmation;
        let digests = digests.map_err(during("SCRIPT LOAD"));
        let both = digests.and_then(|digests| Ok((digests, info.map_err(during("INFO"))?)));
        match both.map(|(digests, info)| (digests, parse(&info))) {
            Ok((digests, Some(server))) => {
                // Where it has another name for a script, that is the right one.
                for (digest, told) in self.digests.iter_mut().zip(&digests).filter(|_| self.loads) {
                    told.text().into_iter().for_each(|told| told.clone_into(digest));
                }
                self.wire.rename(&self.digests);
                let ended = self.compared(sent, received, server);
                self.answered = ended.is_none();
                self.unprobed = Some(received).filter(|_| self.answered);
                ended
            }
            Ok((_, None)) => Some(decode::garbled().to_string()),
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
        self.answers.comes(self.messages.are_enough());
        let landed = self.land(landed);
        ended.or(landed)
    }

    /// A message came.
    pub(super) fn heard(&mut self, text: &str) {
        let Some(mut hint) = self.messages.take(text) else { return };
        if let Some(granted) = &mut hint.granted {
            granted.stamp.generation = self.answers.generation;
            granted.counts = self.answers.observe_push(granted.stamp.time);
        }
        self.shared.settings.listener.hint(self.shared.index, &hint);
    }

    /// Hands out replies. Returns why the generation must end, if it must.
    pub(super) fn land(&mut self, landed: Landed) -> Option<String> {
        let Landed { what, sent, received, result } = landed;
        match (what, result) {
            (What::Batch(jobs), Err(fault)) if fault.to_string().starts_with("NOSCRIPT") => {
                self.again(jobs, sent);
                None
            }
            (What::Batch(jobs) | What::Again(jobs) | What::Verify(jobs, ..) | What::Page(jobs), Err(fault)) => {
                let reply = Err(fault.clone());
                let ended = self.count(&fault).or_else(|| self.answers.replica(&reply));
                self.answers.fail_all(jobs, &fault);
                ended
            }
            (What::Batch(jobs), Ok(value)) => self.answers.answer(jobs, sent, received, &value),
            (What::Again(jobs), Ok(value)) => {
                self.verify(jobs, value, sent);
                None
            }
            (What::Verify(jobs, value), Ok(info)) => self.verified(jobs, value, sent, received, &info),
            (What::Page(jobs), Ok(value)) => {
                self.answers.in_time();
                jobs.into_iter().for_each(|job| self.answers.deliver(job, received, scan::read(&value)));
                None
            }
            (What::Probe, Ok(info)) => {
                self.answers.in_time();
                self.shared.state().probing.kept();
                self.probed(sent, received, &info)
            }
            (What::Probe, Err(fault)) => self.count(&fault),
            (What::Load, _) => {
                self.loading = self.loading.saturating_sub(1);
                None
            }
        }
    }

    fn verified(&mut self, jobs: Vec<Job>, value: Value, sent: Tick, received: Tick, info: &Value) -> Option<String> {
        self.answers.in_time();
        if parse(info).is_some_and(|server| server.continues(&self.lineage)) {
            self.load_again();
            return self.answers.answer(jobs, sent, received, &value);
        }
        let why = "another server answers at this address";
        self.answers.fail_all(jobs, &Fault::new(FaultKind::Closed, why));
        Some(why.to_owned())
    }

    fn count(&self, fault: &Fault) -> Option<String> {
        let timeouts = self.answers.count(fault);
        (timeouts >= TIMEOUTS).then(|| format!("{TIMEOUTS} answers in a row did not come in time"))
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
        // The scripts that are loaded have the old words, in which the node would say that it was
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
        self.answers.note(stepped, quarantined);
        self.shared.tell_doubt(doubted);
    }
}
