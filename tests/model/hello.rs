//! A model of records and lists, all of whose states are explored. Each of two clients acquires the
//! same name once. In some explorations, a third client sends only `hello`, which reads and changes
//! a node's record. There are three or five servers, and at most one fault. Time passes in ticks of
//! about a second, and `max_ttl` is 5 s. The model checks that two clients never hold together, and
//! that tokens grow.
//!
//! The servers' stores are real, and so are the rules for one node
//! ([`RestartGuard`](quorumlock::rules::RestartGuard)) and for all nodes
//! ([`KnownNodes`](quorumlock::rules::known_nodes::KnownNodes)). Two parts are restated here,
//! because the real code (`src/protocol/hello.rs`, `src/node/redis`) is asynchronous: claims, and
//! how the plans of `KnownNodes` are carried out. The model simplifies:
//!
//! * Hellos take no time. A hello is lost while the node is silent for its client. A client says
//!   hello as soon as a hello is due; a slow client says none.
//! * A claim reaches a node at once if the node is in one list only. If the node is in both lists,
//!   the claim may reach it at any later time.
//! * Each client claims once, sends no renewal, and lets its lock expire.
//! * Clients reach a restarted server again at once.

mod client;
mod nodes;
mod world;

use stateright::{Model, Property};

use crate::scope::{Size, Ticks};
use world::World;

pub const SERVERS: usize = 5;

/// The fault of a run, which happens at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The server does not answer one client, for this many ticks at most.
    Silent(usize, Ticks),
    /// The server restarts empty (`Restart`) or executes FLUSHALL (`Flush`).
    Restart(usize),
    Flush(usize),
    /// A client says no hello and counts no votes, for this many ticks at most. After this time, it
    /// continues with its old knowledge.
    Slow(Ticks),
}

/// The bounds of one exploration.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    pub name: &'static str,
    pub lists: [&'static [usize]; 2],
    /// Whether a third client, with the first client's list, says hello to all servers.
    pub third: bool,
    /// For each of the two clients, the servers that it never reaches.
    pub cut: [&'static [usize]; 2],
    pub fault: Fault,
    /// How far the first client's wall clock is ahead, in ballots.
    pub ahead: u64,
    /// The last moment of a run.
    pub end: Ticks,
}

const ALIKE: [&[usize]; 2] = [&[0, 1, 2], &[0, 1, 2]];
const ONE_SHARED: [&[usize]; 2] = [&[0, 1, 2], &[2, 3, 4]];

impl Scope {
    /// Whether both lists have this server.
    pub fn shares(&self, server: usize) -> bool {
        self.lists.iter().all(|list| list.contains(&server))
    }

    pub fn is_alike(&self) -> bool {
        self.lists[0] == self.lists[1]
    }

    /// Whether the exploration reached the cases that its scope is about. With one list, both
    /// clients must get the lock in one run. With two lists, each client must get the lock in some
    /// run, and some client must be shut out.
    pub fn is_alive(&self, shown: &dyn Fn(&str) -> bool) -> bool {
        let each = shown("first_got_it") && shown("second_got_it");
        if self.is_alike() { shown("both_got_it") } else { each && shown("shut_out") }
    }
}

pub fn scopes(size: Size) -> Vec<Scope> {
    let small = size == Size::Small;
    let base = Scope {
        name: "lists, one shared",
        lists: ONE_SHARED,
        third: false,
        cut: [&[], &[]],
        fault: Fault::None,
        ahead: 0,
        end: if small { 6 } else { 12 },
    };
    let lists = |name, fault, end| Scope { name, fault, end, ..base };
    // The first client holds the name on servers 1 and 2. The second client reaches servers 0 and
    // 1. The third client reaches all servers.
    let records = |name, fault| {
        let end = if size == Size::Full { 13 } else { 9 };
        let cut = [&[0][..], &[2]];
        Scope { name, lists: ALIKE, third: true, cut, fault, ahead: 1_000_000, end }
    };
    let few = [
        base,
        lists("lists, silent", Fault::Silent(2, 4), if small { 5 } else { 8 }),
        lists("lists, restart", Fault::Restart(2), if small { 5 } else { 8 }),
    ];
    // Without optimization, each of these takes a minute.
    let many = [
        lists("lists, slow", Fault::Slow(12), 15),
        records("records, restart", Fault::Restart(1)),
        records("records, flush", Fault::Flush(1)),
    ];
    few.into_iter().chain(many.into_iter().filter(|_| !small)).collect()
}

/// Something that may happen. A client's node is an index in the client's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Tick,
    /// A client starts.
    Start(usize),
    /// A client claims the name from the nodes whose votes count.
    Claim(usize),
    /// The claim reaches a node, which answers.
    Vote(usize, usize),
    /// A client gives up its claim.
    GiveUp(usize),
    /// A slow client counts its votes.
    Count(usize),
    /// A node does not answer a client any more.
    Silence(usize, usize),
    Restart(usize),
    Flush(usize),
    /// A client becomes slow.
    Slow(usize),
    /// The fault ends.
    Heal,
}

impl Model for Scope {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        // If no client can hold the lock any more, nothing new can go wrong.
        if world.matters(self) {
            world.actions(self, actions);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.take(self, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("two_holders", |scope: &Self, world: &World| !world.both_hold(scope)),
            Property::always("tokens_grow", |_: &Self, world: &World| !world.fell),
            // `is_alive` requires some of these: a model in which nobody gets the lock finds
            // nothing.
            Property::sometimes("both_got_it", |_: &Self, world: &World| world.has_won(0) && world.has_won(1)),
            Property::sometimes("first_got_it", |_: &Self, world: &World| world.has_won(0)),
            Property::sometimes("second_got_it", |_: &Self, world: &World| world.has_won(1)),
            Property::sometimes("shut_out", |_: &Self, world: &World| world.is_shut_out()),
        ]
    }
}
