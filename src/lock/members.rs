//! Which servers vote, as the nodes have it.

use std::sync::Arc;

use super::quorum::Quorum;
use super::retired::numbered;
use crate::error::Result;
use crate::protocol::{Known, Said, Voters, census, met};
use crate::rules::roster::{Agreement, Counted, Roster, Seen, agreement, counted};

/// What one node says of the servers that vote.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeMembers {
    /// The node's address, without user and password.
    pub node: Arc<str>,
    /// Its server's run id, as rosters have it; `None` where there is no connection.
    pub run: Option<String>,
    /// Its roster, or what kept it from telling.
    pub roster: Result<Roster, String>,
    /// Whether it never forgot up to which ballots it granted, or was taught since. `None` where it
    /// did not tell.
    pub taught: Option<bool>,
}

impl NodeMembers {
    fn seen(&self) -> Seen<'_> {
        Seen { label: &self.node, run: self.run.as_deref(), roster: self.roster.as_ref().ok() }
    }
}

/// What all nodes say of the servers that vote. See [`Quorum::members`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Members {
    /// Each node, in the order in which they were configured.
    pub nodes: Vec<NodeMembers>,
}

impl Members {
    /// Whether they have one list, but for those that were retired.
    #[must_use]
    pub fn agreement(&self) -> Agreement {
        let counts = |roster: &&Roster| roster.retired.is_none();
        let rosters: Vec<_> = self.nodes.iter().map(|node| node.roster.as_ref().ok().filter(counts)).collect();
        agreement(&rosters)
    }

    /// Whose votes a client would count that comes now with this list.
    #[must_use]
    pub fn counted(&self) -> Counted {
        let seen: Vec<_> = self.nodes.iter().map(NodeMembers::seen).collect();
        counted(&seen)
    }

    /// The same once this node is retired, by its address.
    ///
    /// # Errors
    /// `Config` if the address is none of these nodes'.
    pub fn without(mut self, node: &str) -> Result<Self> {
        let labels: Vec<_> = self.nodes.iter().map(|node| node.node.clone()).collect();
        if let Ok(roster) = &mut self.nodes[numbered(&labels, node)?].roster {
            roster.retired.get_or_insert_default();
        }
        Ok(self)
    }
}

impl Quorum {
    /// Asks all nodes which servers vote: their rosters, and whether each remembers its ballots.
    /// Changes no roster; whoever connects teaches nodes that restarted which tokens were dealt.
    /// Waits for nodes that are being connected to for `connect_timeout` at most,
    /// and for answers as long as for a round.
    ///
    /// # Errors
    /// `Config` outside of a Tokio runtime, `Closed` after a shutdown. Nodes that do not answer are
    /// part of the result.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// let members = quorumlock::Quorum::in_memory(3)?.members().await?;
    /// assert!(members.nodes.iter().all(|node| node.roster.is_ok()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn members(&self) -> Result<Members> {
        self.0.usable()?;
        let voters = self.all_met().await;
        let said = census(voters, self.0.rules.round_timeout).await;
        let of = |(node, (roster, record)): (usize, (Said<Roster>, Said<Known>))| NodeMembers {
            node: voters.nodes[node].label().clone(),
            run: voters.nodes[node].member().map(|member| member.run),
            roster: roster.map_err(|fault| fault.to_string()),
            taught: record.ok().map(|(_, taught)| taught),
        };
        Ok(Members { nodes: said.into_iter().enumerate().map(of).collect() })
    }

    /// Every node was connected to, or was tried once.
    pub(super) async fn all_met(&self) -> &Arc<Voters> {
        let voters = &self.0.leases.voters;
        met(voters, voters.everyone(), self.0.connect_timeout()).await;
        voters
    }
}
