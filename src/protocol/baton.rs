//! Handing a lock to the next caller in the same process, in one round trip.

use std::sync::Arc;

use super::release::{Cleanup, Whom};
use super::round::Round;
use super::voters::{Open, Voters};
use crate::node::{Operation, Reply, Sink, Verb};
use crate::quorum::{ClaimTally, NodeSet, Tick, Verdict};

/// A lock between two holders. Unless the next takes it, dropping it releases it everywhere.
#[derive(Debug)]
pub(crate) struct Baton {
    voters: Arc<Voters>,
    claim: Arc<Operation>,
    /// The nodes that may hold it.
    may_hold: NodeSet,
    passes: u32,
    since: Tick,
    taken: bool,
    /// Unless it is taken, a release follows: a shutdown waits for that.
    _open: Open,
}

impl Baton {
    /// What `claim` was granted, passed `passes` times in a row.
    pub(crate) fn new(voters: Arc<Voters>, claim: Arc<Operation>, may_hold: NodeSet, passes: u32) -> Self {
        let (since, open) = (voters.host.now(), voters.open_cleanup());
        Self { voters, claim, may_hold, passes, since, taken: false, _open: open }
    }

    fn whom(&self) -> Whom {
        Whom { ask: self.voters.everyone(), insist: self.may_hold, unheard: NodeSet::default() }
    }

    /// When it was handed over.
    pub(super) const fn since(&self) -> Tick {
        self.since
    }

    /// Who holds it still.
    pub(super) fn owner(&self) -> &Arc<str> {
        self.claim.claimant()
    }

    /// The next has it. How many passes in a row that makes.
    pub(super) fn taken(mut self) -> u32 {
        self.taken = true;
        self.voters.meters.passed(self.voters.host.now().since(self.since));
        self.passes.saturating_add(1)
    }

    /// Counts a round of passes, and releases the holder before where a pass left it the name.
    pub(super) fn watch(&self, round: Arc<Round<ClaimTally>>) -> Arc<Watch> {
        let (voters, claim, may_hold) = (self.voters.clone(), self.claim.clone(), self.may_hold);
        let open = voters.open_cleanup();
        Arc::new(Watch { round, voters, claim, may_hold, _open: open })
    }
}

impl Drop for Baton {
    fn drop(&mut self) {
        if !self.taken {
            Cleanup::start(&self.voters, self.claim.with_verb(Verb::Release), self.whom());
        }
    }
}

/// A round of passes. A pass that was not taken may leave the name with the holder before, who has gone.
pub(super) struct Watch {
    round: Arc<Round<ClaimTally>>,
    voters: Arc<Voters>,
    claim: Arc<Operation>,
    may_hold: NodeSet,
    /// As long as an answer is to come, a release may have to follow: who waits for all releases waits for that.
    _open: Open,
}

impl Watch {
    fn is_won(&self) -> bool {
        self.round.look(ClaimTally::verdict) == Some(Verdict::Won)
    }

    /// The nodes that did not take the pass: it was stale there, or the name is somebody else's. A
    /// pass to the holder before may still be on its way to them, over a connection that was
    /// replaced: only a release of that holder makes it harmless.
    fn not_taken(&self) -> NodeSet {
        self.round.look(|tally| tally.stale().or(tally.refused()))
    }

    fn release(&self, ask: NodeSet) {
        if !ask.is_empty() {
            let whom = Whom { ask, insist: ask.and(self.may_hold), unheard: NodeSet::default() };
            Cleanup::start(&self.voters, self.claim.with_verb(Verb::Release), whom);
        }
    }
}

impl Sink for Watch {
    fn deliver(self: Arc<Self>, node: usize, reply: Reply) {
        let (before, failed) = (self.is_won(), reply.is_err());
        self.round.clone().deliver(node, reply);
        // A stale ballot is tried again with a higher one, unless other nodes were enough: then the
        // nodes that have not taken the pass so far are released, and later ones as they come.
        match self.is_won() {
            _ if failed => self.release(NodeSet::of(node)),
            true if before => self.release(self.not_taken().and(NodeSet::of(node))),
            true => self.release(self.not_taken()),
            false => {}
        }
    }
}
