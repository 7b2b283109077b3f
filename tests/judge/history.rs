//! What happened, in order. The world writes the history, and the judge reads it. The history knows
//! nothing of the library.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::text::Line;

/// Microseconds since the run began.
pub type Micros = u64;
/// An owner: the number of a text in the history's table.
pub type Owner = u32;

pub const SECOND: Micros = 1_000_000;

/// How many events before a violation are shown, and how many after it.
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

/// A node's answer, reduced to what the judge needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The claimant holds the name.
    Granted,
    /// The ballot was not above the fence.
    Stale,
    Extended,
    Healed,
    /// Another owner holds the name, or another waiter comes first.
    Refused,
    /// A release or withdrawal was carried out; true if the owner held the name.
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
    /// The server to which the node's name led.
    pub server: u8,
    pub name: u8,
    /// The other names of the operation, one bit each.
    pub also: u16,
    pub verb: Verb,
    pub owner: Owner,
    /// Whether the owner takes a place in the queue if the name is not granted.
    pub waits: bool,
    /// Whether the owner is a reader.
    pub shared: bool,
    pub ballot: u64,
    /// The token of a release; 0 if the owner never held the name.
    pub token: u64,
    /// In milliseconds.
    pub ttl: u32,
    /// How long a hand-over is to last, or lasts, in milliseconds.
    pub hand: u32,
    /// When the operation was submitted.
    pub sent: Micros,
}

impl Op {
    /// One operation for each name of this operation.
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
    /// The lock was held until its release.
    Released,
    /// The lock had ended before its release.
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
    /// The client got the name. `until` is its deadline.
    Acquired {
        process: u16,
        ask: u32,
        name: u8,
        lease: u32,
        token: u64,
        until: Micros,
        /// Whether the client is a reader.
        shared: bool,
        /// The owner whose claims won the name, if known.
        owner: Option<Owner>,
    },
    /// The lease is a permit for a period: it must be the first one in this period.
    First {
        process: u16,
        lease: u32,
        name: u8,
        period: Micros,
    },
    /// The client undid its permit: others may get a permit for the period.
    Undone {
        process: u16,
        lease: u32,
    },
    /// A claim that began at `began` got no permit: another client had one for this period.
    Skipped {
        process: u16,
        name: u8,
        began: Micros,
        period: Micros,
    },
    /// The writer is about to become a reader. It no longer believes that it holds the name as a
    /// writer.
    Yields {
        process: u16,
        lease: u32,
    },
    /// The holder made a ticket of its lock. It no longer believes that it holds the name. Nodes
    /// keep the name, so that another client can resume the lock.
    HandsOn {
        process: u16,
        lease: u32,
    },
    /// The `writer` became the reader with `lease` by a downgrade, or its lock was resumed with
    /// `lease`. Nobody else may have written since the writer yielded.
    Follows {
        process: u16,
        lease: u32,
        writer: u32,
    },
    /// The leader is about to proclaim a value, which nobody else proclaims.
    Proclaims {
        process: u16,
        lease: u32,
        value: u32,
    },
    /// An observer saw a leader, and the last value that this leader proclaimed, if any.
    Saw {
        process: u16,
        observer: u32,
        name: u8,
        owner: Owner,
        token: u64,
        value: Option<u32>,
    },
    /// Long after all faults and all earlier values, the observer has not seen the last value.
    Unseen {
        process: u16,
        observer: u32,
    },
    /// The lease is a permit. In the client's configuration, the semaphore has `permits` permits:
    /// no more may be held at a time.
    Counted {
        process: u16,
        lease: u32,
        permits: u32,
    },
    /// The client got a name that its session already holds, by this lease.
    Shares {
        process: u16,
        ask: u32,
        name: u8,
        lease: u32,
    },
    /// The client was granted a session, which holds nothing yet.
    Begun {
        process: u16,
        ask: u32,
    },
    /// A session of this process should hold this name and does not, or should not hold this name
    /// and does.
    HeldAmiss {
        process: u16,
        name: u8,
    },
    /// No fault has happened for longer than a ttl. So the two leases of a session must have been
    /// renewed at one moment.
    Together {
        process: u16,
        lease: u32,
        other: u32,
    },
    /// The client did not get the name.
    Failed {
        process: u16,
        ask: u32,
        name: u8,
        unavailable: bool,
        /// Whether another list, or another version of the protocol, is in force on nodes.
        kept_out: bool,
    },
    /// A try returned that another owner has the name.
    Denied {
        process: u16,
        name: u8,
    },
    /// The client dropped its call before the result came.
    Cancelled {
        process: u16,
        ask: u32,
        name: u8,
    },
    /// The lease reported whether it is held, and until when.
    Sample {
        process: u16,
        name: u8,
        lease: u32,
        held: bool,
        until: Micros,
    },
    /// The holder gives the lease up.
    Released {
        process: u16,
        name: u8,
        lease: u32,
    },
    /// The release returned to the holder that a quorum of nodes has freed the name.
    Freed {
        process: u16,
        name: u8,
        lease: u32,
    },
    /// A release has returned to its holder. If the release has several names, there is one event
    /// for each name, and `more` is true for all events except the last one. A release waits for
    /// `round` at most.
    ReleaseTold {
        process: u16,
        name: u8,
        lease: u32,
        told: Told,
        round: Micros,
        more: bool,
    },
    /// The holder learned that the lease is lost.
    LostTold {
        process: u16,
        name: u8,
        lease: u32,
        /// Whether the lease ended at its deadline, and not earlier.
        expired: bool,
    },
    /// The work under a lost lease has ended: its guard is dropped now.
    LetGo {
        process: u16,
        name: u8,
        lease: u32,
    },
    /// A quorum of nodes has revoked the name. Leases that were acquired before the revocation
    /// `began`, and leases with a token below its ballot, must have ended at `by`.
    Revoked {
        process: u16,
        name: u8,
        began: Micros,
        by: Micros,
    },
    /// A write of the holder reached the storage. `checked`: whether this storage checks tokens.
    /// `taken`: whether the storage took the write.
    Wrote {
        process: u16,
        name: u8,
        lease: u32,
        token: u64,
        taken: bool,
        checked: bool,
    },
    Submitted(Op),
    /// A node carried out the operation.
    Did(Op, Answer),
    /// The answer reached the process.
    Delivered(Op, Answer),
    /// A node handed the name over to a waiter. The `Op` describes the grant as a claim, which no
    /// client sent.
    HandedOver(Op),
    /// The push of a hand-over reached the process.
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
    /// The process shuts its quorum down, and so loses all its locks.
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
    /// A running server lost its data: it now has no data, or an old copy.
    Forgot {
        node: u8,
        memory: Memory,
    },
    /// A node's name leads all processes to another server.
    Moved {
        node: u8,
        server: u8,
    },
    /// A node's name begins to lead some processes to another server (`split`), or leads all
    /// processes to one server again.
    Split {
        node: u8,
        server: u8,
        split: bool,
    },
    /// The last fault has ended.
    Healed,
    /// At the end, a node still stores a hold.
    KeyLeft {
        node: u8,
    },
    LineLeft {
        node: u8,
    },
    /// A name has been free on a node since `since`, although this owner, the first live waiter,
    /// has a place there. By the time `by`, the waiter `asks` should have asked, and the name should
    /// be held again.
    Idle {
        node: u8,
        name: u8,
        owner: Owner,
        asks: Owner,
        since: Micros,
        by: Micros,
    },
    /// A node has carried out an operation that ends a wait, and the owner's place is still there.
    PlaceKept(Op),
    /// A node has granted a claim although the list in force there is not the client's list.
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

    /// The number of an owner. The history does not store the text before the last slash: it
    /// contains the process id, and so differs between runs.
    pub fn owner(&mut self, process: u16, text: &str) -> Owner {
        if let Some(&known) = self.owners.get(text) {
            return known;
        }
        let number = self.texts.len() as Owner;
        self.owners.insert(text.to_owned(), number);
        self.texts.push(format!("p{process}/{}", text.rsplit('/').next().unwrap_or(text)));
        number
    }

    /// A hash of the history: runs with the same hash had the same history.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.events.hash(&mut hasher);
        self.texts.hash(&mut hasher);
        hasher.finish()
    }

    pub fn line<'a>(&'a self, event: &'a Event) -> Line<'a> {
        Line { history: self, event }
    }

    /// The events before the event with this number, this event, and a few events after it.
    pub fn around(&self, event: usize) -> impl Iterator<Item = String> {
        let (first, last) = (event.saturating_sub(BEFORE), (event + BEHIND).min(self.events.len() - 1));
        self.events[first..=last].iter().map(|event| self.line(event).to_string())
    }

    pub fn text(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        for event in &self.events {
            let _ = writeln!(text, "{}", self.line(event));
        }
        text
    }
}
