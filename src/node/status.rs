//! How a node is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::rules::doubt::Doubt;
use crate::rules::roster::{Agreement, Counted, Roster, Seen, agreement, counted};
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
    /// The first attempt to connect has not ended yet.
    Connecting,
    /// It can be reached. Its votes count once another node of the list was heard, which may know of
    /// clients of another list; or once this has passed.
    Waiting {
        /// For how much longer.
        left: Duration,
    },
    /// There is no connection, and why.
    Down {
        /// What the last attempt met.
        why: String,
    },
    /// It renews and releases, and none of its votes counts: clients of another list use this or
    /// another node, or it does not take this client into its roster, as it refuses writes.
    Unlisted {
        /// Which they are, and what to do.
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
    /// Whether it is not known yet how it is.
    #[must_use]
    pub(crate) const fn is_connecting(&self) -> bool {
        matches!(self, Self::Connecting | Self::Waiting { .. })
    }

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

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up => f.write_str("up"),
            Self::Quarantined { left, doubt: Doubt::Restarted } => {
                let left = words::left(*left);
                write!(
                    f,
                    "quarantined for {left} more: this server is new or has restarted, and may have forgotten locks"
                )
            }
            Self::Quarantined { left, doubt: Doubt::ClockStepped } => {
                let left = words::left(*left);
                write!(f, "quarantined for {left} more: its clock was stepped, so it may have ended locks early")
            }
            Self::Quarantined { left, doubt: Doubt::Newcomer } => {
                let left = words::left(*left);
                write!(
                    f,
                    "waiting for {left} more: a server has just started, and clients of another list may come back to it"
                )
            }
            Self::Connecting => f.write_str("connecting"),
            Self::Waiting { left } => {
                let left = words::left(*left);
                write!(f, "waiting for {left} more: a node of the list that does not answer may know of another list")
            }
            Self::Unlisted { why } => write!(f, "unlisted: {why}"),
            Self::Down { why } => write!(f, "down: {why}"),
            Self::Replica => f.write_str("refused: it is a replica, which has no vote; configure its master"),
            Self::Cluster => f.write_str(
                "refused: it runs in cluster mode, where names lie in different slots; set cluster-enabled no",
            ),
            Self::Duplicate { of } => write!(f, "refused: it is the same server as {of}; name each server once"),
        }
    }
}

/// How a node is, and what it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The node's address, without user and password.
    pub node: Arc<str>,
    /// Whether it takes part.
    pub state: NodeState,
    /// Its server's run id, as rosters have it; `None` where there is no connection.
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
    /// The server's roster, when it told it last: whose votes its clients count.
    pub roster: Option<Roster>,
    /// Whether clients count the server's votes: this one, or for an onlooker those in the server's
    /// roster. `None` where that is not known.
    pub listed: Option<bool>,
}

impl NodeStatus {
    /// What it comes to on a list of nodes.
    #[must_use]
    fn seen(&self) -> Seen<'_> {
        Seen { label: &self.node, run: self.run.as_deref(), roster: self.latest() }
    }

    /// Its roster, where it can be reached: what a server told that has gone since may be of
    /// another time.
    #[must_use]
    pub fn latest(&self) -> Option<&Roster> {
        self.roster.as_ref().filter(|_| self.run.is_some())
    }

    /// A node of which no more is known than its state.
    #[must_use]
    pub const fn new(node: Arc<str>, state: NodeState) -> Self {
        Self {
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
            roster: None,
            listed: None,
        }
    }
}

impl Counted {
    /// Whose votes a client would count that comes now with this list, by the rosters that its
    /// nodes told last. [`Members::counted`](crate::Members::counted) has asked all of them.
    #[must_use]
    pub fn of(nodes: &[NodeStatus]) -> Self {
        counted(&nodes.iter().map(NodeStatus::seen).collect::<Vec<_>>())
    }
}

impl Agreement {
    /// Whether these nodes have one list, by the rosters that they told last. Those of retired
    /// nodes are among them; [`Members::agreement`](crate::Members::agreement) leaves those out.
    #[must_use]
    pub fn of(nodes: &[NodeStatus]) -> Self {
        agreement(&nodes.iter().map(NodeStatus::latest).collect::<Vec<_>>())
    }
}
