//! A simulated Redis server: its data, its clock, and what it keeps over a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use quorumlock::node::memory::Store;
use quorumlock::node::operation::{Hello, Intent};
use quorumlock::node::{Hint, Name, Operation, Outcome, Verb};
use quorumlock::rules::list::{List, Record};

use crate::judge::history::{Memory, Micros, SECOND};

/// The time that servers' clocks and processes' wall clocks show when a run begins, and the time at
/// which servers were started.
const EPOCH: u64 = crate::process::EPOCH as u64;
const BORN: u64 = EPOCH - 100_000_000_000;

/// An operation that reads the record, and writes nothing.
static LOOK: LazyLock<Operation> = LazyLock::new(|| {
    let (list, none) = (Arc::new(List::new("look", ["node"], Duration::ZERO)), Arc::<str>::from(""));
    let (new, process) = (none.clone(), none);
    Hello { intent: Intent::Look, new, process, list, old: None, knew: None, sync: None, seen: Vec::new() }.into()
});

#[derive(Debug)]
pub struct Server {
    number: usize,
    pub region: usize,
    store: Store,
    snapshot: Store,
    rate: u64,
    stepped: i64,
    /// When the clock was last stepped.
    pub stepped_at: Option<Micros>,
    born: u64,
    /// When the server last restarted.
    pub started_at: Option<Micros>,
    /// The number of the server's process, which is a part of the run id.
    pub epoch: u32,
    pub down: bool,
    pub hung: bool,
    /// Whether the server was a replica before clients reached it.
    promoted: bool,
    /// How often this process has executed FLUSHALL.
    flushed: u32,
    /// The digests of the scripts that the server knows.
    pub scripts: BTreeSet<u64>,
    /// For each channel, the connections that have subscribed to it.
    pub subscribers: BTreeMap<String, BTreeSet<usize>>,
}

impl Server {
    pub fn new(number: usize, region: usize, rate: u64) -> Self {
        let (store, snapshot) = (Store::default(), Store::default());
        Self {
            number,
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
            promoted: false,
            flushed: 0,
            scripts: BTreeSet::new(),
            subscribers: BTreeMap::new(),
        }
    }

    fn clock(&self, now: Micros) -> u64 {
        (EPOCH + now / 1_000_000 * self.rate + now % 1_000_000 * self.rate / 1_000_000)
            .saturating_add_signed(self.stepped)
    }

    pub fn time(&self, now: Micros) -> Duration {
        Duration::from_micros(self.clock(now))
    }

    /// The server's uptime: the difference of two times of its wall clock, each cut to whole
    /// seconds. Negative if the clock was set back to before the server's start.
    fn uptime(&self, now: Micros) -> i64 {
        (self.clock(now) / SECOND) as i64 - (self.born / SECOND) as i64
    }

    pub fn run_id(&self) -> String {
        format!("{:020x}{:020x}", self.number, self.epoch)
    }

    /// The reply to INFO, with all sections if `whole`.
    pub fn info(&self, now: Micros, whole: bool) -> String {
        let (Self { number, epoch, flushed, .. }, run) = (self, self.run_id());
        let (uptime, time) = (self.uptime(now), self.clock(now));
        // After a promotion, INFO shows the former master's replication id as `master_replid2`.
        let before = if self.promoted { format!("{epoch:020x}{:020x}", number + 1) } else { format!("{:040}", 0) };
        let mut info = format!(
            "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:{run}\r\n\
             server_time_usec:{time}\r\nuptime_in_seconds:{uptime}\r\n\
             # Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n\
             # Stats\r\nexpired_keys:0\r\nevicted_keys:0\r\n\
             # Replication\r\nrole:master\r\nmaster_replid:{epoch:020x}{number:020x}\r\nmaster_replid2:{before}\r\n"
        );
        if whole {
            info += "# Commandstats\r\ncmdstat_evalsha:calls=1,usec=9,usec_per_call=9.00,rejected_calls=0,failed_calls=0\r\n";
            if *flushed > 0 {
                let calls = format!("calls={flushed},usec=9,usec_per_call=9.00,rejected_calls=0,failed_calls=0");
                info += &format!("cmdstat_flushall:{calls}\r\n");
            }
        }
        info
    }

    /// Carries out an operation. `hears` says whether the server takes a subscribed connection for
    /// alive.
    pub fn apply(
        &mut self,
        operation: &Operation,
        now: Micros,
        channel: &str,
        hears: impl Fn(usize) -> bool,
    ) -> Outcome {
        if let Operation::Hello(hello) = operation {
            let kept_all = self.kept_all(now, &hello.list);
            self.store.keeps_all(kept_all);
        }
        let (time, subscribers) = (self.time(now), &self.subscribers);
        let listeners = |client: &str| subscribers.get(&format!("{channel}{client}"));
        let hears = |client: &str| listeners(client).is_some_and(|all| all.iter().any(|&who| hears(who)));
        self.store.apply_heard(operation, time, &hears)
    }

    /// Whether INFO shows hello.lua that this process cannot have lost a record. Such a process has
    /// run for a long time, never was a replica, and flushed nothing. (The simulation evicts no
    /// keys.)
    fn kept_all(&self, now: Micros, list: &List) -> bool {
        let up = Duration::from_secs(self.uptime(now).try_into().unwrap_or(0));
        !self.promoted && self.flushed == 0 && up > list.old() + Duration::from_secs(1)
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

    /// Whether an owner still has a place after an operation that must have removed it.
    pub fn keeps_place(&self, operation: &Operation, outcome: &Outcome, now: Micros) -> bool {
        let leaves = match outcome {
            Outcome::Granted { .. } => true,
            Outcome::Released { .. } => operation.verb() == Verb::Release,
            _ => false,
        };
        let waits = |owner: &Arc<str>, name| self.store.waits(name, owner, self.time(now));
        leaves && operation.owner().is_some_and(|owner| operation.names().iter().any(|name| waits(owner, name)))
    }

    /// How long until a name is free for its first waiter, and a list of its live waiters.
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

    /// The server's record, if it has one.
    pub fn record(&mut self, now: Micros) -> Option<Record> {
        let time = self.time(now);
        match self.store.apply(&LOOK, time) {
            Outcome::Hello(record) => record,
            _ => None,
        }
    }

    /// Whether this list is in force on the server.
    pub fn has_in_force(&mut self, hash: &str, now: Micros) -> bool {
        self.record(now).and_then(|record| record.in_force).is_some_and(|list| *list.hash == *hash)
    }

    /// Whether the node has a record of the present process, and this record is synced.
    pub fn is_synced(&self, now: Micros) -> bool {
        let told = self.store.clone().apply(&LOOK, self.time(now));
        matches!(told, Outcome::Hello(Some(record)) if record.synced && *record.process == *self.lineage())
    }

    /// The server's process, as clients read it from INFO.
    fn lineage(&self) -> String {
        let Self { number, epoch, .. } = self;
        if self.promoted { format!("{}/{epoch:020x}{number:020x}", self.run_id()) } else { self.run_id() }
    }

    /// Saves the present data on disk, as an old copy that may be loaded later.
    pub fn save(&mut self) {
        self.snapshot = self.store.clone();
    }

    pub fn flush(&mut self) {
        self.store = Store::default();
        self.flushed += 1;
    }

    /// Deletes all keys, as an operator may do by hand. INFO shows no trace of this.
    pub fn wipe(&mut self) {
        self.store = Store::default();
    }

    /// The running process loads the old copy.
    pub fn load(&mut self) {
        self.store = self.snapshot.clone();
    }

    pub fn crash(&mut self, memory: Memory) {
        self.down = true;
        self.hung = false;
        self.epoch += 1;
        (self.promoted, self.flushed) = (false, 0);
        self.scripts.clear();
        self.subscribers.clear();
        match memory {
            Memory::Kept => {}
            Memory::Empty => self.wipe(),
            Memory::Old => self.load(),
        }
    }

    /// Crashes, and then a replica takes over. The replica's process has been up for a long time.
    pub fn fail_over(&mut self, memory: Memory) {
        self.crash(memory);
        self.promoted = true;
    }

    /// The data that a replica of this server has.
    pub fn copied(&self) -> Store {
        self.store.clone()
    }

    /// The server was a replica until now, and has this data.
    pub fn take_over(&mut self, copied: Store) {
        (self.store, self.promoted) = (copied, true);
    }

    pub fn start(&mut self, now: Micros) {
        self.down = false;
        self.born = if self.promoted { BORN } else { self.clock(now) };
        self.started_at = Some(now);
    }

    /// The process starts at `now`, even if no client reaches it until later.
    pub fn begin(&mut self, now: Micros) {
        self.born = self.clock(now);
    }
}
