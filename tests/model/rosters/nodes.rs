//! The servers: the real memory node's stores, and which process each is.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use quorumlock::node::memory::Store;
use quorumlock::node::{Claim, Kind, Member, Name, Operation, Outcome, Release};
use quorumlock::rules::Tick;
use quorumlock::rules::roster::{Enrolment, Roster};

use crate::scope::Ticks;

/// How many servers there are.
pub const SERVERS: usize = 5;

/// One tick: votes count for two ticks after an enrolment, as 10 s are a little more than that, and
/// an entry outlasts the longest ttl by three, or by four if it was written anew.
pub const TICK: Duration = Duration::from_millis(4_900);

/// The ttl of all locks, and the longest of any client.
pub const TTL: Ticks = 2;

/// How long servers have been up when a run begins.
const UP: Ticks = 1_000;

pub fn time(ticks: Ticks) -> Duration {
    TICK * ticks.unsigned_abs()
}

/// What a client's clock shows.
pub fn tick(now: Ticks) -> Tick {
    Tick::new(time(UP + now))
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Server {
    store: Store,
    epoch: u8,
    born: Option<Ticks>,
}

/// All servers, and what time it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nodes {
    pub now: Ticks,
    servers: [Arc<Server>; SERVERS],
}

impl Nodes {
    /// Which process a server is.
    pub fn epoch(&self, server: usize) -> u8 {
        self.servers[server].epoch
    }

    /// How many ticks it has been up.
    fn uptime(&self, server: usize) -> Ticks {
        self.servers[server].born.map_or(UP + self.now, |born| self.now - born)
    }

    /// What a client knows of it.
    pub fn member(&self, server: usize) -> Member {
        let epoch = self.epoch(server);
        Member { run: format!("{server}.{epoch}"), age: time(self.uptime(server)) }
    }

    /// Whether it can have forgotten nothing that is still held.
    pub fn is_trusted(&self, server: usize) -> bool {
        self.uptime(server) >= TTL
    }

    pub fn restart(&mut self, server: usize) {
        let epoch = self.epoch(server) + 1;
        self.servers[server] = Arc::new(Server { store: Store::default(), epoch, born: Some(self.now) });
    }

    /// Whether it took the servers, and its roster as it was before.
    pub fn enrol(&mut self, server: usize, enrolment: &Enrolment) -> (bool, Roster) {
        match self.apply(server, &Operation::Enrol(enrolment.clone())) {
            Outcome::Listed(roster) => (true, roster),
            Outcome::Unlisted(roster) => (false, roster),
            other => unreachable!("{other}"),
        }
    }

    /// Whether it grants this client the name.
    pub fn claim(&mut self, server: usize, client: usize) -> bool {
        let claim = self.claim_of(server, client);
        matches!(self.apply(server, &Operation::Claim(claim)), Outcome::Granted { .. })
    }

    pub fn release(&mut self, server: usize, client: usize) {
        let claim = self.claim_of(server, client);
        self.apply(server, &Operation::Release(Release::of(&claim)));
    }

    fn claim_of(&self, server: usize, client: usize) -> Claim {
        let (high, floor) = self.servers[server].store.bounds();
        Claim {
            names: names(),
            owner: format!("{client}/1").into(),
            kind: Kind::Lock,
            ttl: time(TTL),
            ballot: high.max(floor) + 1,
            follows: 0,
            gate: None,
            waiter: None,
            next: 0,
        }
    }

    fn apply(&mut self, server: usize, operation: &Operation) -> Outcome {
        let now = time(UP + self.now);
        let store = &mut Arc::make_mut(&mut self.servers[server]).store;
        let outcome = store.apply(operation, now);
        store.hints();
        outcome
    }
}

fn names() -> Arc<[Name]> {
    static NAMES: OnceLock<Arc<[Name]>> = OnceLock::new();
    NAMES.get_or_init(|| Arc::from([Name::new("", "it").expect("a name")])).clone()
}
