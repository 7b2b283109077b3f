//! How much of the protocol each exploration covers: few enough states to explore all of them, and
//! enough states to find planted bugs.

use std::time::Duration;

/// Time in ticks.
pub type Ticks = i32;

/// One tick. Two ticks are a little more than MAX_ROUND (5 s), even if two clocks run apart by 1 %.
pub const TICK: Duration = Duration::from_millis(2_550);

/// The fault of a run, which happens at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    None,
    /// Node 0 dies, and comes back at once, empty.
    Crash,
    /// The clock of node 0 is set forward or back by this many ticks.
    Step(Ticks),
    /// A client replaces its connection to node 0. Requests on the old connection may arrive later.
    Replace,
}

/// Which of the six connections are slow: client 0's to nodes 0, 1 and 2, then client 1's.
#[derive(Clone, Copy, Debug)]
pub enum Slow {
    /// Any connections, at most this many.
    AtMost(u32),
    /// These connections, one bit each.
    These(u8),
}

/// Which messages take time on a slow connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// Requests. The answer arrives at once after the node has carried out the request.
    Requests,
    /// Replies. The node carries out the request at once.
    Replies,
}

/// Whether a revoker takes the name away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revokes {
    Never,
    /// All nodes, or all except one, revoke at one moment.
    AtOnce,
    /// Each node revokes at any moment.
    NodeByNode,
}

/// The bounds of one exploration.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    pub name: &'static str,
    pub fault: Fault,
    /// The ttl of all claims, and the clients' `max_ttl`, in ticks.
    pub ttl: Ticks,
    pub max_ttl: Ticks,
    /// The last moment of a run.
    pub end: Ticks,
    /// How many ticks pass at once.
    pub stride: Ticks,
    /// How far the wall clock of client 0 is ahead.
    pub ahead: Duration,
    /// How many rounds each client makes at most, over all its acquisitions.
    pub rounds: [u8; 2],
    /// How many renewals each client sends at most.
    pub renewals: [u8; 2],
    pub slow: Slow,
    pub late: Late,
    /// Whether holders may release before their deadline.
    pub releases: bool,
    /// Whether clients wait in queues, and nodes hand over.
    pub hands: bool,
    /// How the revoker takes the name away, once.
    pub revokes: Revokes,
    /// Which clients are readers.
    pub reads: [bool; 2],
}

/// How much is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Takes seconds, even without optimization.
    Small,
    /// What CI runs.
    Medium,
    /// Takes minutes and some GiB.
    Full,
}

/// Client 0 is slow to nodes 0 and 1, and client 1 is slow to node 1. Only with such connections
/// can there be two holders that both count a node which has forgotten one of them.
const CROSSED: Slow = Slow::These(0b010_011);

/// The same scopes with one reader and one writer, which may begin in any order.
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
        // Three slow connections make more states than 20 GiB of memory can store.
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
    // A released name is handed over: a waiter asks once or twice, and may renew once.
    let hand = Scope { name: "hand-over", hands: true, end: 3, rounds: [1, 2], renewals: [0, 1], ..rounds };
    // With two slow connections, these two scopes take as long as all others together.
    let stepped = Scope { late: Late::Replies, slow: if full { slow } else { Slow::AtMost(1) }, ..hand };
    // Revocations node by node add many states, so only one connection is slow.
    let revokes = if size == Size::Small { Revokes::AtOnce } else { Revokes::NodeByNode };
    let revocation = Scope { name: "revocation", revokes, end: 2, slow: Slow::AtMost(1), ..base };
    // The next two scopes revoke during a hand-over. In the first, one node has not received the
    // release. In the second, two nodes have not received it, and the revoked waiter still waits on
    // these two.
    let (name, revokes) = ("revocation, hand-over", Revokes::AtOnce);
    let passes = Scope { name, revokes, end: 1, rounds: [1, 1], slow: Slow::These(0b000_001), ..hand };
    let (name, slow) = ("revocation, waiter", Slow::These(0b000_110));
    let waits = Scope { name, slow, end: 0, rounds: [1, 2], renewals: [0, 0], ..passes };
    // One wall clock is ahead by much more than `max_ttl`, so tokens rest on what nodes remember.
    let ahead = Duration::from_secs(100);
    // A name's hash expires after 105 s. By then, the floor has reached the fence of this hash.
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
