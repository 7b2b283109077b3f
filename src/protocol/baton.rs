//! Handing a lock to the next caller in the same process, in one round trip.

use std::sync::Arc;

use super::release::Cleanup;
use super::round::Round;
use super::voters::{NodeSet, Voters};
use crate::node::{Operation, Reply, Sink, Verb};
use crate::quorum::{ClaimTally, Tick};

/// A lock between two holders. Unless the next takes it, dropping it releases it everywhere.
#[derive(Debug)]
pub(crate) struct Baton {
    voters: Arc<Voters>,
    claim: Arc<Operation>,
    passes: u32,
    since: Tick,
    taken: bool,
}

impl Baton {
    /// What `claim` was granted, passed `passes` times in a row.
    pub(crate) fn new(voters: Arc<Voters>, claim: Arc<Operation>, passes: u32) -> Self {
        let since = voters.host.now();
        Self { voters, claim, passes, since, taken: false }
    }

    /// Who holds it still.
    pub(super) fn owner(&self) -> &Arc<str> {
        self.claim.claimant()
    }

    /// The next has it, on a quorum. How many passes in a row that makes.
    pub(super) fn taken(mut self) -> u32 {
        self.taken = true;
        self.voters.meters.passed(self.voters.host.now().since(self.since));
        self.passes.saturating_add(1)
    }

    /// Counts a round of passes, and releases the holder before on every node that does not answer.
    pub(super) fn watch(&self, round: Arc<Round<ClaimTally>>) -> Arc<Watch> {
        Arc::new(Watch { round, voters: self.voters.clone(), claim: self.claim.clone() })
    }
}

impl Drop for Baton {
    fn drop(&mut self) {
        if !self.taken {
            let everyone = self.voters.everyone();
            Cleanup::start(&self.voters, self.claim.with_verb(Verb::Release), everyone, NodeSet::default());
        }
    }
}

/// A round of passes. A pass that was lost leaves the name with the holder before, who has gone.
pub(super) struct Watch {
    round: Arc<Round<ClaimTally>>,
    voters: Arc<Voters>,
    claim: Arc<Operation>,
}

impl Sink for Watch {
    fn deliver(self: Arc<Self>, node: usize, reply: Reply) {
        if reply.is_err() {
            let mut whom = NodeSet::default();
            whom.insert(node);
            Cleanup::start(&self.voters, self.claim.with_verb(Verb::Release), whom, NodeSet::default());
        }
        self.round.clone().deliver(node, reply);
    }
}
