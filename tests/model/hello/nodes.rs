//! The servers: stores of the real memory node, and the number of each server's process.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use quorumlock::node::memory::Store;
use quorumlock::node::operation::{Hello, Intent};
use quorumlock::node::{Claim, Kind, Name, Operation, Outcome, Release};
use quorumlock::rules::Tick;
use quorumlock::rules::list::{List, Record};

use super::SERVERS;
use crate::scope::Ticks;

/// One tick: a little less than the time between two hellos.
const TICK: Duration = Duration::from_millis(980);

/// The ttl of all locks, and the `max_ttl` of the lists.
pub const TTL: Ticks = 4;
pub const MAX_TTL: Duration = Duration::from_secs(5);

/// How long servers have been up when a run begins.
const UP: Ticks = 1_000;

pub fn time(ticks: Ticks) -> Duration {
    TICK * ticks.unsigned_abs()
}

/// The time that a client's clock shows.
pub fn tick(now: Ticks) -> Tick {
    Tick::new(time(UP + now))
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Server {
    store: Store,
    epoch: u8,
    born: Option<Ticks>,
    flushed: bool,
}

/// All servers, and the present time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nodes {
    pub now: Ticks,
    servers: [Arc<Server>; SERVERS],
}

impl Nodes {
    /// A server's process, as INFO shows it.
    pub fn process(&self, server: usize) -> Arc<str> {
        format!("{server}.{}", self.servers[server].epoch).into()
    }

    /// The number of a server's memory. Each restart and each flush begins an empty memory with the
    /// next number.
    pub fn memory(&self, server: usize) -> u8 {
        self.servers[server].epoch + u8::from(self.servers[server].flushed)
    }

    /// Whether INFO shows that the server cannot have lost a record: it has run for a long time,
    /// and has flushed nothing.
    fn kept_all(&self, server: usize, list: &List) -> bool {
        let it = &self.servers[server];
        let up = it.born.map_or(UP + self.now, |born| self.now - born);
        time(up) > list.old() && !it.flushed
    }

    pub fn restart(&mut self, server: usize) {
        let (epoch, born) = (self.servers[server].epoch + 1, Some(self.now));
        self.servers[server] = Arc::new(Server { store: Store::default(), epoch, born, flushed: false });
    }

    pub fn flush(&mut self, server: usize) {
        let it = Arc::make_mut(&mut self.servers[server]);
        (it.store, it.flushed) = (Store::default(), true);
    }

    pub fn hello(&mut self, server: usize, hello: Hello) -> Option<Record> {
        let kept_all = self.kept_all(server, &hello.list);
        Arc::make_mut(&mut self.servers[server]).store.keeps_all(kept_all);
        match self.apply(server, &hello.into()) {
            Outcome::Hello(record) => record,
            other => unreachable!("a hello is answered by one, and not by {other}"),
        }
    }

    pub fn id(&mut self, server: usize) -> Option<Arc<str>> {
        let (list, none) = (Arc::new(List::new("look", ["node"], MAX_TTL)), Arc::<str>::from(""));
        let (intent, new, process) = (Intent::Look, none.clone(), none);
        let look = Hello { intent, new, process, list, old: None, knew: None, sync: None, seen: Vec::new() };
        self.hello(server, look).map(|record| record.id)
    }

    pub fn claim(&mut self, server: usize, client: usize, list: &Arc<str>, ballot: u64) -> Outcome {
        self.apply(server, &claim(client, list, ballot).into())
    }

    pub fn release(&mut self, server: usize, client: usize, ballot: u64) {
        self.apply(server, &Release::of(&claim(client, &"".into(), ballot)).into());
    }

    fn apply(&mut self, server: usize, operation: &Operation) -> Outcome {
        let now = time(UP + self.now);
        let store = &mut Arc::make_mut(&mut self.servers[server]).store;
        let outcome = store.apply(operation, now);
        store.hints();
        outcome
    }
}

fn claim(client: usize, list: &Arc<str>, ballot: u64) -> Claim {
    Claim {
        names: names(),
        list: list.clone(),
        owner: format!("{client}/1").into(),
        kind: Kind::Lock,
        ttl: time(TTL),
        ballot,
        follows: None,
        gate: None,
        waiter: None,
        next: 0,
    }
}

fn names() -> Arc<[Name]> {
    static NAMES: OnceLock<Arc<[Name]>> = OnceLock::new();
    NAMES.get_or_init(|| Arc::from([Name::new("", "it").expect("a name")])).clone()
}
