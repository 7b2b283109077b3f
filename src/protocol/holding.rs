//! What a node offers to the owner of held names after all.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::ear::Offered;
use super::round::Round;
use super::voters::Voters;
use crate::node::Claim;
use crate::rules::{ClaimTally, NodeSet};

/// Holds what `claim` was granted by a quorum on one more node. After a release it does nothing: that
/// has raised the fence.
fn strengthen(voters: &Voters, node: usize, claim: &Claim) -> Arc<Round<ClaimTally>> {
    let round = Round::new(voters.nodes.len(), claim.ballot, ClaimTally::new(voters.size));
    voters.ask(NodeSet::of(node), &Arc::new(claim.once().into()), &round);
    round
}

/// A round that was won after waiting.
#[derive(Debug)]
pub(super) struct WonInLine {
    pub(super) voters: Weak<Voters>,
    pub(super) claim: Claim,
    pub(super) round: Arc<Round<ClaimTally>>,
    /// What was asked of each node since.
    pub(super) since: Mutex<Vec<Option<Arc<Round<ClaimTally>>>>>,
}

impl WonInLine {
    /// Whether a node has refused, and was not asked since, or has answered that without a grant. A
    /// node offers a turn for each name of a set.
    fn may_take(&self, since: Option<&Arc<Round<ClaimTally>>>, node: usize) -> bool {
        let Some(round) = since else { return self.round.look(ClaimTally::refused).contains(node) };
        let answered = round.replies(|replies| replies.get(node).is_some_and(Option::is_some));
        answered && !round.look(ClaimTally::granted).contains(node)
    }
}

impl Offered for WonInLine {
    /// Takes what a node offers that had refused. One that granted, or is about to answer, needs
    /// nothing.
    fn offered(&self, node: usize) {
        let Some(voters) = self.voters.upgrade() else { return };
        let mut all = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        all.resize_with(voters.nodes.len(), || None);
        if let Some(since) = all.get_mut(node).filter(|since| self.may_take(since.as_ref(), node)) {
            *since = Some(strengthen(&voters, node, &self.claim));
        }
    }
}
