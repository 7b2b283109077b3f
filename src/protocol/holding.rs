//! Setting the hold count of a lock that is held.

use std::sync::Arc;

use super::round::Round;
use super::voters::Voters;
use crate::error::NodeReport;
use crate::node::Operation;
use crate::quorum::{ClaimTally, Verdict};

/// A hold count on its way to the nodes.
#[derive(Debug)]
pub(crate) struct Holding {
    voters: Arc<Voters>,
    round: Arc<Round<ClaimTally>>,
}

impl Holding {
    /// Claims again as the same owner, which sets its count.
    pub(crate) fn start(voters: &Arc<Voters>, claim: Operation) -> Self {
        let round = Round::new(voters.nodes.len(), ClaimTally::new(voters.size));
        voters.ask(voters.everyone(), &Arc::new(claim), &round);
        Self { voters: voters.clone(), round }
    }

    /// The same, for those who do not wait: a wrong count frees nothing and keeps nothing.
    pub(crate) fn forget(voters: &Arc<Voters>, claim: Operation) {
        Self::start(voters, claim);
    }

    /// Whether a quorum has set it.
    pub(crate) async fn verdict(&self) -> Verdict {
        self.round.verdict().await
    }

    /// What each node said.
    pub(crate) fn reports(&self) -> Vec<NodeReport> {
        self.round.reports(&self.voters)
    }
}
