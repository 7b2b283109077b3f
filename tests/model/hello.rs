//! Records and lists in small scope, exhausted: two clients that hold one name once each, and perhaps
//! a third that only says hello, over three servers or five; time in ticks of a second, `max_ttl` of
//! five, at most one fault. Never both hold, and tokens grow.
//!
//! Real are what a node stores and answers (its record and who holds the name), what follows from
//! that for one node ([`RestartGuard`](quorumlock::rules::RestartGuard)) and for all
//! ([`KnownNodes`](quorumlock::rules::known_nodes::KnownNodes)). What carries out the book's plans is restated here:
//! `src/protocol/hello.rs` and `src/node/redis`, among code that waits. So are claims. What is left
//! out:
//!
//! * Hellos take no time, unless a node is silent for their client: then they are lost. A client says
//!   hello as soon as it is due, but one that is slow says none.
//! * A claim reaches nodes of one list alone at once, and a node that two lists have when it likes.
//! * Each client claims once, sends no renewal, and lets its lock end by itself.
//! * Clients reach a restarted server again at once.

mod client;
mod nodes;
mod world;

use stateright::{Model, Property};

use crate::scope::{Size, Ticks};
use world::World;

/// How many servers there are.
pub const SERVERS: usize = 5;

/// What goes wrong, once in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The server does not answer one client for so many ticks at most.
    Silent(usize, Ticks),
    /// The server restarts with nothing in its memory, or executes FLUSHALL.
    Restart(usize),
    Flush(usize),
    /// A client says no hello and counts no votes for so many ticks at most, and goes on by what it
    /// knew then.
    Slow(Ticks),
}

/// The bounds of one exploration.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    pub name: &'static str,
    pub lists: [&'static [usize]; 2],
    /// Whether a third client, of the first one's list, says hello to all.
    pub third: bool,
    /// Which servers each of the two never reaches.
    pub cut: [&'static [usize]; 2],
    pub fault: Fault,
    /// By how much the wall clock of the first client is ahead, in ballots.
    pub ahead: u64,
    /// The last moment.
    pub end: Ticks,
}

const ALIKE: [&[usize]; 2] = [&[0, 1, 2], &[0, 1, 2]];
const ONE_SHARED: [&[usize]; 2] = [&[0, 1, 2], &[2, 3, 4]];

impl Scope {
    /// Whether both lists have it.
    pub fn shares(&self, server: usize) -> bool {
        self.lists.iter().all(|list| list.contains(&server))
    }

    pub fn is_alike(&self) -> bool {
        self.lists[0] == self.lists[1]
    }

    /// Whether it shows what it is about: one gets the lock after the other if they have one list; else
    /// each does in some run, and somebody is shut out.
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
    // The first holds by 1 and 2, the second reaches 0 and 1, and a third one all.
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
    // Without optimization each of these takes a minute.
    let many = [
        lists("lists, slow", Fault::Slow(12), 15),
        records("records, restart", Fault::Restart(1)),
        records("records, flush", Fault::Flush(1)),
    ];
    few.into_iter().chain(many.into_iter().filter(|_| !small)).collect()
}

/// What may happen. A node of a client is its place in the list of that client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Tick,
    /// A client starts.
    Start(usize),
    /// It claims the name from the nodes that vote.
    Claim(usize),
    /// That reaches a node, which answers.
    Vote(usize, usize),
    /// It gives up.
    GiveUp(usize),
    /// A client that is slow counts its votes.
    Count(usize),
    /// A node does not answer a client any more.
    Silence(usize, usize),
    Restart(usize),
    Flush(usize),
    /// A client is slow from now on.
    Slow(usize),
    /// What went wrong is over.
    Heal,
}

impl Model for Scope {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        // Where one can hold no more, nothing can go wrong that has not.
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
            // A model in which nobody gets the lock, or is shut out, would find nothing.
            Property::sometimes("both_got_it", |_: &Self, world: &World| world.has_won(0) && world.has_won(1)),
            Property::sometimes("first_got_it", |_: &Self, world: &World| world.has_won(0)),
            Property::sometimes("second_got_it", |_: &Self, world: &World| world.has_won(1)),
            Property::sometimes("shut_out", |_: &Self, world: &World| world.is_shut_out()),
        ]
    }
}
