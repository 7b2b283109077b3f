//! The calls of one connection that wait for their answers.

use std::collections::VecDeque;

use futures::channel::oneshot;
use quorumlock::node::redis::transport::Value;
use quorumlock::node::{Fault, FaultKind};

use crate::judge::history::Micros;

pub type Reply = Result<Value, Fault>;

/// In the order in which they were sent. Without an answer they end as those of a connection that
/// ended.
#[derive(Debug, Default)]
pub struct Calls {
    open: VecDeque<Call>,
    first: u64,
}

#[derive(Debug)]
struct Call {
    due: Micros,
    /// Who waits; nobody once it was answered.
    reply: Option<oneshot::Sender<Reply>>,
}

impl Calls {
    /// One more; returns its number, and where its answer comes.
    pub fn push(&mut self, due: Micros) -> (u64, oneshot::Receiver<Reply>) {
        let (sender, receiver) = oneshot::channel();
        self.open.push_back(Call { due, reply: Some(sender) });
        (self.first + self.open.len() as u64 - 1, receiver)
    }

    /// An answer came. That of a call which is over is for nobody.
    pub fn answer(&mut self, number: u64, reply: Reply) {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let call = index.and_then(|index| self.open.get_mut(index));
        if let Some(sender) = call.and_then(|call| call.reply.take()) {
            let _ = sender.send(reply);
        }
        self.forget();
    }

    /// Ends what is overdue; returns when to look again.
    pub fn expire(&mut self, now: Micros) -> Option<Micros> {
        for call in self.open.iter_mut().filter(|call| call.due <= now) {
            if let Some(sender) = call.reply.take() {
                let _ = sender.send(Err(Fault::new(FaultKind::Timeout, "no answer in time")));
            }
        }
        self.forget();
        self.open.iter().filter(|call| call.reply.is_some()).map(|call| call.due).min()
    }

    /// All end without an answer.
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
