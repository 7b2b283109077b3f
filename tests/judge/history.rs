//! What happened, in order. Written by the world, read by the judge; knows nothing of the library.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::text::Line;

/// Microseconds since the run began.
pub type Micros = u64;
/// An owner: the number of a text in the history's table.
pub type Owner = u32;

pub const SECOND: Micros = 1_000_000;

/// How many events before a violation are shown, and how many behind.
const BEFORE: usize = 60;
const BEHIND: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    Claim,
    Renew,
    Release,
    Withdraw,
    Revoke,
    Other,
}

/// What a node answered, as far as the judge cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The claimant holds it.
    Granted,
    /// The ballot was not above the fence.
    Stale,
    Extended,
    Healed,
    /// Somebody else holds it, or it is another's turn.
    Refused,
    /// Released or withdrawn: had it been held?
    Released(bool),
    /// The node has no record, and carried nothing out.
    Forgot,
    /// There is no answer, or none that counts.
    Fault,
    Other,
}

/// One operation on its way between a process and a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    pub process: u16,
    pub node: u8,
    /// To which the node's name led.
    pub server: u8,
    pub name: u8,
    /// Which names it is about besides, a bit each.
    pub also: u16,
    pub verb: Verb,
    pub owner: Owner,
    /// Whether it is to stand in line from now on, if it holds nothing.
    pub waits: bool,
    /// Of a reader.
    pub shared: bool,
    pub ballot: u64,
    /// Of a release; 0 of one that never held it.
    pub token: u64,
    /// Milliseconds.
    pub ttl: u32,
    /// Milliseconds that it asks to be handed over for, or is.
    pub hand: u32,
    /// When it was submitted.
    pub sent: Micros,
}

impl Op {
    /// The same for each of its names.
    pub fn each(self) -> impl Iterator<Item = Self> {
        let also = (0..16).filter(move |name| self.also >> name & 1 == 1);
        std::iter::once(self.name).chain(also).map(move |name| Self { name, also: 0, ..self })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    Kept,
    Empty,
    Old,
}

/// The result that a release returns to the holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    /// It was held until then.
    Released,
    /// It had ended before.
    Expired,
    /// Too few nodes have answered.
    Unconfirmed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// A client asks for a name, and must have its answer by `by` unless its process stands still.
    Asked {
        process: u16,
        ask: u32,
        name: u8,
        by: Micros,
        must: bool,
    },
    /// It got it: `until` is how long it believes.
    Acquired {
        process: u16,
        ask: u32,
        name: u8,
        lease: u32,
        token: u64,
        until: Micros,
        /// As a reader.
        shared: bool,
        /// Whose claims it came from, if that is known.
        owner: Option<Owner>,
    },
    /// What it got is the first of a period.
    First {
        process: u16,
        lease: u32,
        name: u8,
        period: Micros,
    },
    /// It undid its period: others may be the first.
    Undone {
        process: u16,
        lease: u32,
    },
    /// Since `began` it was told that somebody had the period, and it has nothing to do.
    Skipped {
        process: u16,
        name: u8,
        began: Micros,
        period: Micros,
    },
    /// The writer is about to become a reader: it does not believe to write any more.
    Yields {
        process: u16,
        lease: u32,
    },
    /// The reader was the writer, and nobody else wrote since that yielded.
    Follows {
        process: u16,
        lease: u32,
        writer: u32,
    },
    /// The leader is about to proclaim a value, which nobody else does.
    Proclaims {
        process: u16,
        lease: u32,
        value: u32,
    },
    /// An observer was told who leads, and what that proclaimed last, if anything.
    Saw {
        process: u16,
        observer: u32,
        name: u8,
        owner: Owner,
        token: u64,
        value: Option<u32>,
    },
    /// All is quiet for long, and it was not told of the last.
    Unseen {
        process: u16,
        observer: u32,
    },
    /// What it got is one of so many permits, as far as it knows: no more of them are held together.
    Counted {
        process: u16,
        lease: u32,
        permits: u32,
    },
    /// It got it as another caller of the same session, which has it as this lease.
    Shares {
        process: u16,
        ask: u32,
        name: u8,
        lease: u32,
    },
    /// It was granted a session, which holds nothing yet.
    Begun {
        process: u16,
        ask: u32,
    },
    /// The session of this process does not hold this name as it should, or does and should not.
    HeldAmiss {
        process: u16,
        name: u8,
    },
    /// Nothing has gone wrong for longer than a ttl: what is held by both was renewed at one moment.
    Together {
        process: u16,
        lease: u32,
        other: u32,
    },
    /// It did not.
    Failed {
        process: u16,
        ask: u32,
        name: u8,
        unavailable: bool,
        /// Because clients of another list, or another protocol, have the nodes.
        kept_out: bool,
    },
    /// A try was told that somebody else has the name.
    Denied {
        process: u16,
        name: u8,
    },
    /// It went away without waiting for the answer.
    Cancelled {
        process: u16,
        ask: u32,
        name: u8,
    },
    /// Asked whether it is held, the lease said so.
    Sample {
        process: u16,
        name: u8,
        lease: u32,
        held: bool,
        until: Micros,
    },
    /// The holder gives it up.
    Released {
        process: u16,
        name: u8,
        lease: u32,
    },
    /// The holder is told that a quorum of nodes has freed what it gave up.
    Freed {
        process: u16,
        name: u8,
        lease: u32,
    },
    /// A release has returned to its holder. If the release has several names, there is one event for
    /// each name, and `more` is true for all but the last. It waits for `round` at most.
    ReleaseTold {
        process: u16,
        name: u8,
        lease: u32,
        told: Told,
        round: Micros,
        more: bool,
    },
    /// The holder is told that it lost it.
    LostTold {
        process: u16,
        name: u8,
        lease: u32,
        /// Because its time ran out; else something else ended it before.
        expired: bool,
    },
    /// Nothing works any more under what was lost: its guard is dropped now.
    LetGo {
        process: u16,
        name: u8,
        lease: u32,
    },
    /// A quorum of nodes has taken the name away from whoever held it when that `began`, and from
    /// whoever has a token below the ballot of that: it is over `by` then.
    Revoked {
        process: u16,
        name: u8,
        began: Micros,
        by: Micros,
    },
    /// The holder was asked to do something only holders may, and may have been refused.
    Wrote {
        process: u16,
        name: u8,
        lease: u32,
        token: u64,
        taken: bool,
        checked: bool,
    },
    Submitted(Op),
    /// A node carried it out.
    Did(Op, Answer),
    /// The answer reached the process.
    Delivered(Op, Answer),
    /// A node granted the name with a release: an operation that nobody sent.
    HandedOver(Op),
    /// That reached the process.
    Pushed(Op),
    Started {
        process: u16,
    },
    Paused {
        process: u16,
        suspended: bool,
    },
    Resumed {
        process: u16,
    },
    Killed {
        process: u16,
    },
    /// It shuts its quorum down, with all that it holds.
    ShutDown {
        process: u16,
    },
    NodeDown {
        node: u8,
        memory: Memory,
    },
    NodeUp {
        node: u8,
    },
    ClockStepped {
        node: u8,
        by_ms: i64,
    },
    WallStepped {
        process: u16,
        by_ms: i64,
    },
    Cut {
        process: u16,
        node: u8,
        there: bool,
        back: bool,
    },
    Hung {
        node: u8,
        hung: bool,
    },
    Replaced {
        process: u16,
        node: u8,
    },
    Connected {
        process: u16,
        node: u8,
    },
    Weather {
        bad: bool,
    },
    /// What a server stores became another under its running process: nothing, or an old copy.
    Forgot {
        node: u8,
        memory: Memory,
    },
    /// A name leads everybody to another server.
    Moved {
        node: u8,
        server: u8,
    },
    /// A name leads some processes to another server than the rest; or not any more.
    Split {
        node: u8,
        server: u8,
        split: bool,
    },
    /// The last fault has ended.
    Healed,
    /// At the end: something that should be gone.
    KeyLeft {
        node: u8,
    },
    LineLeft {
        node: u8,
    },
    /// A name is free on a node since then, though this owner waits for it, the first of those that
    /// live. By then it was to be somebody's: a waiter was to ask.
    Idle {
        node: u8,
        name: u8,
        owner: Owner,
        since: Micros,
        by: Micros,
    },
    /// A node has carried out what ends a wait, and the place in line is still there.
    PlaceKept(Op),
    /// A node has granted a claim though the list that is in force there is not the client's.
    GrantedToOther(Op),
    TasksLeft {
        process: u16,
        tasks: u32,
    },
    EntriesLeft {
        process: u16,
        lines: u32,
        timers: u32,
        ears: u32,
    },
    NotQuiet {
        process: u16,
    },
    /// The end came before all clients had finished.
    Unfinished {
        clients: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    pub at: Micros,
    pub what: What,
}

#[derive(Debug, Default)]
pub struct History {
    pub events: Vec<Event>,
    owners: HashMap<String, Owner>,
    pub(super) texts: Vec<String>,
}

impl History {
    pub fn record(&mut self, at: Micros, what: What) {
        self.events.push(Event { at, what });
    }

    /// The number of an owner. What is before its last slash differs between runs (it holds the
    /// process id) and is not kept.
    pub fn owner(&mut self, process: u16, text: &str) -> Owner {
        if let Some(&known) = self.owners.get(text) {
            return known;
        }
        let number = self.texts.len() as Owner;
        self.owners.insert(text.to_owned(), number);
        self.texts.push(format!("p{process}/{}", text.rsplit('/').next().unwrap_or(text)));
        number
    }

    /// A number that two histories share only if they are the same.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.events.hash(&mut hasher);
        self.texts.hash(&mut hasher);
        hasher.finish()
    }

    /// One line of text.
    pub fn line<'a>(&'a self, event: &'a Event) -> Line<'a> {
        Line { history: self, event }
    }

    /// What happened before the event of that number, and a little of what happened after it.
    pub fn around(&self, event: usize) -> impl Iterator<Item = String> {
        let (first, last) = (event.saturating_sub(BEFORE), (event + BEHIND).min(self.events.len() - 1));
        self.events[first..=last].iter().map(|event| self.line(event).to_string())
    }

    /// The whole, as text.
    pub fn text(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        for event in &self.events {
            let _ = writeln!(text, "{}", self.line(event));
        }
        text
    }
}
