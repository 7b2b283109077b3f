//! Handles replies, faults and pushed messages, in the order in which they came.

use std::future::poll_fn;
use std::task::Poll;

use tokio::task::coop::unconstrained;

use super::Batcher;
use crate::node::redis::admission::{Server, is_unknown_script, parse};
use crate::node::redis::in_flight::{Completed, What};
use crate::node::redis::patience::TIMEOUTS;
use crate::node::redis::scan;
use crate::node::redis::transport::Value;
use crate::node::reply::Fault;
use crate::rules::Tick;

impl Batcher {
    /// Handles the messages that came before a reply, then delivers the reply. The order matters: a
    /// hand-over counts only if it was pushed after the reply to the waiter's ask. Returns a reason
    /// if the connection must end.
    pub(super) async fn land_in_order(&mut self, landed: Completed) -> Option<String> {
        let mut ended = None;
        // Count messages from zero. If this loop reaches the limit, messages that came before the
        // reply may be left unread.
        self.messages.start_again();
        while ended.is_none() && !self.messages.are_enough() {
            // Without `unconstrained`, Tokio reports no event if this task's budget is used up.
            let event = poll_fn(|context| Poll::Ready(self.connection.poll_event(context)));
            let Poll::Ready(event) = unconstrained(event).await else { break };
            ended = self.happened(event);
        }
        self.answers.overtook = self.messages.are_enough();
        let landed = self.land(landed);
        ended.or(landed)
    }

    /// Parses a pushed message and passes the hint on. Decides whether a hand-over counts.
    pub(super) fn heard(&mut self, text: &str) {
        let Some(mut hint) = self.messages.take(text) else { return };
        if let Some(granted) = &mut hint.granted {
            granted.stamp.generation = self.answers.generation;
            granted.counts = self.answers.observe_push(granted.stamp.time, &granted.record);
        }
        self.shared.settings.listener.hint(self.shared.index, &hint);
    }

    /// Delivers the replies of one command. Returns a reason if the connection must end.
    pub(super) fn land(&mut self, landed: Completed) -> Option<String> {
        let Completed { what, sent, received, result } = landed;
        match (what, result) {
            (What::Batch(jobs), Err(fault)) if is_unknown_script(&fault) => {
                self.again(jobs, sent);
                None
            }
            (What::Batch(jobs) | What::Again(jobs) | What::Page(jobs), Err(fault)) => {
                let reply = Err(fault.clone());
                let ended = self.count(&fault).or_else(|| self.answers.replica(&reply));
                self.answers.fail_all(jobs, &fault);
                ended
            }
            (What::Batch(jobs) | What::Again(jobs), Ok(value)) => self.answers.answer(jobs, sent, received, &value),
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
        }
    }

    fn count(&mut self, fault: &Fault) -> Option<String> {
        let timeouts = self.answers.count(fault);
        (timeouts >= TIMEOUTS).then(|| format!("{TIMEOUTS} answers in a row did not come in time"))
    }

    /// Checks that the server is still the same, and still a master. Returns a reason if the
    /// connection must end.
    fn probed(&self, sent: Tick, received: Tick, value: &Value) -> Option<String> {
        let server = parse(value)?;
        if server.run_id != self.run_id {
            return Some("another server answers at this address".to_owned());
        }
        if !server.master {
            self.shared.state().guard.demoted();
            return Some("the server has become a replica".to_owned());
        }
        self.keep(server, sent, received);
        None
    }

    fn keep(&self, server: Server, sent: Tick, received: Tick) {
        let mut state = self.shared.state();
        state.round_trip = Some(received.since(sent));
        state.guard.meets_process(&server.process);
        server.time.into_iter().for_each(|time| _ = state.guard.observe(time, sent, received));
        let quarantined = state.guard.quarantined(received).is_some();
        state.server = Some(server);
        let doubted = state.guard.take_news();
        drop(state);
        self.shared.meters.quarantined(quarantined);
        self.shared.tell_doubt(doubted, false);
    }
}
