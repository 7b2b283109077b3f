//! Retiring a node by hand, and taking that back.

use std::sync::Arc;
use std::time::Duration;

use super::quorum::Quorum;
use crate::error::{Error, ErrorKind, NodeReport, Result};
use crate::node::redis::Endpoint;
use crate::node::{FaultKind, Operation};
use crate::protocol::{Voters, census, met, roster, tell};
use crate::rules::NodeSet;
use crate::rules::roster::{LASTS, Roster};

/// A node was retired. See [`Quorum::retire`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Retired {
    /// The node.
    pub node: Arc<str>,
    /// For how long it has been retired; about zero where it was not before.
    pub since: Duration,
    /// When nothing rests on it any more: no lock that clients hold by its vote, where none has
    /// longer ones than they told there, or than this quorum's `max_ttl`.
    pub free_in: Duration,
    /// Whether no client is enrolled there.
    pub unused: bool,
}

/// The retirement of a node was taken back. See [`Quorum::reset`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reset {
    /// The node.
    pub node: Arc<str>,
    /// For how long it had been retired; `None` if it was not.
    pub was: Option<Duration>,
    /// Where some node's roster has servers that are none of this list, and so keeps the node from
    /// counting: for how long that lasts still, after the last of their clients has stopped.
    pub others: Option<Duration>,
}

impl Quorum {
    /// Retires a node, by its address: from its next enrolment on, which is some 5 s later and 10 s
    /// at most, no client counts its votes. It renews and releases as ever, and its roster goes on,
    /// by which clients of other lists find out. Clients that have a quorum without it go on;
    /// others acquire nothing, and their errors name it.
    ///
    /// The node keeps that until [`reset`](Self::reset). One that forgets (no persistence) forgets
    /// this too. (Nodes in memory have no clients that enrol: it changes nothing there.)
    ///
    /// # Errors
    /// `Config` if the address is none of this quorum's, or outside of a Tokio runtime;
    /// `Unavailable` if the node does not confirm it: then it is retired or not; ask again.
    /// `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// The node has done it, or not; ask again.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// let quorum = quorumlock::Quorum::in_memory(3)?;
    /// quorum.retire("memory://2").await?;
    /// assert!(quorum.reset("memory://2").await?.was.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn retire(&self, node: &str) -> Result<Retired> {
        let (node, roster) = self.told(node, Operation::Retire).await?;
        let since = roster.retired.unwrap_or_default();
        // What an entry outlasts: see docs/protocol.md, "Why F and T are enough".
        // A node that has just restarted may not have been told of its clients' ttls again.
        let free_in = (roster.max_ttl.max(self.0.max_ttl()) + LASTS).saturating_sub(since);
        let node = self.0.leases.voters.nodes[node].label().clone();
        Ok(Retired { node, since, free_in, unused: roster.servers.is_empty() })
    }

    /// Takes the retirement of a node back, by its address. Its roster stays: without it, clients
    /// of another list might enter while those of this one still count its votes.
    ///
    /// # Errors
    /// As [`retire`](Self::retire).
    ///
    /// # Cancel safety
    /// The node has done it, or not; ask again.
    pub async fn reset(&self, node: &str) -> Result<Reset> {
        let (node, roster) = self.told(node, Operation::Reset).await?;
        let voters = self.all_met().await;
        // Each may let no client of this list count the node: they must fit into all rosters.
        let rosters =
            census(voters, self.0.rules.round_timeout).await.into_iter().filter_map(|(roster, _)| roster.ok());
        let others = rosters.filter(|roster| is_of_others(voters, roster)).map(|roster| roster.binds()).max();
        Ok(Reset { node: voters.nodes[node].label().clone(), was: roster.retired, others })
    }

    /// One node was told something, and has answered with its roster.
    async fn told(&self, address: &str, operation: Operation) -> Result<(usize, Roster)> {
        self.0.usable()?;
        let voters = &self.0.leases.voters;
        let labels: Vec<_> = voters.nodes.iter().map(|node| node.label().clone()).collect();
        let node = numbered(&labels, address)?;
        met(voters, NodeSet::of(node), self.0.connect_timeout()).await;
        let reply = tell(voters, node, operation, self.0.rules.round_timeout).await;
        match roster(reply) {
            Ok(roster) => Ok((node, roster)),
            Err(fault) => {
                let report = NodeReport::of_fault(voters.nodes[node].label(), &fault);
                let message = match fault.kind() {
                    FaultKind::Rejected | FaultKind::Busy => "the node refused it",
                    _ => "the node did not confirm it; ask again once it answers",
                };
                Err(Error::new(ErrorKind::Unavailable, message).with_nodes(vec![report]))
            }
        }
    }
}

/// Whether it is certainly the roster of another list. A server that cannot be reached may be one
/// of those in it.
fn is_of_others(voters: &Voters, roster: &Roster) -> bool {
    let known: Vec<_> = voters.nodes.iter().filter_map(|node| node.member()).map(|member| member.run).collect();
    let strangers = roster.servers.iter().filter(|run| !known.contains(run)).count();
    let differs = (roster.nodes, roster.protocol) != (voters.size.nodes(), voters.members.protocol);
    !roster.servers.is_empty() && (differs || strangers > voters.nodes.len() - known.len())
}

/// Which of the nodes with these labels has this address.
pub(super) fn numbered(labels: &[Arc<str>], address: &str) -> Result<usize> {
    if let Some(node) = labels.iter().position(|label| **label == *address) {
        return Ok(node);
    }
    let label = Endpoint::parse_for(address)?.to_string();
    labels.iter().position(|known| **known == label).ok_or_else(|| {
        let known = labels.join(", ");
        Error::config(format!(
            "{label} is none of these nodes: {known}; name one of them, or give the list that has it"
        ))
    })
}
