//! Whether one node votes on claims, and why it does not.

use std::time::Duration;

use quorumlock::{Doubt, Inspection, List, NodeState, NodeStatus};

use super::idle::{ROUNDED, forgot_unseen, has_restarted_unseen, is_idle, is_unused};
use crate::raw_connection::remedies::mend;
use crate::raw_connection::rights::{Asked, Lacks};

/// Whether a node votes on claims of this client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    Now,
    /// The node votes after this time, if nothing else happens.
    In(Duration),
    /// The node votes this long after its next client has come. Zero counts as a vote now.
    AfterAClient(Duration),
    /// The node knows who holds a name, but grants no lock. The text is the reason.
    GrantsNothing(String),
    /// The node cannot lock the inspected name, for this reason, but can lock other names.
    NotThisName(String),
    /// The node does not know who holds a name, for this reason.
    Unknown(String),
    /// The node was not reached, or may not vote. The node's state says why.
    Absent,
}

impl Vote {
    /// The time until the node votes; `None` if this time is unknown, because the node may need a
    /// repair.
    pub(super) const fn wait(&self) -> Option<Duration> {
        match self {
            Self::Now => Some(Duration::ZERO),
            Self::In(wait) | Self::AfterAClient(wait) => Some(*wait),
            _ => None,
        }
    }

    /// Whether the node votes now.
    pub(crate) fn is_now(&self) -> bool {
        self.wait().is_some_and(|wait| wait.is_zero())
    }

    /// Why a node that was reached grants no lock. `None` if the node grants locks, or if its state
    /// says why not.
    pub(super) fn refusal(&self) -> Option<&str> {
        match self {
            Self::GrantsNothing(why) | Self::NotThisName(why) | Self::Unknown(why) => Some(why),
            _ => None,
        }
    }
}

/// The known facts about one node.
pub(super) struct Node<'a> {
    pub(super) status: &'a NodeStatus,
    /// The node's reply about the inspected name.
    pub(super) said: &'a Result<Inspection, String>,
    pub(super) asked: Asked,
    /// Whether clients lately saw a record on the node.
    pub(super) met: bool,
    /// The list of nodes in this command's settings.
    pub(super) list: &'a List,
}

impl Node<'_> {
    /// The node's reply about the user's rights, about writes and about forgotten locks; `None` if
    /// there is no such reply.
    pub(super) fn lacks(&self) -> Option<&Lacks> {
        self.asked.as_ref().ok()?.as_ref()
    }

    /// Whether the node replies about names. An error about one name is such a reply.
    pub(super) fn knows_names(&self) -> bool {
        self.said.as_ref().err().is_none_or(|why| is_of_the_name(why))
    }

    /// False if a reply shows that the node refuses writes.
    pub(super) fn takes_writes(&self) -> bool {
        self.lacks().is_none_or(|lacks| lacks.writes.is_none())
    }

    pub(super) fn vote(&self) -> Vote {
        let nothing = self.grants_nothing().map(Vote::GrantsNothing);
        match (self.said, &self.status.unreadable) {
            _ if is_unused(self.status) => nothing.unwrap_or_else(|| Vote::AfterAClient(self.first_use())),
            _ if !self.status.state.is_admitted() => Vote::Absent,
            (Err(why), _) if has_no_record(why) => Vote::Unknown(why.clone()),
            (Err(why), _) if !is_of_the_name(why) => Vote::Unknown(format!("does not answer: {why}")),
            (_, Some(why)) => Vote::Unknown(format!("grants no lock: {why}")),
            (Ok(_), None) => nothing.unwrap_or_else(|| self.of_state()),
            (Err(why), None) => {
                let why = format!("cannot lock this name: {why}");
                if nothing.is_none() { Vote::NotThisName(why) } else { Vote::Unknown(why) }
            }
        }
    }

    /// The vote of a node that answers and has a record.
    fn of_state(&self) -> Vote {
        match self.status.state {
            _ if is_idle(self.status) => Vote::AfterAClient(Duration::ZERO),
            NodeState::Quarantined { left, .. } if has_restarted_unseen(self.status) => Vote::AfterAClient(left),
            NodeState::Quarantined { left, .. } => Vote::In(left),
            _ => Vote::Now,
        }
    }

    /// Why the node grants this user no lock: it has no memory left, the user lacks rights, or the
    /// node refuses writes. The other requests of `status` only read, so they show neither missing
    /// rights nor refused writes.
    fn grants_nothing(&self) -> Option<String> {
        if self.status.out_of_memory.is_some() {
            // A warning says how much memory the node may use.
            return Some("grants no lock: it is out of memory".to_owned());
        }
        let lacks = self.lacks()?;
        if let Some(rights) = lacks.to_acquire() {
            return Some(format!("grants this user no lock: the user lacks {rights}"));
        }
        let why = lacks.writes.as_deref()?;
        let mend = mend(why).unwrap_or_default().trim_end_matches('.');
        Some(format!("grants no lock, as it refuses writes: {why}. {mend}"))
    }

    /// How long a node without a record waits after its first client until it votes. Zero if the
    /// server has run for long enough and forgot nothing, else `max_ttl`.
    fn first_use(&self) -> Duration {
        let is_old = self.status.uptime.is_some_and(|uptime| uptime > self.list.old() + ROUNDED);
        if is_old && self.forgot().is_none() { Duration::ZERO } else { self.list.max_ttl() }
    }

    /// The sign that the node forgot locks while it ran; `None` if there is no sign.
    pub(super) fn forgot(&self) -> Option<&'static str> {
        let emptied = self.lacks().and_then(|lacks| lacks.emptied);
        // If the server is young, clients may have seen a record from before its restart. Clients
        // report that record's id for a while, and nodes store the reported id for a while.
        let shown = self.list.spare() + self.list.overlap();
        let is_young = self.status.uptime.is_some_and(|uptime| uptime < shown);
        let doubted = matches!(self.status.state, NodeState::Quarantined { doubt: Doubt::Forgot, .. });
        let gone = doubted || (self.met && !is_young);
        match is_unused(self.status) {
            _ if self.list.max_ttl().is_zero() => None,
            true if gone => Some("its record has gone"),
            true => emptied,
            false if forgot_unseen(self.status, self.list.old()) => {
                emptied.or(Some("its record is younger than the server"))
            }
            false => None,
        }
    }
}

/// Whether the node answered that it has no record.
fn has_no_record(why: &str) -> bool {
    why.starts_with("it has no record")
}

/// Whether the error comes from data under this name, so that other names can be locked.
fn is_of_the_name(why: &str) -> bool {
    why.starts_with("WRONGTYPE") || why.contains("is no lock of this protocol")
}
