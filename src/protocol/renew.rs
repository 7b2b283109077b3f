//! One renewal.

use std::sync::Arc;
use std::time::Duration;

use super::round::Round;
use super::voters::{Asked, Voters};
use crate::error::NodeReport;
use crate::host::before;
use crate::node::{Claim, Note, Renew};
use crate::rules::{Renewal, RenewalTally, Tick};
use crate::spans::Spanned;

/// A renewal on its way. It keeps the nodes alive, but not the lease it is for.
#[derive(Clone, Debug)]
pub(crate) struct Renewing {
    voters: Arc<Voters>,
    round: Arc<Round<RenewalTally>>,
    t0: Tick,
    ttl: Duration,
    pub(crate) span: Spanned,
}

impl Renewing {
    /// Sends a renewal of what `claim` was granted. Nodes hold it for `ttl`: at least the claim's,
    /// or nobody is to rely on it any more.
    pub(crate) fn start(voters: &Arc<Voters>, claim: &Claim, count: u32, ttl: Duration, note: Option<Note>) -> Self {
        let operation = Arc::new(Renew { ttl, note, ..Renew::of(claim, count) }.into());
        // Read before the first send: the nodes count from later than this.
        let renewing = Self::new(voters, claim, voters.host.now());
        voters.ask_within(&renewing.span, voters.everyone(), &operation, &renewing.round);
        renewing
    }

    /// Sends renewals of what these were granted, each held once, in as few calls as they fit into.
    pub(super) fn start_all<'a>(voters: &Arc<Voters>, claims: impl Iterator<Item = &'a Claim>) -> Vec<Self> {
        let t0 = voters.host.now();
        let mut asked: Vec<Asked> = Vec::new();
        let mut renewals = Vec::new();
        for claim in claims {
            let renewing = Self::new(voters, claim, t0);
            asked.push((renewing.span.clone(), Arc::new(Renew::of(claim, 1).into()), renewing.round.clone()));
            renewals.push(renewing);
        }
        voters.ask_all(&asked);
        renewals
    }

    fn new(voters: &Arc<Voters>, claim: &Claim, t0: Tick) -> Self {
        let round = Round::new(voters.nodes.len(), claim.ballot, RenewalTally::new(voters.size));
        Self { voters: voters.clone(), round, t0, ttl: claim.ttl, span: Spanned::renew() }
    }

    /// When it was sent.
    pub(crate) const fn t0(&self) -> Tick {
        self.t0
    }

    /// What it came to by `until`.
    pub(crate) async fn verdict(&self, until: Tick) -> Renewal {
        before(&self.voters.host, until, self.decided()).await.unwrap_or(Renewal::Unclear)
    }

    /// What it came to, as soon as no later vote can change that.
    pub(crate) async fn decided(&self) -> Renewal {
        self.round.verdict().await
    }

    /// What each node has said so far, for people.
    pub(crate) fn reports(&self) -> Vec<NodeReport> {
        self.round.reports(&self.voters, None)
    }

    /// The votes so far that count now: those of listed nodes.
    pub(crate) fn counted(&self) -> RenewalTally {
        let votes = self.votes();
        votes.among(self.voters.electorate(self.ttl).of(votes.extended(), self.t0))
    }

    /// The votes so far.
    pub(crate) fn votes(&self) -> RenewalTally {
        self.round.look(|tally| *tally)
    }
}
