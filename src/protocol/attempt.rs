//! One acquisition as the nodes see it: what it has asked, and what must be undone.

use std::sync::Arc;
use std::time::Duration;

use super::baton::Baton;
use super::hints::Listening;
use super::release::{Cleanup, Whom};
use super::round::Round;
use super::voters::{NodeSet, Voters};
use crate::error::Result;
use crate::node::{Name, Operation, Outcome, Reply, Stance, Verb};
use crate::quorum::{ClaimTally, Tick};

/// Whoever drops it before it has won leaves nothing behind: what may have been granted is released on every node that did not explicitly refuse, and every
/// line is left.
pub(super) struct Attempt<'a> {
    voters: &'a Arc<Voters>,
    names: &'a Arc<[Name]>,
    ttl: Duration,
    acquisition: String,
    number: u64,
    round: u32,
    /// What the present round has asked, and who answered what.
    asked: Vec<(Arc<Operation>, Arc<Round<ClaimTally>>)>,
    last: Option<Arc<Operation>>,
    in_line: bool,
    /// What the one before in this process handed over.
    baton: Option<Baton>,
    listening: Option<Listening>,
}

/// How an attempt ended that was won.
#[derive(Debug)]
pub(super) struct Victory {
    pub(super) claim: Arc<Operation>,
    pub(super) listening: Option<Listening>,
    pub(super) may_hold: NodeSet,
    pub(super) passes: u32,
    pub(super) others_wait: bool,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(voters: &'a Arc<Voters>, names: &'a Arc<[Name]>, ttl: Duration, baton: Option<Baton>) -> Self {
        let (acquisition, number) = voters.acquisition();
        Self {
            voters,
            names,
            ttl,
            acquisition,
            number,
            round: 0,
            asked: Vec::with_capacity(1),
            last: None,
            in_line: false,
            baton,
            listening: None,
        }
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

    /// Asks all nodes, with a fresh ballot: as the present round's owner, which a round's first call makes up anew.
    pub(super) fn ask(&mut self, stance: Stance) -> Result<(Tick, Arc<Round<ClaimTally>>)> {
        let claim = Arc::new(self.operation(stance)?);
        let round = Round::new(self.voters.nodes.len(), ClaimTally::new(self.voters.size));
        if matches!(stance, Stance::Wait { .. }) && self.baton.is_none() {
            self.set_in_line(true);
        }
        self.asked.push((claim.clone(), round.clone()));
        self.last = Some(claim.clone());
        if let Some(listening) = &self.listening {
            listening.clear();
        }
        // Read before the first send: the nodes count from later than this.
        let t0 = self.voters.host.now();
        match &self.baton {
            Some(baton) => self.voters.ask(self.voters.everyone(), &claim, &baton.watch(round.clone())),
            None => self.voters.ask(self.voters.everyone(), &claim, &round),
        }
        Ok((t0, round))
    }

    fn operation(&self, stance: Stance) -> Result<Operation> {
        let owner = match self.asked.first() {
            Some((claim, _)) => claim.claimant().clone(),
            None => format!("{}.{}", self.acquisition, self.round).into(),
        };
        let (verb, owner, next) = match &self.baton {
            Some(baton) => (Verb::Pass, baton.owner().clone(), Some(owner)),
            None => (Verb::Claim, owner, None),
        };
        Ok(Operation {
            verb,
            names: self.names.clone(),
            owner,
            ttl: self.ttl,
            ballot: self.voters.ballot()?,
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
        let whom = self.may_hold();
        let waits = matches!(stance, Stance::Wait { .. });
        if !whom.is_empty() {
            let release = Operation { stance, ..last.with_verb(Verb::Release) };
            Cleanup::start(self.voters, release, Whom { ask: whom, insist: whom, unheard: self.unheard() });
        }
        self.asked.clear();
        self.round += 1;
        if waits {
            self.set_in_line(true);
        }
    }

    /// The round was won.
    pub(super) fn won(&mut self) -> Option<Victory> {
        let (claim, round) = self.asked.pop()?;
        self.asked.clear();
        self.last = None;
        self.set_in_line(false);
        let passes = self.baton.take().map_or(0, |baton| baton.taken());
        let mut may_hold = NodeSet::default();
        round.replies(|replies| mark(&mut may_hold, replies, was_sent));
        let listening = self.listening.take();
        if let Some(listening) = &listening {
            listening.hold(self.voters, &claim, &round);
        }
        let others_wait = passes == 0 || round.replies(|replies| replies.iter().any(others_wait));
        Some(Victory { claim, listening, may_hold, passes, others_wait })
    }

    fn set_in_line(&mut self, in_line: bool) {
        if self.in_line != in_line {
            self.in_line = in_line;
            self.voters.meters.in_line(in_line);
        }
    }

    /// The nodes that did not explicitly refuse the present round. Unknown is not refused.
    fn may_hold(&self) -> NodeSet {
        let mut whom = NodeSet::default();
        for (_, round) in &self.asked {
            round.replies(|replies| mark(&mut whom, replies, may_hold));
        }
        whom
    }

    /// The nodes whose answer to the last call has not come.
    fn unheard(&self) -> NodeSet {
        let mut unheard = NodeSet::default();
        if let Some((_, last)) = self.asked.last() {
            last.replies(|replies| mark(&mut unheard, replies, |reply| !matches!(reply, Some(Ok(_)))));
        }
        unheard
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.baton = None;
        let in_line = self.in_line;
        self.set_in_line(false);
        let Some(last) = &self.last else { return };
        let insist = self.may_hold();
        let ask = if in_line { self.voters.everyone() } else { insist };
        if !ask.is_empty() {
            Cleanup::start(self.voters, last.with_verb(Verb::Release), Whom { ask, insist, unheard: self.unheard() });
        }
    }
}

/// Adds the nodes whose replies are such.
pub(super) fn mark(set: &mut NodeSet, replies: &[Option<Reply>], which: impl Fn(&Option<Reply>) -> bool) {
    replies.iter().enumerate().filter(|(_, reply)| which(reply)).for_each(|(node, _)| set.insert(node));
}

/// Whether a node may have heard of the claim.
fn was_sent(reply: &Option<Reply>) -> bool {
    !matches!(reply, Some(Err(fault)) if fault.nothing_ran())
}

/// Whether a node may hold what it answered so about.
fn may_hold(reply: &Option<Reply>) -> bool {
    match reply {
        Some(Ok(Outcome::Held { .. } | Outcome::Stale { .. } | Outcome::Reserved { .. })) => false,
        Some(Err(fault)) => !fault.nothing_ran(),
        _ => true,
    }
}

fn others_wait(reply: &Option<Reply>) -> bool {
    matches!(reply, Some(Ok(Outcome::Passed { waiting: true })))
}
