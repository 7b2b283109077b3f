//! One simulated Redis: what it stores, its clock, and what it remembers of itself after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::memory::Store;
use quorumlock::node::{Hint, Name, Operation, Outcome, Verb};

use crate::judge::history::{Memory, Micros, SECOND};

/// What servers' clocks show when a run begins, as processes' wall clocks do, and when they were
/// started.
const EPOCH: u64 = crate::process::EPOCH as u64;
const BORN: u64 = EPOCH - 100_000_000_000;

#[derive(Debug)]
pub struct Server {
    node: usize,
    pub region: usize,
    store: Store,
    snapshot: Store,
    rate: u64,
    stepped: i64,
    /// When its clock was last stepped.
    pub stepped_at: Option<Micros>,
    born: u64,
    /// When it last restarted.
    pub started_at: Option<Micros>,
    /// Which process answers: part of the run id.
    pub epoch: u32,
    pub down: bool,
    pub hung: bool,
    /// The digests of the scripts that it knows.
    pub scripts: BTreeSet<u64>,
    /// Those that it knows for one process only: see [`Server::load`].
    misled: BTreeSet<(u64, usize)>,
    /// Who listens to each channel: connections.
    pub subscribers: BTreeMap<String, BTreeSet<usize>>,
}

impl Server {
    pub fn new(node: usize, region: usize, rate: u64) -> Self {
        let (store, snapshot) = (Store::default(), Store::default());
        Self {
            node,
            region,
            store,
            snapshot,
            rate,
            stepped: 0,
            stepped_at: None,
            born: BORN,
            started_at: None,
            epoch: 0,
            down: false,
            hung: false,
            scripts: BTreeSet::new(),
            misled: BTreeSet::new(),
            subscribers: BTreeMap::new(),
        }
    }

    fn clock(&self, now: Micros) -> u64 {
        (EPOCH + now / 1_000_000 * self.rate + now % 1_000_000 * self.rate / 1_000_000)
            .saturating_add_signed(self.stepped)
    }

    /// The server's TIME.
    pub fn time(&self, now: Micros) -> Duration {
        Duration::from_micros(self.clock(now))
    }

    /// The difference of two times by the server's wall clock, each rounded down to whole seconds.
    /// It is negative where the clock was set back behind the server's start.
    fn uptime(&self, now: Micros) -> i64 {
        (self.clock(now) / SECOND) as i64 - (self.born / SECOND) as i64
    }

    pub fn run_id(&self) -> String {
        format!("{:020x}{:020x}", self.node, self.epoch)
    }

    /// The reply to INFO.
    pub fn info(&self, now: Micros) -> String {
        let (Self { node, epoch, .. }, run) = (self, self.run_id());
        let (uptime, time) = (self.uptime(now), self.clock(now));
        format!(
            "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:{run}\r\n\
             server_time_usec:{time}\r\nuptime_in_seconds:{uptime}\r\n\
             # Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n\
             # Replication\r\nrole:master\r\nmaster_replid:{epoch:020x}{node:020x}\r\nmaster_replid2:{:040}\r\n",
            0
        )
    }

    /// SCRIPT LOAD by a process that has `met` a server's process on this connection, or another
    /// one before it. The script of another one is known here for who loaded it, and not for
    /// everybody: that is the one hole of servers that are replaced behind open connections, in the
    /// words of guard.rs "a server that takes over behind open connections (a proxy) in the same
    /// round trip in which another client connects to the old one and loads the script for it".
    /// Random worlds meet it once in some ten thousand.
    pub fn load(&mut self, digest: u64, process: usize, met: Option<u32>) {
        if met.is_none_or(|met| met == self.epoch) {
            self.scripts.insert(digest);
        } else {
            self.misled.insert((digest, process));
        }
    }

    pub fn knows(&self, digest: u64, process: usize) -> bool {
        self.scripts.contains(&digest) || self.misled.contains(&(digest, process))
    }

    /// Carries it out; `hears` says whether a connection that has subscribed still exists.
    pub fn apply(
        &mut self,
        operation: &Operation,
        now: Micros,
        channel: &str,
        hears: impl Fn(usize) -> bool,
    ) -> Outcome {
        let (time, subscribers) = (self.time(now), &self.subscribers);
        let listeners = |client: &str| subscribers.get(&format!("{channel}{client}"));
        let hears = |client: &str| listeners(client).is_some_and(|all| all.iter().any(|&who| hears(who)));
        self.store.apply_heard(operation, time, &hears)
    }

    pub fn hints(&mut self) -> Vec<Hint> {
        self.store.hints()
    }

    pub fn news(&mut self) -> Vec<Name> {
        self.store.news()
    }

    pub fn is_idle(&self, now: Micros) -> bool {
        self.store.is_idle(self.time(now))
    }

    /// Whether somebody is still in line whom the operation took out of it.
    pub fn keeps_place(&self, operation: &Operation, outcome: &Outcome, now: Micros) -> bool {
        let leaves = match outcome {
            Outcome::Granted { .. } => true,
            Outcome::Released { .. } => operation.verb() == Verb::Release,
            _ => false,
        };
        let waits = |owner: &Arc<str>, name| self.store.waits(name, owner, self.time(now));
        leaves && operation.owner().is_some_and(|owner| operation.names().iter().any(|name| waits(owner, name)))
    }

    /// In how long a name is free for the first that waits for it, and who waits, of those that live.
    pub fn waited_for(
        &self,
        name: &Name,
        now: Micros,
        channel: &str,
        hears: impl Fn(usize) -> bool,
    ) -> (Micros, Vec<Arc<str>>) {
        let listeners = |client: &str| self.subscribers.get(&format!("{channel}{client}"));
        let hears = |client: &str| listeners(client).is_some_and(|all| all.iter().any(|&who| hears(who)));
        let (left, live) = self.store.waited_for(name, self.time(now), &hears);
        (left.as_micros() as u64 * 1_000_000 / self.rate, live)
    }

    pub fn is_free(&self, now: Micros) -> bool {
        self.store.is_free(self.time(now))
    }

    pub fn step_clock(&mut self, now: Micros, by_ms: i64) {
        self.stepped_at = Some(now);
        self.stepped += by_ms * 1_000;
        self.store.expire_all(self.time(now));
    }

    /// Whether its process is known to have forgotten no ballot.
    pub fn taught(&self, now: Micros) -> bool {
        let told = self.store.clone().apply(&Operation::Record, self.time(now));
        matches!(told, Outcome::Record { taught: true, .. })
    }

    /// What an old copy on disk holds from now on.
    pub fn save(&mut self) {
        self.snapshot = self.store.clone();
    }

    pub fn crash(&mut self, memory: Memory) {
        self.down = true;
        self.hung = false;
        self.epoch += 1;
        self.scripts.clear();
        self.misled.clear();
        self.subscribers.clear();
        match memory {
            Memory::Kept => {}
            Memory::Empty => self.store = Store::default(),
            Memory::Old => self.store = self.snapshot.clone(),
        }
        self.store.restarted();
    }

    pub fn start(&mut self, now: Micros) {
        self.down = false;
        self.born = self.clock(now);
        self.started_at = Some(now);
    }
}
