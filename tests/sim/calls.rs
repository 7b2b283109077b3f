//! The calls of one connection that have no answer yet.

use std::collections::VecDeque;

use futures::channel::oneshot;
use quorumlock::node::redis::transport::Value;
use quorumlock::node::{Fault, FaultKind};

use crate::judge::history::Micros;

pub type Reply = Result<Value, Fault>;

/// The open calls, in the order in which they were sent. If the connection ends, these calls end
/// without an answer.
#[derive(Debug, Default)]
pub struct Calls {
    open: VecDeque<Call>,
    first: u64,
}

#[derive(Debug)]
struct Call {
    due: Micros,
    /// The way to the caller; `None` once the call has its answer or its time is over.
    reply: Option<oneshot::Sender<Reply>>,
}

impl Calls {
    /// Adds a call. Returns its number, and a receiver for its answer.
    pub fn push(&mut self, due: Micros) -> (u64, oneshot::Receiver<Reply>) {
        let (sender, receiver) = oneshot::channel();
        self.open.push_back(Call { due, reply: Some(sender) });
        (self.first + self.open.len() as u64 - 1, receiver)
    }

    /// Passes an answer to its call. If that call is over, drops the answer.
    pub fn answer(&mut self, number: u64, reply: Reply) {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let call = index.and_then(|index| self.open.get_mut(index));
        if let Some(sender) = call.and_then(|call| call.reply.take()) {
            let _ = sender.send(reply);
        }
        self.forget();
    }

    /// Ends the calls whose answer is overdue. Returns when the next answer will be overdue.
    pub fn expire(&mut self, now: Micros) -> Option<Micros> {
        for call in self.open.iter_mut().filter(|call| call.due <= now) {
            if let Some(sender) = call.reply.take() {
                let _ = sender.send(Err(Fault::new(FaultKind::Timeout, "no answer in time")));
            }
        }
        self.forget();
        self.open.iter().filter(|call| call.reply.is_some()).map(|call| call.due).min()
    }

    /// Ends all calls without an answer.
    pub fn clear(&mut self) {
        self.first += self.open.len() as u64;
        self.open.clear();
    }

    fn forget(&mut self) {
        while self.open.front().is_some_and(|call| call.reply.is_none()) {
            self.open.pop_front();
            self.first += 1;
        }
    }
}
