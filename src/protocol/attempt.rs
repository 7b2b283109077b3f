//! One acquisition as the nodes see it: what it has asked, and what must be undone.

use std::sync::Arc;
use std::time::Duration;

use super::baton::Baton;
use super::hints::Listening;
use super::release::{Cleanup, Whom};
use super::round::Round;
use super::voters::{Open, Voters};
use super::waiting::InLine;
use crate::error::Result;
use crate::node::vote::told;
use crate::node::{Name, Operation, Outcome, Reply, Stance, Verb};
use crate::quorum::tally::Cause;
use crate::quorum::{Acquisition, Ask, ClaimTally, Decision, Grant, Terms, Tick};

/// Whoever drops it before it has won leaves nothing behind: what may have been granted is released on every node that did not explicitly refuse, and every
/// line is left.
pub(super) struct Attempt<'a> {
    voters: &'a Arc<Voters>,
    names: &'a Arc<[Name]>,
    ttl: Duration,
    acquisition: String,
    number: u64,
    /// What was asked under the present owner, and what follows from the answers.
    rules: Acquisition<Arc<Round<ClaimTally>>>,
    owner: Arc<str>,
    last: Option<Arc<Operation>>,
    /// The highest fence that any node told.
    told: u64,
    in_line: Option<Arc<InLine>>,
    /// What the one before in this process handed over.
    baton: Option<Baton>,
    listening: Option<Listening>,
    /// As long as it lasts, a release may have to follow: a shutdown waits for that.
    _open: Open,
}

/// How an attempt ended that was won.
#[derive(Debug)]
pub(super) struct Victory {
    pub(super) claim: Arc<Operation>,
    pub(super) grant: Grant,
    pub(super) listening: Option<Listening>,
    pub(super) passes: u32,
    pub(super) others_wait: bool,
    pub(super) open: Open,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(voters: &'a Arc<Voters>, names: &'a Arc<[Name]>, terms: Terms, baton: Option<Baton>) -> Self {
        let (acquisition, number) = voters.acquisition();
        Self {
            voters,
            names,
            ttl: terms.validity.ttl(),
            owner: owner(&acquisition, 0),
            acquisition,
            number,
            rules: Acquisition::new(terms),
            last: None,
            told: 0,
            in_line: None,
            baton,
            listening: None,
            _open: voters.open_cleanup(),
        }
    }

    /// Whether the holder before hands over to this one.
    pub(super) const fn passes(&self) -> bool {
        self.baton.is_some()
    }

    /// The ear for hints, from now on.
    pub(super) fn listen(&mut self) -> &Listening {
        self.listening.get_or_insert_with(|| self.voters.hints.listen(self.number))
    }

    /// When a turn began, if a quorum of nodes has given one.
    pub(super) fn turn(&self) -> Option<Tick> {
        let heard = self.listening.as_ref()?.heard();
        heard.first.filter(|_| heard.turns.len() >= self.voters.size.quorum())
    }

    /// Asks all nodes as the present owner, with a fresh ballot.
    pub(super) fn ask(&mut self, stance: Stance) -> Result<Arc<Round<ClaimTally>>> {
        let claim = Arc::new(self.operation(stance)?);
        let round = Round::new(self.voters.nodes.len(), claim.ballot, ClaimTally::new(self.voters.size));
        if matches!(stance, Stance::Wait { .. }) && self.baton.is_none() {
            self.stand_in_line();
        }
        self.last = Some(claim.clone());
        if let Some(listening) = &self.listening {
            listening.clear();
        }
        // Read before the first send: the nodes count from later than this.
        let t0 = self.voters.host.now();
        self.rules.ask(Ask { t0, ballot: claim.ballot, votes: round.clone() });
        match &self.baton {
            Some(baton) => self.voters.ask(self.voters.everyone(), &claim, &baton.watch(round.clone())),
            None => self.voters.ask(self.voters.everyone(), &claim, &round),
        }
        Ok(round)
    }

    /// When the last ask began.
    pub(super) fn t0(&self) -> Option<Tick> {
        self.rules.last().map(|ask| ask.t0)
    }

    /// What the votes of the last ask come to at `now`.
    pub(super) fn decide(&mut self, now: Tick) -> Option<Decision> {
        let told = self.rules.last()?.votes.replies(|replies| replies.iter().flatten().filter_map(told).max());
        if let Some(fence) = told {
            self.voters.seen(fence);
            self.told = self.told.max(fence);
        }
        match self.rules.decide(now) {
            // The votes are looked at after `now` was read, and this task may have stood still in
            // between: what counts is the time after the last of them.
            Some(Decision::Won(grant)) if !self.rules.in_time(grant.t0, self.voters.host.now()) => {
                Some(Decision::Failed(Cause::Unavailable))
            }
            decision => decision,
        }
    }

    fn operation(&self, stance: Stance) -> Result<Operation> {
        let owner = self.owner.clone();
        let (verb, owner, next) = match &self.baton {
            Some(baton) => (Verb::Pass, baton.owner().clone(), Some(owner)),
            None => (Verb::Claim, owner, None),
        };
        Ok(Operation {
            verb,
            names: self.names.clone(),
            owner,
            ttl: self.ttl,
            ballot: self.voters.ballot(self.told)?,
            count: 1,
            stance: if next.is_some() { Stance::Once } else { stance },
            grace: self.voters.grace(),
            next,
        })
    }

    /// The round failed and another will be made: what it was granted is released, and the place in line kept.
    pub(super) fn requeue(&mut self, stance: Stance) {
        // What the one before handed over was not taken everywhere.
        self.baton = None;
        let Some(last) = &self.last else { return };
        let release = Operation { stance, ..last.with_verb(Verb::Release) };
        if matches!(stance, Stance::Wait { .. }) {
            self.stand_in_line();
        }
        let may_hold = self.rules.may_hold();
        if !may_hold.is_empty() {
            let whom = Whom { ask: may_hold, insist: may_hold, unheard: self.rules.unheard() };
            let waits = self.in_line.as_ref().map(Arc::downgrade).unwrap_or_default();
            Cleanup::start_for(self.voters, release, whom, waits);
        }
        self.rules.give_up();
        self.owner = owner(&self.acquisition, self.rules.round());
    }

    /// The round was won with `grant`.
    pub(super) fn won(mut self, grant: Grant) -> Option<Victory> {
        let (claim, round) = (self.last.take()?, self.rules.last()?.votes.clone());
        self.in_line = None;
        let passes = self.baton.take().map_or(0, |baton| baton.taken());
        // Where no node refused it, none will offer it a turn.
        let refused = self.rules.round() > 0 || !round.look(ClaimTally::refused).is_empty();
        let listening = self.listening.take().filter(|_| refused);
        if let Some(listening) = &listening {
            listening.hold(self.voters, &claim, &round);
        }
        let others_wait = passes == 0 || round.replies(|replies| replies.iter().any(others_wait));
        let open = self.voters.open_cleanup();
        Some(Victory { claim, grant, listening, passes, others_wait, open })
    }

    /// What is asked next joins the nodes' lines. It listens from before that: a hint may come with
    /// the answer.
    fn stand_in_line(&mut self) {
        self.in_line.get_or_insert_with(|| InLine::new(self.voters));
        self.listen();
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.baton = None;
        let in_line = self.in_line.take().is_some();
        let Some(last) = &self.last else { return };
        let insist = self.rules.may_hold();
        let ask = if in_line { self.voters.everyone() } else { insist };
        if !ask.is_empty() {
            Cleanup::start(
                self.voters,
                last.with_verb(Verb::Release),
                Whom { ask, insist, unheard: self.rules.unheard() },
            );
        }
    }
}

fn owner(acquisition: &str, round: u32) -> Arc<str> {
    format!("{acquisition}.{round}").into()
}

fn others_wait(reply: &Option<Reply>) -> bool {
    matches!(reply, Some(Ok(Outcome::Passed { waiting: true })))
}
