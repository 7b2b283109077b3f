//! Commands that are on their way, and what came back.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use futures::FutureExt;

use super::Job;
use super::transport::{Answer, Value};
use crate::host::Host;
use crate::node::reply::{Fault, FaultKind};
use crate::rules::Tick;

/// A command on its way. Dropped, it answers its jobs that the connection ended.
pub(super) struct Flight {
    pub(super) what: What,
    pub(super) sent: Tick,
    pub(super) answer: Answer<Value>,
}

/// What a command is for.
pub(super) enum What {
    /// Carries out the jobs, which one script does.
    Batch(Vec<Job>),
    /// The same, with the whole script: the server did not know it, so nothing had run.
    Again(Vec<Job>),
    /// Asks for the page of names that one job wants.
    Page(Vec<Job>),
    /// Asks whether the server is still the same.
    Probe,
}

/// A command that came back, or did not.
pub(super) struct Landed {
    pub(super) what: What,
    pub(super) sent: Tick,
    pub(super) received: Tick,
    pub(super) result: Result<Value, Fault>,
}

/// The commands on their way, in the order in which they were sent: a server answers them in that,
/// so the first is mostly the next to land. There are so few that all can be asked.
#[derive(Default)]
pub(super) struct Flights(VecDeque<Flight>);

impl Flights {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn push(&mut self, flight: Flight) {
        self.0.push_back(flight);
    }

    /// When the first of them was sent.
    pub(super) fn first(&self) -> Option<Tick> {
        self.0.iter().map(|flight| flight.sent).min()
    }

    /// One that was sent by then, if there is any: nobody waits for its answer any more.
    pub(super) fn give_up(&mut self, sent_by: impl Fn(Tick) -> bool, now: Tick) -> Option<Landed> {
        let at = self.0.iter().position(|flight| sent_by(flight.sent))?;
        let Flight { what, sent, .. } = self.0.remove(at)?;
        let result = Err(Fault::new(FaultKind::Timeout, "no answer in time"));
        Some(Landed { what, sent, received: now, result })
    }

    /// The next that comes back. Where none is on its way, none does.
    pub(super) fn poll_landed(&mut self, host: &dyn Host, context: &mut Context<'_>) -> Poll<Landed> {
        for at in 0..self.0.len() {
            if let Poll::Ready(result) = self.0[at].answer.poll_unpin(context) {
                let received = host.now();
                let landed = |Flight { what, sent, .. }| Landed { what, sent, received, result };
                return self.0.remove(at).map_or(Poll::Pending, |flight| Poll::Ready(landed(flight)));
            }
        }
        Poll::Pending
    }
}
