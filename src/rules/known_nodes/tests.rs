//! What a client concludes from the nodes' records, and which hellos follow.

mod fence_sync;
mod ids;
mod lists;
mod when;

use super::*;
use crate::rules::list::{InForce, Sighting};

const SECOND: Duration = Duration::from_secs(1);
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Longer than two round timeouts, and shorter than the time between two hellos.
const LATER: u64 = 3_000;

fn at(ms: u64) -> Tick {
    Tick::new(Duration::from_millis(ms))
}

fn in_force(list: &List) -> InForce {
    InForce { hash: list.hash().clone(), says: list.says().clone(), left: SECOND * 70, age: SECOND * 10 }
}

/// Another list with the name of the client's list.
fn stranger() -> List {
    List::new("default", ["x", "y", "z"], SECOND * 60)
}

/// One client with max_ttl 60 s and a round timeout of 1 s, and its clock.
#[derive(Clone)]
struct Bench {
    list: Arc<List>,
    book: KnownNodes,
    now: Tick,
    holds: bool,
}

impl Bench {
    /// A client that knows nothing of the nodes yet.
    fn of(nodes: usize, onlooker: bool) -> Self {
        let names: Vec<Arc<str>> = NAMES[..nodes].iter().map(|&name| name.into()).collect();
        let list = Arc::new(List::new("default", &names, SECOND * 60));
        let book = KnownNodes::new(list.clone(), names, SECOND, onlooker);
        Self { list, book, now: at(100_000), holds: false }
    }

    fn new(nodes: usize) -> Self {
        Self::of(nodes, false)
    }

    /// A client whose list is in force on all nodes.
    fn up(nodes: usize) -> Self {
        let mut bench = Self::new(nodes);
        bench.all_hear(0..nodes);
        bench
    }

    fn all_hear(&mut self, nodes: impl IntoIterator<Item = usize>) {
        for node in nodes {
            let record = self.record(node);
            self.hears(node, Some(record));
        }
    }

    /// An old record, with the list in force.
    fn record(&self, node: usize) -> Record {
        Record {
            id: format!("{}1", NAMES[node]).into(),
            process: "run".into(),
            age: SECOND * 1_000,
            high: 0,
            floor: 0,
            synced: true,
            word: None,
            in_force: Some(InForce { left: self.list.lasts(), ..in_force(&self.list) }),
            seen: Vec::new(),
        }
    }

    fn of_list(&self, node: usize, list: &List) -> Record {
        Record { in_force: Some(in_force(list)), ..self.record(node) }
    }

    fn without_list(&self, node: usize) -> Record {
        Record { in_force: None, ..self.record(node) }
    }

    /// The state of a node if a hello that was sent now returned this record.
    fn known(&self, record: Option<Record>) -> Known {
        Known { at: self.now, process: "run".into(), record, ..Known::default() }
    }

    fn hears(&mut self, node: usize, record: Option<Record>) {
        let known = self.known(record);
        self.knows(node, known);
    }

    fn knows(&mut self, node: usize, known: Known) {
        self.book.heard(node, Some(known), self.now);
    }

    fn passes(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
    }

    fn plan(&mut self) -> Plan {
        self.book.plan(self.now, self.holds, 0)
    }

    /// The nodes that get a hello now, each with the hello's intent.
    fn hellos(&mut self) -> Vec<(usize, Intent)> {
        self.plan().hellos.into_iter().map(|(node, wanted)| (node, wanted.intent)).collect()
    }

    /// The hello to this node. A hello must be due.
    fn hello(&mut self, node: usize) -> Wanted {
        let hellos = self.plan().hellos;
        hellos.into_iter().find(|(to, _)| *to == node).expect("a hello is due").1
    }

    /// The nodes whose votes count now.
    fn counts(&mut self) -> Vec<usize> {
        let (standings, now) = (self.plan().standings, self.now);
        (0..standings.len()).filter(|&node| standings[node].counts(now)).collect()
    }
}
