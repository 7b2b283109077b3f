//! One node of the model: the real memory node's store, its clock in ticks, and which process it
//! is.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use quorumlock::node::memory::Store;
use quorumlock::node::{HandedOver, Inspection, Operation, Outcome};

use crate::scope::{TICK, Ticks};

/// How long nodes have been up when a run begins: longer than any doubt lasts.
const UP: Ticks = 1_000;

#[derive(Clone, Debug)]
pub struct Server {
    store: Store,
    /// What the store says of the name, and when that was. Two nodes that say the same are the same
    /// if nobody waits: the store also knows when it will forget a fence, which is long after the last moment
    /// here.
    says: Option<(Inspection, Duration)>,
    /// Which process this is.
    pub epoch: u8,
    born: Ticks,
    ahead: Ticks,
    /// Whether it matters who waits and who was revoked.
    whole: bool,
}

type Says<'a> = (&'a Option<String>, Option<Duration>, [u64; 3]);
type Seen<'a> = (Option<&'a Store>, Option<Says<'a>>, (u64, u64), u8, Ticks, Ticks);

impl Server {
    pub fn new(whole: bool) -> Self {
        Self { store: Store::default(), says: None, epoch: 0, born: 0, ahead: 0, whole }
    }

    /// One that is known to have forgotten nothing.
    pub fn taught() -> Self {
        let mut server = Self::new(true);
        server.apply(&Operation::teach(0, 0), 0);
        server
    }

    /// The node's TIME.
    pub fn time(&self, now: Ticks) -> Duration {
        TICK * (UP + now + self.ahead).unsigned_abs()
    }

    /// As in INFO: by the node's own clock, in whole seconds.
    pub fn uptime(&self, now: Ticks) -> Duration {
        Duration::from_secs(self.time(now).saturating_sub(TICK * self.born.unsigned_abs()).as_secs())
    }

    /// Carries out an operation. What it hands over with that is published.
    pub fn apply(&mut self, operation: &Operation, now: Ticks) -> (Outcome, Vec<HandedOver>) {
        let time = self.time(now);
        let outcome = self.store.apply(operation, time);
        let published = self.store.hints().into_iter().filter_map(|hint| hint.granted).collect();
        let look = Operation::Inspect(operation.names().into());
        if let Outcome::Inspected(mut entries) = self.store.apply(&look, time)
            && !entries.is_empty()
        {
            self.says = entries.pop().map(|entry| (entry, time));
        }
        (outcome, published)
    }

    /// Another process, which remembers nothing.
    pub fn crash(&mut self, now: Ticks) {
        *self = Self { epoch: self.epoch + 1, born: UP + now + self.ahead, ahead: self.ahead, ..Self::new(self.whole) };
    }

    pub fn step(&mut self, by: Ticks) {
        self.ahead += by;
    }

    fn seen(&self) -> Seen<'_> {
        let says = self.says.as_ref().map(|(entry, at)| {
            let until = entry.remaining.map(|left| *at + left);
            (&entry.holder, until, [entry.fence, entry.ballot, entry.over])
        });
        (self.whole.then_some(&self.store), says, self.store.bounds(), self.epoch, self.born, self.ahead)
    }
}

impl PartialEq for Server {
    fn eq(&self, other: &Self) -> bool {
        self.seen() == other.seen()
    }
}

impl Eq for Server {}

impl Hash for Server {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.seen().hash(state);
    }
}
