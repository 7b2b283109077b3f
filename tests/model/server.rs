//! One node of the model: the store of the real memory node, a clock in ticks, and the number of
//! its process.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use quorumlock::node::memory::Store;
use quorumlock::node::operation::{Hello, Intent, OldAtOnce};
use quorumlock::node::{HandedOver, Inspection, Operation, Outcome};
use quorumlock::rules::list::{List, Record};

use crate::scope::{TICK, Ticks};

/// How long nodes have been up when a run begins: longer than any doubt lasts.
const UP: Ticks = 1_000;

/// The list of all hellos. The model's claims name no list.
static LIST: LazyLock<Arc<List>> = LazyLock::new(|| Arc::new(List::new("it", ["node"], TICK * 100)));

#[derive(Clone, Debug)]
pub struct Server {
    store: Store,
    /// The last inspection of the name, and its time. If no client waits, two nodes with the same
    /// inspection are equal. Their stores may differ only in the time at which they forget a fence.
    /// This time is long after the last moment of the model.
    says: Option<(Inspection, Duration)>,
    /// The number of the node's process.
    pub epoch: u8,
    /// When the record was made, by the node's own clock.
    born: Ticks,
    ahead: Ticks,
    /// Whether waiters and revocations matter, so that whole stores must be compared.
    whole: bool,
}

type Says<'a> = (&'a Option<String>, Option<Duration>, [u64; 3]);
type Seen<'a> = (Option<&'a Store>, Option<Says<'a>>, (u64, u64), u8, Ticks, Ticks);

impl Server {
    pub fn new(whole: bool) -> Self {
        let mut server = Self { store: Store::default(), says: None, epoch: 0, born: 0, ahead: 0, whole };
        server.hello(Some(OldAtOnce::Init), 0);
        server
    }

    /// The node's TIME.
    pub fn time(&self, now: Ticks) -> Duration {
        TICK * (UP + now + self.ahead).unsigned_abs()
    }

    /// The node's process, as INFO shows it.
    pub fn process(&self) -> Arc<str> {
        self.epoch.to_string().into()
    }

    /// A client says hello. This makes a missing record, and syncs the node with ballot 0: wall
    /// clocks agree here, so the node cannot have forgotten a ballot that matters.
    pub fn hello(&mut self, old: Option<OldAtOnce>, now: Ticks) -> Option<Record> {
        let (new, process) = (self.process(), self.process());
        let (list, knew, seen) = (LIST.clone(), None, Vec::new());
        let hello = Hello { intent: Intent::Make, new, process, list, old, knew, sync: Some(0), seen };
        match self.store.apply(&hello.into(), self.time(now)) {
            Outcome::Hello(record) => {
                let is_new = record.as_ref().is_some_and(|record| record.age.is_zero());
                self.born = if is_new { UP + now + self.ahead } else { self.born };
                record
            }
            other => unreachable!("a hello is answered by one, and not by {other}"),
        }
    }

    /// Carries out an operation. Returns the outcome, and the hand-overs that the node publishes.
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

    /// Replaces the process by a new one that remembers nothing.
    pub fn crash(&mut self) {
        let (epoch, ahead, whole) = (self.epoch + 1, self.ahead, self.whole);
        *self = Self { store: Store::default(), says: None, epoch, born: 0, ahead, whole };
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
