//! Acquiring: rounds of claims until one is won or the caller's time ends.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, Victory};
use super::hints::Listening;
use super::queue::{Head, Place, Queue};
use super::round::{Round, cause};
use super::voters::{Open, Voters};
use super::waiting::until_worth_asking;
use crate::config::Rules;
use crate::error::{Error, ErrorKind, Result};
use crate::host::{before, sleep_until};
use crate::node::{Name, Operation, Outcome, Reply, Stance};
use crate::quorum::tally::Cause;
use crate::quorum::waiting::patience as kept_for;
use crate::quorum::{ClaimTally, Decision, Grant, Terms, Tick, Verdict};

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
    /// What it was granted, and until when.
    pub(crate) grant: Grant,
    /// The place in the process's queue, which the holder keeps.
    pub(crate) place: Place,
    /// The ear for nodes that offer a turn after all.
    pub(crate) listening: Option<Listening>,
    /// How often in a row the lock was passed within this process.
    pub(crate) passes: u32,
    /// Whether anybody else may be waiting.
    pub(crate) others_wait: bool,
    /// Until it is dropped, a shutdown waits: whoever finds the quorum shut down releases first.
    pub(crate) open: Open,
}

/// Who wants what.
#[derive(Debug)]
pub(crate) struct Claimant<'a> {
    pub(crate) voters: &'a Arc<Voters>,
    pub(crate) queue: &'a Arc<Queue>,
    pub(crate) names: &'a Arc<[Name]>,
    pub(crate) rules: &'a Rules,
    /// Cancelled when the quorum is shut down.
    pub(crate) shut: &'a CancellationToken,
}

/// A round that was not won.
struct Defeat {
    round: Arc<Round<ClaimTally>>,
    /// A quorum granted, and too late.
    late: bool,
}

impl Claimant<'_> {
    /// Makes rounds until one is won. Dropped at any point, it leaves nothing behind: what was granted is released, and the places in all
    /// lines are given up.
    pub(crate) async fn acquire(&self, patience: Patience) -> Result<Won> {
        self.announced(patience).await?;
        let ticket = self.voters.ticket();
        let place = self.turn(patience).await?;
        let mut attempt = Attempt::new(self.voters, self.names, self.terms(), place.take_baton());
        // From here on a shutdown waits for this attempt; one that did not see it may have ended.
        if self.shut.is_cancelled() {
            return Err(Error::closed());
        }
        for failures in 0u32.. {
            let turn = attempt.turn();
            let defeat = match self.round(&mut attempt, ticket, failures, patience).await? {
                Ok(grant) => {
                    place.tell(Head::Holding);
                    self.note_turn(turn, true);
                    let Some(victory) = attempt.won(grant) else { break };
                    let Victory { claim, grant, listening, passes, others_wait, open } = victory;
                    return Ok(Won { claim, grant, place, listening, passes, others_wait, open });
                }
                Err(defeat) => defeat,
            };
            self.note_turn(turn, false);
            place.tell(defeat.head(self.voters));
            if let Some(end) = patience.end().filter(|&end| self.voters.host.now() < end) {
                // Then the holder before has just been released: what it refused may be free.
                let at_once = attempt.passes();
                attempt.requeue(self.stance(ticket, patience));
                if !at_once {
                    self.pause(&mut attempt, &defeat, failures, end).await;
                }
            }
            if patience.end().is_none_or(|end| self.voters.host.now() >= end) {
                return Err(self.defeated(&defeat, patience));
            }
        }
        Err(Error::closed())
    }

    /// Waits until all other clients know that this one's locks may last as long.
    async fn announced(&self, patience: Patience) -> Result<()> {
        let (voters, ttl) = (self.voters, self.rules.validity.ttl());
        if voters.members.onlooker {
            return Err(Error::config(
                "this client only looks; connect one without QuorumBuilder::onlooker to acquire",
            ));
        }
        let Some(until) = voters.members.held_back(ttl, voters.host.now()) else { return Ok(()) };
        sleep_until(&voters.host, patience.end().unwrap_or_default().min(until)).await;
        let left = until.since(voters.host.now());
        if left.is_zero() {
            return Ok(());
        }
        let why = format!(
            "other clients have a smaller max_ttl, and ttl {ttl:?} may be used in {left:.0?}, when all of them know"
        );
        Err(self.error(ErrorKind::Unavailable, &why))
    }

    fn terms(&self) -> Terms {
        let Rules { validity, min_validity, .. } = *self.rules;
        Terms { size: self.voters.size, validity, min_validity }
    }

    /// Waits until the next round: for a turn in line, or where none is to be had, for a random while.
    async fn pause(&self, attempt: &mut Attempt<'_>, defeat: &Defeat, failures: u32, end: Tick) {
        let waits = self.rules.fair && defeat.cause() != Cause::Unavailable && self.voters.hinted();
        if waits {
            until_worth_asking(self.voters, attempt.listen(), self.rules, failures, defeat.changes_in(), end).await;
        } else {
            sleep_until(&self.voters.host, self.next_round(failures, defeat).min(end)).await;
        }
    }

    fn note_turn(&self, turn: Option<Tick>, taken: bool) {
        match turn {
            Some(first) if taken => self.voters.meters.turn_taken(self.voters.host.now().since(first)),
            Some(_) => self.voters.meters.turn_missed(),
            None => {}
        }
    }

    /// How this caller stands to those who wait.
    fn stance(&self, ticket: u64, patience: Patience) -> Stance {
        match patience.end() {
            _ if !self.rules.fair => Stance::Barge,
            Some(end) => {
                let left = end.since(self.voters.host.now());
                if left.is_zero() {
                    return Stance::Once;
                }
                Stance::Wait { ticket, patience: left.min(kept_for(self.rules.validity.ttl())) }
            }
            None => Stance::Once,
        }
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
            // A turn that comes when the caller's time has ended is the next one's.
            let late = patience.end().is_some_and(|end| self.voters.host.now() >= end);
            if late || waited != Some(true) {
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
        match (place.head(), patience) {
            (Head::Unavailable(reports), _) => {
                self.error(ErrorKind::Unavailable, "a quorum is out of reach").with_nodes(reports)
            }
            // A whole round has passed without an answer from a quorum: nobody knows who holds it.
            (Head::Undecided, _) | (Head::Trying, Patience::Once) => {
                self.error(ErrorKind::Unavailable, "no quorum has answered an earlier caller of this process")
            }
            _ => self.error(out_of_time(patience), "others in this process are before this caller"),
        }
    }

    /// One round: a claim under a new owner, with higher ballots where nodes call one stale.
    async fn round(
        &self,
        attempt: &mut Attempt<'_>,
        ticket: u64,
        failures: u32,
        patience: Patience,
    ) -> Result<Result<Grant, Defeat>> {
        let limit = self.limit(failures, patience);
        loop {
            let round = attempt.ask(self.stance(ticket, patience))?;
            let _ = before(&self.voters.host, limit, round.verdict()).await;
            let now = self.voters.host.now();
            let verdict = round.look(ClaimTally::verdict);
            self.voters.meters.round(named(verdict), round.look(ClaimTally::is_split));
            let won = verdict == Some(Verdict::Won);
            if let Some(t0) = attempt.t0().filter(|_| won) {
                self.voters.measured(now.since(t0));
            }
            match attempt.decide(now) {
                Some(Decision::Won(grant)) => return Ok(Ok(grant)),
                Some(Decision::Lift) => {}
                Some(Decision::Failed(_)) if won => return Ok(Err(Defeat { round, late: true })),
                Some(Decision::Failed(_)) | None => {
                    self.diagnose(attempt, &round, limit, patience).await;
                    return Ok(Err(Defeat { round, late: false }));
                }
            }
        }
    }

    /// Until when a round waits. One round is always made whole, however short the caller's time is.
    fn limit(&self, failures: u32, patience: Patience) -> Tick {
        let whole = self.voters.host.now() + self.rules.round_timeout;
        match patience.end() {
            Some(end) if failures > 0 => end.min(whole),
            _ => whole,
        }
    }

    /// Waits until it is known why the round failed, where no further one will be made. What it was granted does not wait for that.
    async fn diagnose(&self, attempt: &mut Attempt<'_>, round: &Round<ClaimTally>, limit: Tick, patience: Patience) {
        if patience.end().is_none_or(|end| self.voters.host.now() >= end) {
            attempt.requeue(Stance::Once);
            let _ = before(&self.voters.host, limit, cause(round)).await;
        }
    }

    /// When to ask again: after a random pause, or a little after the holder's time ends where that comes first.
    fn next_round(&self, failures: u32, defeat: &Defeat) -> Tick {
        let host = &self.voters.host;
        let pause = self.rules.backoff.pause(failures, self.voters.round_trip(), host.random());
        host.now() + pause.min(defeat.changes_in().unwrap_or(pause))
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
            Cause::Undecided => Head::Undecided,
        }
    }

    /// When things change by themselves, as far as the nodes said: a holder's time ends, or somebody's turn. A little later, since nodes
    /// count whole milliseconds.
    fn changes_in(&self) -> Option<Duration> {
        let left = |reply: &Option<Reply>| match reply {
            Some(Ok(Outcome::Held { remaining, .. })) => *remaining,
            // Those further behind are woken when it is their turn to be next.
            Some(Ok(Outcome::Reserved { left, next: true, .. })) => Some(*left),
            _ => None,
        };
        let first = self.round.replies(|replies| replies.iter().filter_map(left).min());
        first.map(|left| left + Duration::from_millis(1))
    }

    /// What caused the first fault.
    fn source(&self) -> Option<Arc<dyn std::error::Error + Send + Sync>> {
        let cause = |reply: &Option<Reply>| reply.as_ref()?.as_ref().err()?.cause();
        self.round.replies(|replies| replies.iter().find_map(cause))
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
