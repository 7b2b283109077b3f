//! One simulated Redis: what it stores, its clock, and what it remembers of itself after a crash.

use std::time::Duration;

use quorumlock::node::memory::Store;
use quorumlock::node::{Hint, Operation, Outcome, Stance};

use crate::judge::history::{Memory, Micros, SECOND};

/// How long servers have been up when a run begins.
const UP: u64 = 100_000_000_000;

#[derive(Debug)]
pub struct Server {
    pub region: usize,
    store: Store,
    snapshot: Store,
    rate: u64,
    stepped: i64,
    /// When its clock was last stepped.
    pub stepped_at: Option<Micros>,
    born: u64,
    /// Which process answers: part of the run id.
    pub epoch: u32,
    pub down: bool,
    pub hung: bool,
}

impl Server {
    pub fn new(region: usize, rate: u64) -> Self {
        let (store, snapshot) = (Store::default(), Store::default());
        Self {
            region,
            store,
            snapshot,
            rate,
            stepped: 0,
            stepped_at: None,
            born: 0,
            epoch: 0,
            down: false,
            hung: false,
        }
    }

    fn clock(&self, now: Micros) -> u64 {
        (UP + now / 1_000_000 * self.rate + now % 1_000_000 * self.rate / 1_000_000).saturating_add_signed(self.stepped)
    }

    /// The server's TIME.
    pub fn time(&self, now: Micros) -> Duration {
        Duration::from_micros(self.clock(now))
    }

    /// As in INFO: the difference of two times by the server's wall clock, each rounded down to whole seconds.
    pub fn uptime(&self, now: Micros) -> Duration {
        Duration::from_secs((self.clock(now) / SECOND).saturating_sub(self.born / SECOND))
    }

    pub fn apply(&mut self, operation: &Operation, now: Micros) -> Outcome {
        self.store.apply(operation, self.time(now))
    }

    pub fn hints(&mut self) -> Vec<Hint> {
        self.store.hints()
    }

    pub fn is_idle(&self, now: Micros) -> bool {
        self.store.is_idle(self.time(now))
    }

    /// Whether somebody is still in line whom the operation took out of it.
    pub fn keeps_place(&self, operation: &Operation, outcome: &Outcome, now: Micros) -> bool {
        let leaves = match outcome {
            Outcome::Granted | Outcome::Passed { .. } => true,
            Outcome::Released { .. } => !matches!(operation.stance, Stance::Wait { .. }),
            _ => false,
        };
        let who = Operation::acquisition(operation.claimant());
        leaves && operation.names.iter().any(|name| self.store.waits(name, who, self.time(now)))
    }

    pub fn is_free(&self, now: Micros) -> bool {
        self.store.is_free(self.time(now))
    }

    pub fn step_clock(&mut self, now: Micros, by_ms: i64) {
        self.stepped_at = Some(now);
        self.stepped += by_ms * 1_000;
    }

    /// What an old copy on disk holds from now on.
    pub fn save(&mut self) {
        self.snapshot = self.store.clone();
    }

    pub fn crash(&mut self, memory: Memory) {
        self.down = true;
        self.hung = false;
        self.epoch += 1;
        match memory {
            Memory::Kept => {}
            Memory::Empty => self.store = Store::default(),
            Memory::Old => self.store = self.snapshot.clone(),
        }
    }

    pub fn start(&mut self, now: Micros) {
        self.down = false;
        self.born = self.clock(now);
    }
}
