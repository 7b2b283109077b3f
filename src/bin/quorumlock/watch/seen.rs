//! The nodes' reports at one moment, as plain data that other modules draw and compare.

use std::time::Duration;

/// How good a state or an event is. The screen shows this as a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Good,
    Doubtful,
    Bad,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// The node's address, without user and password.
    pub(super) label: String,
    /// The node's state in one word. States with the same word count as equal.
    pub(super) word: &'static str,
    /// The node's state as the table shows it.
    pub(super) state: String,
    pub(super) mood: Mood,
    /// What keeps the node from voting.
    pub(super) why: Option<String>,
    /// How long the node's last answer took.
    pub(super) round_trip: Option<Duration>,
    /// Whether the node's last answer took long, or the pending request already takes long.
    pub(super) slow: bool,
    /// Whether the node's last inspection failed.
    pub(super) fails: bool,
    /// The id of the node's record; empty if there is no record. If the id changes, the node may
    /// have forgotten locks.
    pub(super) memory: String,
    /// How many nodes are in the list of the node's clients, or why this number is unknown.
    pub(super) record: String,
    /// The holder that the node names, or `free`; `?` or `-` if this is unknown.
    pub(super) holder: String,
    /// For how much longer the node holds the name for this holder.
    pub(super) left: Option<Duration>,
}

/// Who holds a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hold {
    /// Whether a quorum of nodes reports the same: that this holder has the name, or that the name
    /// is free.
    pub(super) agreed: bool,
    /// The holder. In the list of all names, the last known holder while no quorum agrees.
    pub(super) holder: Option<String>,
    /// The number of readers, if readers hold the name.
    pub(super) readers: Option<u32>,
    pub(super) revoked: bool,
    pub(super) note: String,
    pub(super) held_for: Option<Duration>,
    /// The highest fence that a node reported.
    pub(super) fence: u64,
    /// The time for which a quorum of nodes still holds the name for its holder.
    pub(super) left: Option<Duration>,
    /// The time that was left when the nodes answered. `left` is shorter by the answers' age.
    pub(super) told: Option<Duration>,
    /// The longest time left that was reported for this holder.
    pub(super) most: Option<Duration>,
    pub(super) waiting: u32,
    /// Whether the name is held as the gate of a semaphore.
    pub(super) gate: bool,
}

/// Whether a quorum of nodes votes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quorum {
    pub(super) votes: bool,
    /// The sentence for the log, if `votes` has changed.
    pub(super) news: String,
}

/// The nodes, and who holds the name that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) nodes: Vec<Node>,
    /// How many nodes vote and what that means, in one sentence.
    pub(super) verdict: String,
    pub(super) mood: Mood,
    /// `None` while it is unknown whether a quorum votes.
    pub(super) quorum: Option<Quorum>,
    /// `None` before the nodes have answered, or if no name is watched.
    pub(super) hold: Option<Hold>,
}

/// The names that are held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// The names, sorted, each with its hold.
    pub(super) held: Vec<(String, Hold)>,
    /// Whether `held` has all names that were found. If too many names were found, `held` has only
    /// some of them.
    pub(super) whole: bool,
    /// Whether no name is missing: a quorum of nodes that know all names was read, and a quorum
    /// answered about each name.
    pub(super) complete: bool,
}
