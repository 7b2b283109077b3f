//! A node's state.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::rules::doubt::Doubt;
use crate::rules::list::Record;
use crate::words;

/// Whether a node takes part in votes, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// The node's votes count.
    Up,
    /// The node is connected, but its votes on claims do not count yet. It may have forgotten holds
    /// or ended holds early, or it forgot and is not synced yet.
    Quarantined {
        /// How much longer the quarantine lasts at most. In
        /// [`Quorum::nodes`](crate::Quorum::nodes), this includes 3 s for the sync of a node that
        /// forgot, if too few other nodes are synced.
        left: Duration,
        /// The reason.
        doubt: Doubt,
    },
    /// The client is still connecting, or the client's list is not in force on the node yet.
    Connecting,
    /// Another client has just reported another server behind the node's name. No vote counts until
    /// the client has read the node's record again, which decides whether there are two servers.
    Unclear,
    /// There is no connection.
    Down {
        /// Why the last attempt failed, or the last connection ended.
        why: String,
    },
    /// The node's votes on claims do not count, because another list of nodes is in force. The node
    /// renews and releases locks.
    OtherList {
        /// How the other list differs from this client's list, and what to do.
        why: Arc<str>,
    },
    /// The node's name leads clients to two servers. The node renews and releases locks, but its
    /// votes on claims and renewals do not count.
    Twins {
        /// The evidence, and what to do.
        why: Arc<str>,
    },
    /// The client refuses the server, because it is a replica.
    Replica,
    /// The client refuses the server, because it runs in cluster mode.
    Cluster,
    /// The client refuses the server, because another node of this quorum is the same server.
    Duplicate {
        /// The other node.
        of: Arc<str>,
    },
}

impl NodeState {
    /// Whether the client refuses the node's server: it is a replica, a cluster or a duplicate.
    #[must_use]
    pub(crate) const fn is_unfit(&self) -> bool {
        matches!(self, Self::Replica | Self::Cluster | Self::Duplicate { .. })
    }

    /// Whether the state may end in a moment, with the node's next answer.
    #[must_use]
    pub const fn is_pending(&self) -> bool {
        matches!(self, Self::Connecting | Self::Unclear)
    }

    /// Whether the node takes part: its votes on claims count now, or will count after its
    /// quarantine.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self, Self::Up | Self::Quarantined { .. })
    }
}

/// The text for a node that is connected but not usable yet, because this client's list is not in
/// force on the node.
pub(crate) const UNLISTED: &str = "connected, but this client's list is not in force there yet";

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up => f.write_str("up"),
            // The time is not shown: if too few other nodes answer, it does not end.
            Self::Quarantined { doubt: doubt @ Doubt::Unsynced, .. } => {
                write!(f, "quarantined: {}", suspicion(*doubt))
            }
            Self::Quarantined { left, doubt } => {
                write!(f, "quarantined for {} more: {}", words::left(*left), suspicion(*doubt))
            }
            Self::Connecting => f.write_str("no answer yet"),
            Self::Unclear => f.write_str(
                "connected, but another client reports another server behind this node's name; this is being checked",
            ),
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

/// The reason for a doubt, as a text for the user.
const fn suspicion(doubt: Doubt) -> &'static str {
    match doubt {
        Doubt::Restarted => "this server is new, has restarted or lost its record, and may have forgotten locks",
        Doubt::Forgot => "it forgot its grants (FLUSHALL, a deleted key, an old snapshot)",
        Doubt::ClockStepped => "its clock was stepped, so it may have ended locks early",
        Doubt::Unsynced => "it waits until a client sends it the highest tokens in use",
    }
}

/// A node's state, and facts about its server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The node's address, without user and password.
    pub node: Arc<str>,
    /// The node's name in the list of nodes.
    pub name: Arc<str>,
    /// Whether the node's votes count; if they do not, why.
    pub state: NodeState,
    /// The server's run id; `None` if there is no connection.
    pub run: Option<String>,
    /// The last round trip.
    pub round_trip: Option<Duration>,
    /// The server's version.
    pub version: Option<String>,
    /// How long the server had been up at the last INFO.
    pub uptime: Option<Duration>,
    /// The `maxmemory-policy` by which the server may evict locks; `None` if it evicts nothing.
    pub evicts: Option<String>,
    /// Why the server cannot read the node's record; `None` if the record is readable. A server
    /// that cannot read the record grants nothing.
    pub unreadable: Option<String>,
    /// The server's `maxmemory`, if the server evicts nothing and used more memory than this at the
    /// last INFO. Such a server grants nothing. `None` otherwise.
    pub out_of_memory: Option<String>,
    /// Why the server cannot send hints to waiters of this client; `None` if it can. Without hints,
    /// waiting takes longer.
    pub no_wake_ups: Option<String>,
    /// The record that the server returned last; `None` if it has none.
    pub record: Option<Record>,
}

impl NodeStatus {
    /// The status of a node of which only the state is known.
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
