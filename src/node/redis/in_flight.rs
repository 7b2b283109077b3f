//! Commands that were sent, and their results.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use futures::FutureExt;

use super::Job;
use super::transport::{Answer, Value};
use crate::host::Host;
use crate::node::reply::{Fault, FaultKind};
use crate::rules::Tick;

/// A command that waits for its reply. If this value is dropped, its jobs get the fault `Closed`.
pub(super) struct InFlight {
    pub(super) what: What,
    pub(super) sent: Tick,
    pub(super) answer: Answer<Value>,
}

/// The purpose of a command.
pub(super) enum What {
    /// Carries out jobs of one script. The call names the script by its digest.
    Batch(Vec<Job>),
    /// Carries out the same jobs after the error NOSCRIPT. The call contains the whole script.
    Again(Vec<Job>),
    /// Reads a page of names for one job.
    Page(Vec<Job>),
    /// Reads INFO, to check that the server is still the same and still a master.
    Probe,
}

/// A command with its reply, or with a fault.
pub(super) struct Completed {
    pub(super) what: What,
    pub(super) sent: Tick,
    pub(super) received: Tick,
    pub(super) result: Result<Value, Fault>,
}

/// The commands that wait for their replies, in the order in which they were sent. A server replies
/// in this order, so the first command usually ends next. There are few commands, so each poll
/// checks all of them.
#[derive(Default)]
pub(super) struct InFlightQueue(VecDeque<InFlight>);

impl InFlightQueue {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn push(&mut self, flight: InFlight) {
        self.0.push_back(flight);
    }

    /// When the oldest command was sent.
    pub(super) fn first(&self) -> Option<Tick> {
        self.0.iter().map(|flight| flight.sent).min()
    }

    /// Removes a command that has timed out, if there is one.
    pub(super) fn give_up(&mut self, sent_by: impl Fn(Tick) -> bool, now: Tick) -> Option<Completed> {
        let at = self.0.iter().position(|flight| sent_by(flight.sent))?;
        let InFlight { what, sent, .. } = self.0.remove(at)?;
        let result = Err(Fault::new(FaultKind::Timeout, "no answer in time"));
        Some(Completed { what, sent, received: now, result })
    }

    /// Returns the next command whose reply has come. Stays pending if no command is in flight.
    pub(super) fn poll_landed(&mut self, host: &dyn Host, context: &mut Context<'_>) -> Poll<Completed> {
        for at in 0..self.0.len() {
            if let Poll::Ready(result) = self.0[at].answer.poll_unpin(context) {
                let received = host.now();
                let landed = |InFlight { what, sent, .. }| Completed { what, sent, received, result };
                return self.0.remove(at).map_or(Poll::Pending, |flight| Poll::Ready(landed(flight)));
            }
        }
        Poll::Pending
    }
}
