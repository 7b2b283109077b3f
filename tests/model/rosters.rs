//! Rosters in small scope, exhausted: two clients with lists of three servers out of four or five,
//! one name, time in ticks of 4.9 s, at most one fault. The rule is that never both hold.
//!
//! Real are what a node stores and answers (its roster and who holds the name), what follows from
//! answers (`decide`, `vouched`, `Roster::takes`), whose votes count (`Listing`, `Electorate`,
//! `Standing`), and what a client remembers of each node (`src/protocol/enrol/history.rs`). How a
//! client enrols (`src/protocol/enrol.rs` and `enrol/ring.rs`) is async, and is written here once
//! more as small steps ([`client`], [`enrol`]); so are claims. What is left out:
//!
//! * A client looks at all nodes at one moment, and writes again what all have at one moment. What
//!   else it writes, and its claims, reach each node that both lists have when they like (the first
//!   client's in the order of its list, the second's in the other order), and the others at once.
//!   Answers come with that; a client that is slow reads them later.
//! * What was sent to a node that does not answer is lost, and a round that began anew hears only
//!   what had come by then.
//! * Who runs enrols at every tick, as the product does every 4 to 5 s, and again in the same tick
//!   whenever a node was connected to or has gone. Only a client that is slow does not.
//! * Two states within one tick have the same time: what takes less than 4.9 s takes none.
//! * Each client claims once, sends no renewal, and lets its lock end by itself. Its ballot is high
//!   enough for each node. Votes of a server that has been up for less than `max_ttl` do not count;
//!   other doubts are not there. Nobody is retired, and all have one N, protocol, ttl and `max_ttl`.
//! * The first client starts at once. Only servers that both lists have restart or fall silent.
//! * What rosters do not promise is kept out. Where lists share one server only, it is silent for one
//!   tick at most for a client that runs, has not enrolled it, and was not refused by it, and for 3
//!   ticks at most for others.
#![allow(clippy::cast_possible_truncation, reason = "numbers are small")]

mod client;
mod enrol;
#[path = "../../src/protocol/enrol/first.rs"]
#[allow(dead_code, reason = "its unit tests run elsewhere")]
mod first;
#[path = "../../src/protocol/enrol/history.rs"]
#[allow(dead_code, reason = "nobody is retired here; its unit tests run elsewhere")]
mod history;
mod nodes;
mod world;

use stateright::{Model, Property};

use crate::scope::{Size, Ticks};
use world::World;

/// How many servers a list has.
pub const LIST: usize = 3;

/// What goes wrong, once in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// A server that both lists have does not answer one client for so many ticks at most, or is
    /// connected to so late.
    Silent(Ticks),
    /// A server that both lists have restarts with nothing in its memory.
    Restart,
    /// A client is slow for so many ticks at most: it enrols no more, and reads answers, draws its
    /// conclusions and claims when it likes.
    Slow(Ticks),
}

/// The bounds of one exploration.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    pub name: &'static str,
    pub lists: [[usize; LIST]; 2],
    pub fault: Fault,
    /// The last moment.
    pub end: Ticks,
}

const ALIKE: [[usize; LIST]; 2] = [[0, 1, 2], [0, 1, 2]];
const TWO_SHARED: [[usize; LIST]; 2] = [[0, 1, 2], [1, 2, 3]];
const ONE_SHARED: [[usize; LIST]; 2] = [[0, 1, 2], [2, 3, 4]];

impl Scope {
    /// Whether both lists have it.
    pub fn shares(&self, server: usize) -> bool {
        self.lists.iter().all(|list| list.contains(&server))
    }

    /// The servers that both lists have.
    pub fn shared(&self) -> impl Iterator<Item = usize> {
        self.lists[0].into_iter().filter(|server| self.shares(*server))
    }

    pub fn shares_one(&self) -> bool {
        self.shared().count() == 1
    }

    /// Whether one client is to get the lock after the other.
    pub fn passes_on(&self) -> bool {
        self.lists[0] == self.lists[1]
    }

    /// Whether it shows what it is about: one client gets the lock after the other, where they have
    /// one list; else each does in some run, and somebody is refused.
    pub fn is_alive(&self, shown: &dyn Fn(&str) -> bool) -> bool {
        let each = shown("first_got_it") && shown("second_got_it");
        if self.passes_on() { shown("both_got_it") } else { each && shown("refused") }
    }
}

pub fn scopes(size: Size) -> Vec<Scope> {
    let small = size == Size::Small;
    let scope = |name, lists, fault, end| Scope { name, lists, fault, end };
    let mut scopes = vec![
        scope("rosters, one list", ALIKE, Fault::None, 2),
        scope("rosters, one shared", ONE_SHARED, Fault::None, if small { 2 } else { 6 }),
        scope("rosters, one shared, silent", ONE_SHARED, Fault::Silent(3), if small { 2 } else { 5 }),
        scope("rosters, one shared, restart", ONE_SHARED, Fault::Restart, if small { 3 } else { 5 }),
        scope("rosters, one shared, slow", ONE_SHARED, Fault::Slow(7), if small { 4 } else { 7 }),
    ];
    if !small {
        let end = if size == Size::Full { 3 } else { 2 };
        scopes.extend([
            scope("rosters, two shared, silent", TWO_SHARED, Fault::Silent(end), end),
            scope("rosters, two shared, restart", TWO_SHARED, Fault::Restart, end),
            scope("rosters, two shared, slow", TWO_SHARED, Fault::Slow(end), end),
        ]);
    }
    scopes
}

/// What may happen. A node of a client is its place in the list of that client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Tick,
    /// A client starts.
    Start(usize),
    /// It connects to a node.
    Connect(usize, usize),
    /// It begins a round of enrolling: looks, or writes at once.
    Enrol(usize),
    /// What it writes reaches a node, which answers.
    Write(usize, usize),
    /// It draws its conclusions.
    Conclude(usize),
    /// It claims the name where its votes may count.
    Claim(usize),
    /// That reaches a node, which answers.
    Vote(usize, usize),
    /// It counts votes.
    Count(usize),
    /// A node does not answer a client any more.
    Silence(usize, usize),
    /// A server restarts.
    Restart(usize),
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
            Property::always("two_holders", |_: &Self, world: &World| !world.both_hold()),
            // A model in which nobody gets the lock, or is refused, would find nothing.
            Property::sometimes("both_got_it", |_: &Self, world: &World| world.has_won(0) && world.has_won(1)),
            Property::sometimes("first_got_it", |_: &Self, world: &World| world.has_won(0)),
            Property::sometimes("second_got_it", |_: &Self, world: &World| world.has_won(1)),
            Property::sometimes("refused", |_: &Self, world: &World| world.refuses()),
        ]
    }
}
