//! How a node is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::rules::doubt::Doubt;
use crate::rules::list::Record;
use crate::words;

/// Whether a node takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// It votes.
    Up,
    /// It answers, but does not vote on claims yet: it may have forgotten who holds what.
    Quarantined {
        /// For how much longer.
        left: Duration,
        /// Why.
        doubt: Doubt,
    },
    /// The first attempt to connect has not ended yet, or this client's list is not in force there yet.
    Connecting,
    /// There is no connection, and why.
    Down {
        /// What the last attempt met.
        why: String,
    },
    /// It renews and releases, and does not vote on claims: another list of nodes is in force there.
    OtherList {
        /// Which, and what to do.
        why: Arc<str>,
    },
    /// It renews and releases, and none of its votes counts: its name leads clients to two servers.
    Twins {
        /// Which name.
        why: Arc<str>,
    },
    /// It can be reached and must not take part: it is a replica.
    Replica,
    /// It can be reached and must not take part: it runs in cluster mode.
    Cluster,
    /// It can be reached and must not take part: it is the same server as another node.
    Duplicate {
        /// That node.
        of: Arc<str>,
    },
}

impl NodeState {
    /// Whether its server was found, and must not take part.
    #[must_use]
    pub(crate) const fn is_unfit(&self) -> bool {
        matches!(self, Self::Replica | Self::Cluster | Self::Duplicate { .. })
    }

    /// Whether the node is admitted: it renews and releases, and votes on claims now or as soon as
    /// its quarantine ends.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self, Self::Up | Self::Quarantined { .. })
    }
}

/// How a node is that is connected, and not of use before this client's list is in force there.
pub(crate) const UNLISTED: &str = "connected, and this client's list is not in force there yet";

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up => f.write_str("up"),
            Self::Quarantined { left, doubt } => {
                write!(f, "quarantined for {} more: {}", words::left(*left), suspicion(*doubt))
            }
            Self::Connecting => f.write_str("connecting"),
            Self::OtherList { why } => write!(f, "other list: {why}"),
            Self::Twins { why } => write!(f, "two servers: {why}"),
            Self::Down { why } => write!(f, "down: {why}"),
            Self::Replica => f.write_str("refused: it is a replica, which has no vote; configure its master"),
            Self::Cluster => f.write_str(
                "refused: it runs in cluster mode, where names lie in different slots; set cluster-enabled no",
            ),
            Self::Duplicate { of } => write!(f, "refused: it is the same server as {of}; name each server once"),
        }
    }
}

/// What is feared of a node.
const fn suspicion(doubt: Doubt) -> &'static str {
    match doubt {
        Doubt::Restarted => "this server is new, has restarted or forgot, and may have forgotten locks",
        Doubt::Forgot => "it forgot what it had granted (FLUSHALL, a deleted key, an old state)",
        Doubt::ClockStepped => "its clock was stepped, so it may have ended locks early",
        Doubt::Unsynced => "it waits for the others to tell it which tokens were dealt",
    }
}

/// How a node is, and what it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The node's address, without user and password.
    pub node: Arc<str>,
    /// Its name in the list of nodes.
    pub name: Arc<str>,
    /// Whether it takes part.
    pub state: NodeState,
    /// Its server's run id; `None` if there is no connection.
    pub run: Option<String>,
    /// The last round trip.
    pub round_trip: Option<Duration>,
    /// The server's version.
    pub version: Option<String>,
    /// For how long the server had been up when it was last connected to.
    pub uptime: Option<Duration>,
    /// The `maxmemory-policy` by which the server may evict locks; `None` where it evicts nothing.
    pub evicts: Option<String>,
    /// Why the server cannot read its record, by which it judges claims; `None` where it can. It
    /// grants nothing until then.
    pub unreadable: Option<String>,
    /// The `maxmemory` of the server, if it used more when it was last asked and evicts nothing:
    /// then it grants nothing.
    pub out_of_memory: Option<String>,
    /// Why the server does not notify waiters of this client; `None` where it does. Waiting takes
    /// longer without.
    pub no_wake_ups: Option<String>,
    /// The record that the server returned last; `None` if it has none.
    pub record: Option<Record>,
}

impl NodeStatus {
    /// A node of which no more is known than its state.
    #[must_use]
    pub fn new(node: Arc<str>, state: NodeState) -> Self {
        Self {
            name: node.clone(),
            node,
            state,
            run: None,
            round_trip: None,
            version: None,
            uptime: None,
            evicts: None,
            unreadable: None,
            out_of_memory: None,
            no_wake_ups: None,
            record: None,
        }
    }
}
