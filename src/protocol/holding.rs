//! Claiming again what is held: to set the hold count, or to hold it on one more node.

use std::sync::Arc;

use super::round::Round;
use super::voters::Voters;
use crate::error::NodeReport;
use crate::node::{Operation, Verb};
use crate::quorum::{ClaimTally, NodeSet, Verdict};

/// A claim on its way to the nodes, by an owner that holds the names on a quorum.
#[derive(Debug)]
pub(crate) struct Holding {
    voters: Arc<Voters>,
    round: Arc<Round<ClaimTally>>,
}

impl Holding {
    /// Claims again as the same owner, which sets its count.
    pub(crate) fn start(voters: &Arc<Voters>, claim: Operation) -> Self {
        Self::ask(voters, voters.everyone(), claim)
    }

    /// Holds what `claim` was granted by a quorum on one more node. After a release it does nothing: that has raised the fence.
    pub(crate) fn strengthen(voters: &Arc<Voters>, node: usize, claim: &Operation) {
        Self::ask(voters, NodeSet::of(node), claim.with_verb(Verb::Claim));
    }

    fn ask(voters: &Arc<Voters>, whom: NodeSet, claim: Operation) -> Self {
        let round = Round::new(voters.nodes.len(), ClaimTally::new(voters.size));
        voters.ask(whom, &Arc::new(claim), &round);
        Self { voters: voters.clone(), round }
    }

    /// Whether a quorum has set it.
    pub(crate) async fn verdict(&self) -> Verdict {
        self.round.verdict().await
    }

    /// The nodes that may have heard of it.
    pub(crate) fn sent(&self) -> NodeSet {
        self.round.look(ClaimTally::sent)
    }

    /// What each node said.
    pub(crate) fn reports(&self) -> Vec<NodeReport> {
        self.round.reports(&self.voters)
    }
}
