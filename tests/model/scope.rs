//! How much of the protocol is explored: small enough to be exhausted, large enough for what is
//! planted to show.

use std::time::Duration;

/// Time in ticks.
pub type Ticks = i32;

/// One tick. Two are a little more than the longest round (5 s), as two clocks measure it.
pub const TICK: Duration = Duration::from_millis(2_550);

/// What goes wrong, once in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    None,
    /// Node 0 dies, and comes back at once with nothing in its memory.
    Crash,
    /// The clock of node 0 is set forward or back by so many ticks.
    Step(Ticks),
    /// A client gives up its connection to node 0; what it sent there may arrive later still.
    Replace,
}

/// Which of the six connections are slow: client 0's to the nodes 0, 1 and 2, then client 1's.
#[derive(Clone, Copy, Debug)]
pub enum Slow {
    /// Any, so many at most.
    AtMost(u32),
    /// These, by their bits.
    These(u8),
}

/// What takes its time on a slow connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// Requests; the answer is heard when they arrive.
    Requests,
    /// Replies; the node is asked when the request is sent.
    Replies,
}

/// Whether somebody takes the name away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revokes {
    Never,
    /// All nodes, or all but one, are asked at one moment to let a hold end.
    AtOnce,
    /// Each node is asked when it likes.
    NodeByNode,
}

/// The bounds of one exploration.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    pub name: &'static str,
    pub fault: Fault,
    /// The ttl of all claims, and the longest of any client, in ticks.
    pub ttl: Ticks,
    pub max_ttl: Ticks,
    /// The last moment.
    pub end: Ticks,
    /// By how much time goes on at once.
    pub stride: Ticks,
    /// By how much the wall clock of client 0 is ahead.
    pub ahead: Duration,
    /// How many rounds each client makes at most, over all its acquisitions.
    pub rounds: [u8; 2],
    /// How many renewals each client sends at most.
    pub renewals: [u8; 2],
    pub slow: Slow,
    pub late: Late,
    /// Whether holders may give the lock back before it ends.
    pub releases: bool,
    /// Whether the second client waits, and may be handed the lock.
    pub hands: bool,
    /// How somebody takes the name away, once.
    pub revokes: Revokes,
    /// Which clients are readers.
    pub reads: [bool; 2],
}

/// How much is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Seconds, also where nothing is optimized.
    Small,
    /// What CI runs.
    Medium,
    /// Minutes, and some GiB.
    Full,
}

/// Client 0 reaches node 2 at once and the others when it likes, client 1 node 1 when it likes:
/// what it takes for two of them to count a node that has forgotten one of them.
const CROSSED: Slow = Slow::These(0b010_011);

/// The same with one reader and one writer, who may begin in any order.
fn beside_readers(scopes: &[Scope], full: bool) -> Vec<Scope> {
    let readers = [
        ("crash", "reader, crash"),
        ("clock forward", "reader, clock forward"),
        ("clock back", "reader, clock back"),
        ("rounds and releases", "reader, rounds and releases"),
        ("rounds, late replies", "reader, rounds, late replies"),
        ("connection replaced", "reader, connection replaced"),
        ("revocation", "reader, revocation"),
        ("floors", "reader, floors"),
    ];
    let of = |(alone, name)| {
        let scope = scopes.iter().find(|scope| scope.name == alone)?;
        let slow = if full { scope.slow } else { Slow::AtMost(1) };
        Some(Scope { name, slow, reads: [true, false], ..*scope })
    };
    readers.into_iter().filter_map(of).collect()
}

pub fn scopes(size: Size) -> Vec<Scope> {
    let slow = Slow::AtMost(match size {
        Size::Small => 1,
        // Three make more states than a machine of 20 GiB holds.
        Size::Medium | Size::Full => 2,
    });
    let base = Scope {
        name: "",
        fault: Fault::None,
        ttl: 4,
        max_ttl: 4,
        end: 5,
        stride: 1,
        ahead: Duration::ZERO,
        rounds: [1, 1],
        renewals: [2, 0],
        slow,
        late: Late::Requests,
        releases: false,
        hands: false,
        revokes: Revokes::Never,
        reads: [false; 2],
    };
    let full = size == Size::Full;
    let crash = Scope { name: "crash", fault: Fault::Crash, end: if full { 5 } else { 4 }, ..base };
    let step = |name, by| Scope { name, fault: Fault::Step(by), end: 4, renewals: [1, 0], ..base };
    let rounds = Scope {
        name: "rounds and releases",
        end: 2,
        rounds: [2, if full { 2 } else { 1 }],
        renewals: [0, 0],
        releases: true,
        ..base
    };
    // What is given back is handed over: a waiter asks once or twice, and holds on a little.
    let hand = Scope { name: "hand-over", hands: true, end: 3, rounds: [1, 2], renewals: [0, 1], ..rounds };
    // With two slow pairs of client and node, these two take as long as all the others together.
    let stepped = Scope { late: Late::Replies, slow: if full { slow } else { Slow::AtMost(1) }, ..hand };
    // Whoever takes the name away reaches each node when it likes, so fewer of the others are slow.
    let revokes = if size == Size::Small { Revokes::AtOnce } else { Revokes::NodeByNode };
    let revocation = Scope { name: "revocation", revokes, end: 2, slow: Slow::AtMost(1), ..base };
    // The name passes from one to the next while one node has not heard of that; or two have not,
    // and who is revoked waits for it still.
    let (name, revokes) = ("revocation, hand-over", Revokes::AtOnce);
    let passes = Scope { name, revokes, end: 1, rounds: [1, 1], slow: Slow::These(0b000_001), ..hand };
    let (name, slow) = ("revocation, waiter", Slow::These(0b000_110));
    let waits = Scope { name, slow, end: 0, rounds: [1, 2], renewals: [0, 0], ..passes };
    // One wall clock is ahead by much more than the longest ttl: tokens rest on what nodes know.
    let ahead = Duration::from_secs(100);
    // All that is kept of a name expires after 105 s, and its fence is below the floor by then.
    let floors = Scope { name: "floors", ttl: 2, max_ttl: 2, end: 56, stride: 14, renewals: [0, 0], ahead, ..base };
    let mut scopes = vec![
        floors,
        revocation,
        passes,
        crash,
        step("clock forward", 4),
        step("clock back", -4),
        rounds,
        Scope { name: "connection replaced", fault: Fault::Replace, end: 1, rounds: [2, 1], ..rounds },
        Scope { late: Late::Replies, ..hand },
        Scope { name: "hand-over, connection replaced", fault: Fault::Replace, late: Late::Replies, ..hand },
        Scope { name: "hand-over, crash", fault: Fault::Crash, late: Late::Replies, ..hand },
        Scope { name: "hand-over, clock forward", fault: Fault::Step(2), ..stepped },
        Scope { name: "hand-over, clock back", fault: Fault::Step(-2), ..stepped },
        Scope { name: "crash, late replies", late: Late::Replies, ..crash },
        Scope { name: "rounds, late replies", late: Late::Replies, ..rounds },
    ];
    scopes.extend(beside_readers(&scopes, full));
    if size != Size::Small {
        let crossed = Scope { name: "crash, crossed", slow: CROSSED, end: if full { 6 } else { 4 }, ..crash };
        scopes.push(crossed);
        scopes.push(waits);
        scopes.push(Scope { name: "revocation, fence raised", rounds: [2, 1], ..passes });
    }
    scopes
}
