//! The list of nodes that a client has, and the record of a node with the list in force there.
//!
//! All clients of a set of nodes must have the same list: the same list name, node names, longest
//! ttl and protocol. `docs/protocol.md`, "One list", says how nodes and clients ensure this.

mod difference_text;

use std::sync::Arc;
use std::time::Duration;

pub use difference_text::difference;

/// The version of the protocol that this build uses.
pub const PROTOCOL: u32 = 4;

/// Time from one hello to a node to the next, unless max_ttl is short.
const EVERY: Duration = Duration::from_secs(5);

/// A list of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct List {
    name: Arc<str>,
    nodes: Vec<Arc<str>>,
    max_ttl: Duration,
    protocol: u32,
    says: Arc<str>,
    hash: Arc<str>,
}

impl List {
    /// The list called `name` with these nodes, for clients of this build. The list's name and the
    /// nodes' names must not be empty or contain white space.
    #[must_use]
    pub fn new(name: &str, nodes: impl IntoIterator<Item: AsRef<str>>, max_ttl: Duration) -> Self {
        let mut nodes: Vec<Arc<str>> = nodes.into_iter().map(|node| Arc::from(node.as_ref())).collect();
        nodes.sort_unstable();
        Self::of(name, nodes, max_ttl, PROTOCOL)
    }

    /// Parses the text of a list; `None` if it is malformed.
    #[must_use]
    pub fn parse(says: &str) -> Option<Self> {
        let mut words = says.split_ascii_whitespace();
        let name = words.next()?;
        let max_ttl = Duration::from_millis(words.next()?.parse().ok()?);
        let protocol = words.next()?.parse().ok()?;
        let nodes: Vec<Arc<str>> = words.map(Arc::from).collect();
        (!nodes.is_empty()).then(|| Self::of(name, nodes, max_ttl, protocol))
    }

    fn of(name: &str, nodes: Vec<Arc<str>>, max_ttl: Duration, protocol: u32) -> Self {
        let says = format!("{name} {} {protocol} {}", max_ttl.as_millis(), nodes.join(" "));
        let hash = format!("{:016x}", fnv1a(says.as_bytes()));
        Self { name: name.into(), nodes, max_ttl, protocol, says: says.into(), hash: hash.into() }
    }

    /// The list's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The nodes' names, sorted.
    #[must_use]
    pub fn nodes(&self) -> &[Arc<str>] {
        &self.nodes
    }

    /// The longest ttl; zero switches the restart guard off.
    #[must_use]
    pub const fn max_ttl(&self) -> Duration {
        self.max_ttl
    }

    /// The version of the protocol that the list's clients use.
    #[must_use]
    pub const fn protocol(&self) -> u32 {
        self.protocol
    }

    /// The list as nodes store it, for people: name, max_ttl in milliseconds, protocol, nodes.
    #[must_use]
    pub const fn says(&self) -> &Arc<str> {
        &self.says
    }

    /// The hash of the list: 16 hex digits.
    #[must_use]
    pub const fn hash(&self) -> &Arc<str> {
        &self.hash
    }

    /// How often a client sends a hello to each node: every 5 s, or max_ttl / 5 if that is shorter.
    #[must_use]
    pub fn every(&self) -> Duration {
        if self.max_ttl.is_zero() { EVERY } else { EVERY.min(self.max_ttl / 5) }
    }

    /// A list stays in force for max_ttl plus this time. For this time, without max_ttl, nodes keep
    /// the record ids that clients report.
    #[must_use]
    pub fn spare(&self) -> Duration {
        self.every() * 3
    }

    /// For this long after a record got a new id, clients may still report the old id. (A client
    /// reports an id for two periods of hellos. Half a period is added for safety.)
    #[must_use]
    pub fn overlap(&self) -> Duration {
        self.every() * 5 / 2
    }

    /// For how long a hello puts the list in force.
    #[must_use]
    pub fn lasts(&self) -> Duration {
        self.max_ttl + self.spare()
    }

    /// A hello extends the list if less than this time is left.
    #[must_use]
    pub fn fresh(&self) -> Duration {
        self.lasts() - self.every()
    }

    /// The age that a node gives to a new record that counts as old at once. No client requires a
    /// record to be older than this before the node votes, whatever the client's drift factor.
    #[must_use]
    pub fn old(&self) -> Duration {
        self.max_ttl + self.max_ttl / 4
    }
}

/// FNV-1a, 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// How much a hello may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Intent {
    /// The hello writes nothing.
    Look,
    /// The hello keeps the record up to date, and extends the client's list if it is in force.
    Keep,
    /// Like `Keep`. The hello also makes a record if there is none.
    Make,
    /// Like `Make`. The hello also puts the list in force if no list is in force.
    Put,
}

impl Intent {
    /// The intent's name in the script.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Keep => "keep",
            Self::Make => "make",
            Self::Put => "put",
        }
    }
}

/// Why a new record counts as old at once: the node of this record need not wait for max_ttl before
/// it votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OldAtOnce {
    /// The operator declared, by `quorumlock init`, that the server was never used.
    Init,
    /// The server has been up for longer than 1.25 max_ttl, and the node cannot have forgotten a
    /// lock. No client is known to have seen a record on the node.
    FirstUse,
}

impl OldAtOnce {
    /// The name in the record.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::FirstUse => "first",
        }
    }

    /// Parses the name in a record.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Init, Self::FirstUse].into_iter().find(|old| old.as_str() == word)
    }
}

/// A node's record, as a hello returned it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// A random id. Each new record gets another id.
    pub id: Arc<str>,
    /// The process of the server to which the record belongs.
    pub process: Arc<str>,
    /// For how long the node has forgotten no grant, as far as the record shows.
    pub age: Duration,
    /// An upper bound of all ballots that were granted, renewed, withdrawn, released or revoked on
    /// the node. (Ballots more than a day ahead of the node's clock do not count.)
    pub high: u64,
    /// The node grants only ballots above this one, for any name.
    pub floor: u64,
    /// Whether the node never forgot its fences, or was synced. (To sync a node is to raise its
    /// floor to the ballots that other nodes granted.)
    pub synced: bool,
    /// Why the record counted as old when it was made; `None` if its age began at zero.
    pub word: Option<OldAtOnce>,
    /// The list in force on the node; `None` if no list is in force.
    pub in_force: Option<InForce>,
    /// The records that clients of the list in force have lately seen on the nodes of the list.
    pub seen: Vec<Sighting>,
}

/// A record that a client of the list in force saw on a node, and reported in a hello.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sighting {
    /// The name of the node.
    pub node: Arc<str>,
    /// The id of the record.
    pub id: Arc<str>,
    /// How long ago the client reported the id.
    pub age: Duration,
}

impl Record {
    /// Whether the record belongs to this process. An empty `process` is unknown, and matches.
    pub(crate) fn is_of(&self, process: &str) -> bool {
        process.is_empty() || is_same_process(&self.process, process)
    }
}

/// Whether `stored` names the same process as `present`, the text from INFO. After a promotion, the
/// stored text ends with a slash and a replication id. INFO shows this id only until an hour after
/// the master's last replica has gone (repl-backlog-ttl). So `present` may lack the id.
pub(super) fn is_same_process(stored: &str, present: &str) -> bool {
    stored.strip_prefix(present).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A list that is in force on a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InForce {
    /// The hash of the list.
    pub hash: Arc<str>,
    /// The text of the list.
    pub says: Arc<str>,
    /// How much longer the list stays in force, if no client extends it.
    pub left: Duration,
    /// For how long the list has been in force.
    pub age: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn list(nodes: &[&str]) -> List {
        List::new("default", nodes, MINUTE)
    }

    #[test]
    fn list_of_same_nodes_in_other_order_is_the_same() {
        assert_eq!(list(&["b:1", "a:1"]), list(&["a:1", "b:1"]));
        assert_eq!(&**list(&["b:1", "a:1"]).says(), "default 60000 4 a:1 b:1");
    }

    #[test]
    fn hash_of_a_list_changes_with_each_of_its_parts() {
        let mine = list(&["a:1", "b:1"]);
        let others = [
            List::new("team", ["a:1", "b:1"], MINUTE),
            list(&["a:1", "c:1"]),
            list(&["a:1"]),
            List::new("default", ["a:1", "b:1"], MINUTE * 2),
            List::of("default", mine.nodes.clone(), MINUTE, PROTOCOL + 1),
        ];
        assert!(others.iter().all(|other| other.hash() != mine.hash()));
        assert!(mine.hash().len() == 16 && mine.hash().chars().all(|digit| digit.is_ascii_hexdigit()));
    }

    #[test]
    fn hash_is_the_published_one() {
        // Test vectors of the authors of FNV.
        assert_eq!(
            [fnv1a(b""), fnv1a(b"a"), fnv1a(b"foobar")],
            [0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8]
        );
    }

    #[test]
    fn text_of_a_list_is_read_back() {
        let mine = list(&["b:1", "a:1"]);
        assert_eq!(List::parse(mine.says()), Some(mine));
        for text in ["", "default", "default 60000", "default 60000 4", "default x 4 a:1", "default 60000 x a:1"] {
            assert_eq!(List::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn times_of_hello_shrink_with_a_short_max_ttl() {
        let ms = |max_ttl| {
            let list = List::new("default", ["a"], Duration::from_millis(max_ttl));
            [list.every(), list.spare(), list.lasts(), list.fresh(), list.old()].map(|time| time.as_millis())
        };
        assert_eq!(ms(60_000), [5_000, 15_000, 75_000, 70_000, 75_000]);
        assert_eq!(ms(10_000), [2_000, 6_000, 16_000, 14_000, 12_500]);
        assert_eq!(ms(0), [5_000, 15_000, 15_000, 10_000, 0], "the guard is off");
    }

    #[test]
    fn record_belongs_to_its_process_or_one_that_forgot_promotion() {
        for (stored, present) in [("run", "run"), ("run/id", "run/id"), ("run/id", "run")] {
            assert!(is_same_process(stored, present), "{stored} {present}");
        }
        for (stored, present) in [("run", "run/id"), ("runner", "run"), ("other", "run")] {
            assert!(!is_same_process(stored, present), "{stored} {present}");
        }
    }
}
