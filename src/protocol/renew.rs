//! One renewal of all names of a lease.

use std::sync::Arc;
use std::time::Duration;

use super::round::Round;
use super::voters::{Asked, Voters};
use crate::error::NodeReport;
use crate::host::before;
use crate::node::{Claim, Note, Renew};
use crate::rules::{Renewal, RenewalTally, Tick};
use crate::spans::Spanned;

/// A renewal that was sent. This value keeps the client's node objects alive, but not the lease.
#[derive(Clone, Debug)]
pub(crate) struct Renewing {
    voters: Arc<Voters>,
    /// One round for each name, because each name needs a quorum of its own.
    rounds: Vec<Arc<Round<RenewalTally>>>,
    /// When the renewal was sent.
    pub(crate) t0: Tick,
    pub(crate) span: Spanned,
}

impl Renewing {
    /// Sends a renewal of the claims of one lease, each with the ballot that won it. `count` is the
    /// number of guards. Nodes hold the names for `ttl`. Pass a `ttl` shorter than that of the
    /// claims only if no caller relies on the lease any more.
    pub(super) fn start<'a>(
        voters: &Arc<Voters>,
        claims: impl Iterator<Item = (&'a Claim, u64)>,
        (count, ttl): (u32, Duration),
        note: Option<Note>,
    ) -> Self {
        let mut asked = Vec::with_capacity(1);
        // Read the clock before the first send: then each node's ttl begins later than `t0`.
        let renewing = Self::new(voters, voters.host.now(), claims, (count, ttl, note.as_ref()), &mut asked);
        match (&asked[..], &renewing.rounds[..]) {
            ([(span, operation, _)], [round]) => voters.ask_within(span, voters.everyone(), operation, round),
            (several, _) => voters.ask_all(several),
        }
        renewing
    }

    /// Sends renewals of several leases, with a guard count of 1, in as few calls as possible.
    pub(super) fn start_all<'a, C: Iterator<Item = (&'a Claim, u64)>>(
        voters: &Arc<Voters>,
        leases: impl Iterator<Item = (C, Duration)>,
    ) -> Vec<Self> {
        let (t0, mut asked) = (voters.host.now(), Vec::new());
        let renewals = leases.map(|(claims, ttl)| Self::new(voters, t0, claims, (1, ttl, None), &mut asked)).collect();
        voters.ask_all(&asked);
        renewals
    }

    /// Makes a renewal, and adds its requests to `asked` without sending them.
    fn new<'a>(
        voters: &Arc<Voters>,
        t0: Tick,
        claims: impl Iterator<Item = (&'a Claim, u64)>,
        (count, ttl, note): (u32, Duration, Option<&Note>),
        asked: &mut Vec<Asked>,
    ) -> Self {
        let (span, mut rounds) = (Spanned::renew(), Vec::with_capacity(1));
        for (claim, token) in claims {
            for name in claim.names.iter() {
                let round = Round::new(voters, claim.ballot, RenewalTally::new(voters.size), None);
                let (names, note) = ([name.clone()].into(), note.cloned());
                let renew = Renew { names, ttl, token, note, ..Renew::of(claim, count) };
                asked.push((span.clone(), Arc::new(renew.into()), round.clone()));
                rounds.push(round);
            }
        }
        Self { voters: voters.clone(), rounds, t0, span }
    }

    /// The result as soon as it is final, or else the result of the replies that came before
    /// `until`.
    pub(crate) async fn verdict(&self, until: Tick) -> Renewal {
        let decided = before(&self.voters.host, until, self.decided()).await;
        let so_far = |round: &Arc<Round<RenewalTally>>| round.look(RenewalTally::verdict).unwrap_or(Renewal::Unclear);
        decided.unwrap_or_else(|| self.rounds.iter().map(so_far).fold(Renewal::Unclear, Renewal::with))
    }

    /// The result, as soon as no further vote can change it.
    pub(crate) async fn decided(&self) -> Renewal {
        let mut renewal = Renewal::Extended;
        for round in &self.rounds {
            renewal = renewal.with(round.verdict().await);
            if renewal == Renewal::Lost {
                break;
            }
        }
        renewal
    }

    /// The reply of each node so far, in words: about the first name that was not extended, or else
    /// about the first name.
    pub(crate) fn reports(&self) -> Vec<NodeReport> {
        let failed = |round: &&Arc<Round<RenewalTally>>| round.look(RenewalTally::verdict) != Some(Renewal::Extended);
        let told = self.rounds.iter().find(failed).or(self.rounds.first());
        told.map(|round| round.reports(&self.voters, None)).unwrap_or_default()
    }

    /// The votes so far. A node counts as `extended` if it has extended all names.
    pub(crate) fn votes(&self) -> RenewalTally {
        let votes = self.rounds.iter().map(|round| round.look(|tally| *tally));
        votes.reduce(RenewalTally::with).unwrap_or_else(|| RenewalTally::new(self.voters.size))
    }
}
