//! Acquiring: rounds of claims until one is won or the caller's time ends.

use std::sync::Arc;
use std::time::Duration;

use super::queue::{Head, Place, Queue};
use super::release::Cleanup;
use super::round::{Round, cause};
use super::voters::{NodeSet, Voters};
use crate::config::Rules;
use crate::error::{Error, ErrorKind, Result};
use crate::host::{before, sleep_until};
use crate::node::{Name, Operation, Outcome, Reply, Verb};
use crate::quorum::tally::Cause;
use crate::quorum::{ClaimTally, Tick, Verdict, Vote};

/// How many higher ballots are tried at once before the round counts as failed.
const LIFTS: u32 = 3;

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// One round, without waiting for anybody.
    Once,
    /// Until a moment; one round is always made, once it is this caller's turn.
    Until(Tick),
}

impl Patience {
    const fn end(self) -> Option<Tick> {
        match self {
            Self::Once => None,
            Self::Until(end) => Some(end),
        }
    }
}

/// A round that was won.
#[derive(Debug)]
pub(crate) struct Won {
    /// The claim that a quorum granted.
    pub(crate) claim: Arc<Operation>,
    /// When its round began.
    pub(crate) t0: Tick,
    /// The place in the process's queue, which the holder keeps.
    pub(crate) place: Place,
}

/// Who wants what.
#[derive(Debug)]
pub(crate) struct Claimant<'a> {
    pub(crate) voters: &'a Arc<Voters>,
    pub(crate) queue: &'a Arc<Queue>,
    pub(crate) names: &'a Arc<[Name]>,
    pub(crate) rules: &'a Rules,
}

/// A round that was not won.
struct Defeat {
    round: Arc<Round<ClaimTally>>,
    /// A quorum granted, and too late.
    late: bool,
}

impl Claimant<'_> {
    /// Makes rounds until one is won. Dropped at any point, it leaves nothing behind: what was granted is released, and the place in the
    /// queue given up.
    pub(crate) async fn acquire(&self, patience: Patience) -> Result<Won> {
        let place = self.turn(patience).await?;
        let acquisition = self.voters.acquisition();
        for round in 0u32.. {
            let defeat = match self.round(&acquisition, round, patience).await? {
                Ok((claim, t0)) => {
                    place.tell(Head::Holding);
                    return Ok(Won { claim, t0, place });
                }
                Err(defeat) => defeat,
            };
            place.tell(defeat.head(self.voters));
            if let Some(end) = patience.end() {
                sleep_until(&self.voters.host, self.next_round(round, &defeat).min(end)).await;
            }
            if patience.end().is_none_or(|end| self.voters.host.now() >= end) {
                return Err(self.defeated(&defeat, patience));
            }
        }
        Err(Error::closed())
    }

    /// Waits until it is this caller's turn in this process.
    async fn turn(&self, patience: Patience) -> Result<Place> {
        let started = self.voters.host.now();
        let mut place = self.queue.join(self.names[0].text())?;
        if !place.try_turn() {
            let _waiting = Waiting::new(self.voters);
            let end = patience.end().unwrap_or(started + self.rules.round_timeout);
            let waited = match patience {
                Patience::Once => before(&self.voters.host, end, self.hear(&mut place)).await,
                Patience::Until(_) => before(&self.voters.host, end, place.turn()).await.map(|()| true),
            };
            if waited != Some(true) && !place.try_turn() {
                return Err(self.outwaited(&place, patience));
            }
        }
        self.voters.meters.queue_wait(self.voters.host.now().since(started));
        Ok(place)
    }

    /// Waits until the first in line has heard from the nodes; returns whether its place was free then.
    async fn hear(&self, place: &mut Place) -> bool {
        place.news().await;
        place.try_turn()
    }

    fn outwaited(&self, place: &Place, patience: Patience) -> Error {
        match place.head() {
            Head::Unavailable(reports) => {
                self.error(ErrorKind::Unavailable, "a quorum is out of reach").with_nodes(reports)
            }
            _ => self.error(out_of_time(patience), "others in this process are before this caller"),
        }
    }

    /// One round: a claim under a new owner, with higher ballots where nodes call one stale.
    async fn round(
        &self,
        acquisition: &str,
        number: u32,
        patience: Patience,
    ) -> Result<Result<(Arc<Operation>, Tick), Defeat>> {
        let mut claim = Standing { voters: self.voters, asked: Vec::with_capacity(1) };
        let owner: Arc<str> = format!("{acquisition}.{number}").into();
        let began = self.voters.host.now();
        let limit = match patience.end() {
            // One round is always made whole, however short the caller's time is.
            Some(end) if number > 0 => end.min(began + self.rules.round_timeout),
            _ => began + self.rules.round_timeout,
        };
        for _ in 0..=LIFTS {
            let (t0, round) = claim.ask(self.operation(&owner)?);
            let verdict = before(&self.voters.host, limit, round.verdict()).await;
            let now = self.voters.host.now();
            self.voters.meters.round(named(verdict), round.look(ClaimTally::is_split));
            self.note_fences(&round);
            match verdict {
                Some(Verdict::Won) => {
                    self.voters.measured(now.since(t0));
                    if self.rules.validity.suffices(t0, now, self.rules.min_validity) {
                        return Ok(Ok((claim.won(), t0)));
                    }
                    return Ok(Err(Defeat { round, late: true }));
                }
                Some(Verdict::Stale) => {}
                Some(Verdict::Failed) | None => break,
            }
        }
        let round = claim.last();
        drop(claim);
        self.diagnose(&round, limit, patience).await;
        Ok(Err(Defeat { round, late: false }))
    }

    /// Waits until it is known why the round failed, where no further one will be made.
    async fn diagnose(&self, round: &Round<ClaimTally>, limit: Tick, patience: Patience) {
        if patience.end().is_none_or(|end| self.voters.host.now() >= end) {
            let _ = before(&self.voters.host, limit, cause(round)).await;
        }
    }

    fn operation(&self, owner: &Arc<str>) -> Result<Operation> {
        Ok(Operation {
            verb: Verb::Claim,
            names: self.names.clone(),
            owner: owner.clone(),
            ttl: self.rules.validity.ttl(),
            ballot: self.voters.ballot()?,
            count: 1,
        })
    }

    fn note_fences(&self, round: &Round<ClaimTally>) {
        let fence = |reply: &Option<Reply>| match reply {
            Some(Ok(Outcome::Held { fence, .. } | Outcome::Stale { fence })) => Some(*fence),
            _ => None,
        };
        if let Some(highest) = round.replies(|replies| replies.iter().filter_map(fence).max()) {
            self.voters.ballots.seen(highest);
        }
    }

    /// When to ask again: after a random pause, or a little after the holder's time ends where that comes first.
    fn next_round(&self, failures: u32, defeat: &Defeat) -> Tick {
        let host = &self.voters.host;
        let pause = self.rules.backoff.pause(failures, self.voters.round_trip(), host.random());
        let free = defeat.free_in().map_or(pause, |left| left + Duration::from_millis(1));
        host.now() + pause.min(free)
    }

    fn defeated(&self, defeat: &Defeat, patience: Patience) -> Error {
        let error = match defeat.cause() {
            Cause::Contended => self.error(out_of_time(patience), "others hold it or split the votes"),
            Cause::Unavailable | Cause::Undecided if defeat.late => {
                self.error(ErrorKind::Unavailable, "the nodes granted too late")
            }
            Cause::Unavailable | Cause::Undecided => self.error(ErrorKind::Unavailable, "a quorum is out of reach"),
        };
        error.with_nodes(defeat.round.reports(self.voters)).with_source(defeat.source())
    }

    fn error(&self, kind: ErrorKind, why: &str) -> Error {
        let (size, name) = (self.voters.size, &self.names[0]);
        Error::new(
            kind,
            format!("cannot acquire {name:?}: {why}, and {} of {} nodes must agree", size.quorum(), size.nodes()),
        )
    }
}

const fn out_of_time(patience: Patience) -> ErrorKind {
    match patience {
        Patience::Once => ErrorKind::Contended,
        Patience::Until(_) => ErrorKind::Timeout,
    }
}

const fn named(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Won) => "won",
        Some(Verdict::Stale) => "stale",
        Some(Verdict::Failed) => "failed",
        None => "timeout",
    }
}

impl Defeat {
    fn cause(&self) -> Cause {
        if self.late { Cause::Unavailable } else { self.round.look(ClaimTally::cause) }
    }

    fn head(&self, voters: &Voters) -> Head {
        match self.cause() {
            Cause::Contended => Head::Contended,
            Cause::Unavailable => Head::Unavailable(self.round.reports(voters)),
            Cause::Undecided => Head::Trying,
        }
    }

    /// When the first of those who hold it has its time ended, if nobody renews it.
    fn free_in(&self) -> Option<Duration> {
        let left = |reply: &Option<Reply>| match reply {
            Some(Ok(Outcome::Held { remaining, .. })) => *remaining,
            _ => None,
        };
        self.round.replies(|replies| replies.iter().filter_map(left).min())
    }

    /// What caused the first fault.
    fn source(&self) -> Option<Arc<dyn std::error::Error + Send + Sync>> {
        let cause = |reply: &Option<Reply>| reply.as_ref()?.as_ref().err()?.cause();
        self.round.replies(|replies| replies.iter().find_map(cause))
    }
}

/// What was claimed under one owner. Unless it was won, dropping it releases it on every node that did not explicitly refuse.
struct Standing<'a> {
    voters: &'a Arc<Voters>,
    asked: Vec<(Arc<Operation>, Arc<Round<ClaimTally>>)>,
}

impl Standing<'_> {
    fn ask(&mut self, claim: Operation) -> (Tick, Arc<Round<ClaimTally>>) {
        let claim = Arc::new(claim);
        let round = Round::new(self.voters.nodes.len(), ClaimTally::new(self.voters.size));
        self.asked.push((claim.clone(), round.clone()));
        // Read before the first send: the nodes count from later than this.
        let t0 = self.voters.host.now();
        self.voters.ask(self.voters.everyone(), &claim, &round);
        (t0, round)
    }

    fn won(mut self) -> Arc<Operation> {
        let (claim, _) = self.asked.swap_remove(self.asked.len() - 1);
        self.asked.clear();
        claim
    }

    fn last(&self) -> Arc<Round<ClaimTally>> {
        self.asked[self.asked.len() - 1].1.clone()
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        let Some((claim, last)) = self.asked.last() else { return };
        let mut whom = NodeSet::default();
        for (_, round) in &self.asked {
            round.replies(|replies| mark(&mut whom, replies, may_hold));
        }
        let mut unheard = NodeSet::default();
        last.replies(|replies| mark(&mut unheard, replies, |reply| !matches!(reply, Some(Ok(_)))));
        if !whom.is_empty() {
            Cleanup::start(self.voters, claim, whom, unheard);
        }
    }
}

fn mark(set: &mut NodeSet, replies: &[Option<Reply>], which: impl Fn(&Option<Reply>) -> bool) {
    replies.iter().enumerate().filter(|(_, reply)| which(reply)).for_each(|(node, _)| set.insert(node));
}

/// Whether a node may hold what it answered so about. Unknown is not refused.
fn may_hold(reply: &Option<Reply>) -> bool {
    match reply {
        Some(Ok(Outcome::Held { .. } | Outcome::Stale { .. })) => false,
        Some(Err(fault)) => !fault.nothing_ran(),
        _ => true,
    }
}

/// Granted, refused, stale; all else is unknown.
pub(super) fn vote(reply: &Reply) -> Vote {
    match reply {
        Ok(Outcome::Granted) => Vote::Granted,
        Ok(Outcome::Held { .. }) => Vote::Refused,
        Ok(Outcome::Stale { .. }) => Vote::Stale,
        _ => Vote::Unknown,
    }
}

/// A caller that waits, as a metric.
struct Waiting<'a>(&'a Voters);

impl<'a> Waiting<'a> {
    fn new(voters: &'a Voters) -> Self {
        voters.meters.waits(true);
        Self(voters)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.meters.waits(false);
    }
}
