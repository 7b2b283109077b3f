//! Makes rounds of claims until a round is won or the caller's time ends.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, QueuePolicy};
use super::claim_kind::ClaimKind;
use super::failed_round::{FailedRound, How};
use super::grant::Grant;
use super::pending_releases::Open;
use super::queue::{HeadStatus, Place, Queue};
use super::queue_entries::QueueEntries;
use super::round::{Round, explained};
use super::voters::Voters;
use super::waiting::{Failed, until_worth_asking};
use crate::config::Rules;
use crate::error::{Error, ErrorKind, NodeCause, NodeReport, Result};
use crate::host::{before, sleep_until};
use crate::metrics::RoundEnded;
use crate::node::{Listener, Mode, Name, NodeState, Outcome, Reply};
use crate::rules::tally::Cause;
use crate::rules::{ClaimTally, Decision, Tick, Verdict, Won};
use crate::spans::Spanned;
use crate::words::listed;

const OURS: &str = "this process itself holds it";
/// Nodes name an owner of this process, even after its lock became a ticket.
const OURS_OR_TICKET: &str = "this process itself holds it, or has made a ticket of it";
const OUT_OF_REACH: &str = "a quorum is out of reach";
pub(crate) const SPLIT: &str = "the votes were split: no quorum of nodes names one holder";

/// How long a caller tries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Makes one round, and waits for no holder.
    Once,
    /// Like `Once`, for a set. After a failed round, the set waits for its names one by one. So the
    /// error for a held name is `Timeout`.
    First,
    /// Does not wait for holders. If votes were split, makes further rounds until this deadline.
    Try(Tick),
    /// Waits until this deadline. A caller that gets its turn in this process's queue makes at
    /// least one round.
    Until(Tick),
}

impl Patience {
    pub(crate) const fn end(self) -> Option<Tick> {
        match self {
            Self::Once | Self::First | Self::Try(_) => None,
            Self::Until(end) => Some(end),
        }
    }

    /// The time until which another round may follow a round with split votes. `None` if no other
    /// round may follow.
    fn again_until(self, now: Tick, rules: &Rules) -> Option<Tick> {
        match self {
            Self::Once | Self::First => None,
            Self::Try(until) => Some(until),
            Self::Until(_) => Some(now + rules.longest_try()),
        }
    }

    /// The error kind if the caller gives up while another owner holds the name.
    pub(crate) const fn out_of_time(self) -> ErrorKind {
        match self {
            Self::Once | Self::Try(_) => ErrorKind::Contended,
            Self::First | Self::Until(_) => ErrorKind::Timeout,
        }
    }
}

/// The request of one caller: the names, the kind of owner, and the rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimant<'a> {
    pub(crate) voters: &'a Arc<Voters>,
    pub(crate) queue: &'a Arc<Queue>,
    pub(crate) names: &'a Arc<[Name]>,
    /// All names that the caller acquires, for error texts. `names` may be a part of them.
    pub(crate) told: &'a [Name],
    pub(crate) who: ClaimKind<'a>,
    pub(crate) rules: &'a Rules,
    /// Whether the owner may store a note once it holds the names.
    pub(crate) may_have_note: bool,
    /// The arrival for the nodes' queues. If `None`, the acquisition makes an arrival when it
    /// begins.
    pub(crate) arrival: Option<u64>,
    /// Cancelled when the quorum is shut down.
    pub(crate) shut: &'a CancellationToken,
}

enum RoundEnd {
    Won(Won),
    Defeated(FailedRound),
}

impl Claimant<'_> {
    /// Makes rounds until it wins one. If this future is dropped, its grants are released, and its
    /// places in all queues are given up.
    pub(crate) async fn acquire(&self, patience: Patience) -> Result<(Grant, Open)> {
        let now = self.voters.host.now();
        // A try waits for hellos, and then for its turn in this process. Both waits end at `whole`.
        let whole = now + self.rules.round_timeout;
        let again = patience.again_until(now, self.rules);
        self.voters.may_acquire()?;
        self.may_vote_in_time(patience)?;
        if patience.end().is_none() {
            self.voters.greeted(whole, self.shut).await;
        }
        let arrival = self.arrival.unwrap_or_else(|| self.voters.arrival());
        let places = self.turns(patience, whole).await?;
        let mut attempt = Attempt::new(self.voters, self.names, self.rules, self.who, self.may_have_note);
        // A shutdown waits for this attempt, unless the shutdown began first. So check for a
        // shutdown.
        if self.shut.is_cancelled() {
            return Err(Error::closed());
        }
        let won = self.granted(&mut attempt, &places, arrival, (patience, again)).await?;
        Ok(attempt.won(won, places))
    }

    async fn granted(
        &self,
        attempt: &mut Attempt<'_>,
        places: &QueueEntries,
        arrival: u64,
        (patience, mut again): (Patience, Option<Tick>),
    ) -> Result<Won> {
        let (mut rounds, mut failures) = (0u32, 0u32);
        let mut before = None;
        let mut waiting = places.held().map(|_| self.voters.meters.waits());
        loop {
            let limit = self.limit(rounds, again.or(patience.end()));
            let mut defeat = match self.round(attempt, arrival, limit, patience).await? {
                RoundEnd::Won(won) => return Ok(won),
                RoundEnd::Defeated(defeat) => defeat,
            };
            if let Some(error) = self.hopeless(&defeat) {
                return Err(error);
            }
            waiting.get_or_insert_with(|| self.voters.meters.waits());
            defeat.before = before.replace(defeat.round.clone());
            let split = again.filter(|_| self.is_over(patience) && defeat.is_split(self.voters));
            if split.is_none() {
                places.tell(&defeat.head(self.voters));
            }
            rounds = rounds.saturating_add(1);
            if self.rules.spent(rounds) {
                self.diagnose(attempt, &defeat.round, limit).await;
                return Err(self.defeated(&defeat, patience, split.is_some()));
            }
            if let Some(again) = split {
                let next = self.next_round(failures, &defeat);
                if next >= again {
                    return Err(self.defeated(&defeat, patience, true));
                }
                attempt.withdraw();
                failures = failures.saturating_add(1);
                sleep_until(&self.voters.host, next).await;
                continue;
            }
            if let Some(end) = patience.end().filter(|_| !self.is_over(patience)) {
                if let Some(won) = self.handed_over(attempt, &defeat, &mut failures, end).await? {
                    return Ok(won);
                }
                // After its first wait, the caller treats a split round like any other failed
                // round.
                again = None;
            }
            if self.is_over(patience) {
                return Err(self.defeated(&defeat, patience, false));
            }
        }
    }

    /// Waits after a failed round until it makes sense to ask again, or until `end`. If a quorum
    /// hands the name over, returns `Won`. Fails if quarantined nodes keep a quorum from voting
    /// until `end`.
    async fn handed_over(
        &self,
        attempt: &mut Attempt<'_>,
        defeat: &FailedRound,
        failures: &mut u32,
        end: Tick,
    ) -> Result<Option<Won>> {
        if defeat.cause() == Cause::Unavailable && self.voters.are_quarantined_past(end) {
            return Err(self.defeated(defeat, Patience::Until(end), false));
        }
        let failed = self.failed(attempt, defeat, *failures);
        let queues = defeat.cause() != Cause::Unavailable && attempt.queues();
        let handed = match queues {
            true => until_worth_asking(self.voters, attempt, failed, end).await,
            false => self.pause(*failures, defeat, end).await,
        };
        // A round that only renewed places is no failure. A round with a push or a late grant is a
        // failure: the next round may end in the same way, so the next pause must be longer.
        let fails = failed.soon || !queues || attempt.heard().is_none_or(|heard| heard.is_news());
        *failures = if fails { failures.saturating_add(1) } else { 0 };
        if handed.is_some() {
            self.note_handover(attempt);
        } else if attempt.holds_a_minority() {
            // Far nodes may grant a claim after nearer nodes have refused it. Without this
            // withdrawal, each waiter could keep a far node, and no waiter would get a quorum.
            attempt.withdraw();
        }
        Ok(handed)
    }

    /// Fails if quarantined nodes keep a quorum from voting until the caller's deadline.
    fn may_vote_in_time(&self, patience: Patience) -> Result<()> {
        if !patience.end().is_some_and(|end| self.voters.are_quarantined_past(end)) {
            return Ok(());
        }
        let reports = self.voters.reports();
        let advice = self.voters.advice(&reports);
        Err(self.error(ErrorKind::Unavailable, OUT_OF_REACH, patience, advice).with_nodes(reports))
    }

    /// Keeps the places and pushes of a failed round if [`Attempt::waits`] allows this. Otherwise,
    /// or if too few nodes voted in time, withdraws the round.
    fn failed(&self, attempt: &mut Attempt<'_>, defeat: &FailedRound, failures: u32) -> Failed {
        let waits = defeat.cause() != Cause::Unavailable && attempt.waits();
        if !waits {
            attempt.withdraw();
        }
        // After a withdrawal or a reply `stale`, a node may have no place for this owner: ask soon.
        let soon = !waits || defeat.round.look(|tally| !tally.stale().is_empty());
        Failed { failures, soon, told: defeat.changes_in().map(|left| left.saturating_add(attempt.defers())) }
    }

    /// Waits for a random pause, which no hint shortens. If too few nodes voted in the failed
    /// round, also waits until a quorum may vote, because no claim can succeed before that. Waits
    /// until `end` at most.
    async fn pause(&self, failures: u32, defeat: &FailedRound, end: Tick) -> Option<Won> {
        sleep_until(&self.voters.host, self.next_round(failures, defeat).min(end)).await;
        if defeat.cause() == Cause::Unavailable {
            // With `max_rounds`, wait no longer than a round may take: the limit must end the call.
            let whole = self.voters.host.now() + self.rules.round_timeout;
            let end = self.rules.max_rounds.map_or(end, |_| end.min(whole));
            let _ = self.voters.votes(end).await;
        }
        None
    }

    /// Whether the caller's time is over. Always true for a caller that does not wait for holders.
    fn is_over(&self, patience: Patience) -> bool {
        patience.end().is_none_or(|end| self.voters.host.now() >= end)
    }

    /// Records how long the hand-over has taken since the first push.
    fn note_handover(&self, attempt: &Attempt<'_>) {
        if let Some(pushed) = attempt.heard().and_then(|heard| heard.pushed) {
            self.voters.meters.handed_over(self.voters.host.now().since(pushed));
        }
    }

    /// How a claim treats waiters. If `fair` is false, the claim overtakes all waiters. Otherwise
    /// it waits in the nodes' queues if three things hold: it has one name, the caller has time
    /// left, and a quorum of nodes can send pushes.
    fn policy(&self, arrival: u64, patience: Patience) -> QueuePolicy {
        let waits = || self.names.len() == 1 && !self.is_over(patience) && self.voters.hinted();
        match self.rules.fair {
            false => QueuePolicy::Barge,
            true if waits() => QueuePolicy::Wait(arrival),
            true => QueuePolicy::Once,
        }
    }

    /// Waits until this caller has the turn for each of its names in this process's queues. A try
    /// waits until `whole` at most.
    async fn turns(&self, patience: Patience, whole: Tick) -> Result<QueueEntries> {
        let started = self.voters.host.now();
        let mut places = match self.who {
            ClaimKind::Next(Mode::Exclusive) | ClaimKind::Gate | ClaimKind::Permits(_) => {
                QueueEntries::join(self.queue, self.names)?
            }
            ClaimKind::Next(Mode::Shared) => QueueEntries::of_reader(self.queue, self.names)?,
            ClaimKind::Follows(..) => QueueEntries::at_once(self.queue),
        };
        if let Some(held) = places.held().filter(|_| patience.end().is_none()) {
            return Err(self.outwaited(held, patience));
        }
        if !places.try_turns() && !self.waited(&mut places, patience, whole).await {
            return Err(self.outwaited(places.blocked(), patience));
        }
        self.voters.meters.queue_wait(self.voters.host.now().since(started));
        Ok(places)
    }

    /// Waits for all turns. Returns false if the turns come too late, or, for a try, if a caller
    /// ahead gets a result. In these cases, drop `places`: the next caller then gets the turns.
    async fn waited(&self, places: &mut QueueEntries, patience: Patience, whole: Tick) -> bool {
        let late = || patience.end().is_some_and(|end| self.voters.host.now() >= end);
        if late() {
            return false;
        }
        let _waiting = self.voters.meters.waits();
        let waited = match patience.end() {
            None => before(&self.voters.host, whole, hear(places)).await == Some(true),
            Some(end) => before(&self.voters.host, self.turn_ends(end), places.turn()).await.is_some(),
        };
        let waited = waited && !late();
        if waited {
            places.tell(&HeadStatus::Trying);
        }
        waited
    }

    /// Until when a caller with the deadline `end` waits for its turn.
    fn turn_ends(&self, end: Tick) -> Tick {
        let bound = self.rules.longest_turn().map(|longest| self.voters.host.now() + longest);
        bound.map_or(end, |bound| end.min(bound))
    }

    fn outwaited(&self, place: &Place, patience: Patience) -> Error {
        match (place.head(), patience) {
            (HeadStatus::Unavailable(reports), _) if !place.is_held() => {
                let (why, reports) = (self.out_of_reach(), self.brought_up_to_date(reports));
                self.error(ErrorKind::Unavailable, &why, patience, "").with_nodes(reports)
            }
            // The first caller in the queue has no quorum of replies, so this process does not know
            // who holds the name.
            (HeadStatus::Undecided, _) | (HeadStatus::Trying, Patience::Once | Patience::First | Patience::Try(_))
                if !place.is_held() =>
            {
                let why = "no quorum has answered an earlier caller of this process";
                self.error(ErrorKind::Unavailable, why, patience, "")
            }
            (head, _) => {
                let holder = if let HeadStatus::Contended(holder) = head { holder } else { None };
                let why = match place.is_held() {
                    true => OURS,
                    false => "other callers in this process come before this caller",
                };
                self.error(patience.out_of_time(), why, patience, "").with_holder(holder)
            }
        }
    }

    /// One round: a claim, and more claims with higher ballots (lifts) while only a higher ballot
    /// can win. Grants and pushes are votes.
    async fn round(
        &self,
        attempt: &mut Attempt<'_>,
        arrival: u64,
        limit: Tick,
        patience: Patience,
    ) -> Result<RoundEnd> {
        loop {
            let span = Spanned::round();
            let round = attempt.ask(self.policy(arrival, patience), &span)?;
            let decision = self.decision(attempt, &round, limit).await;
            let verdict = round.look(ClaimTally::verdict);
            let took = self.note_round_trip(attempt, &round);
            let ended = named(decision, verdict);
            self.voters.meters.round(ended, round.look(ClaimTally::is_split), took);
            span.end(ended.as_str());
            match decision {
                Some(Decision::Won(won)) => {
                    if won.handed_over {
                        self.note_handover(attempt);
                    }
                    return Ok(RoundEnd::Won(won));
                }
                Some(Decision::Lift) => {}
                Some(Decision::Failed(_)) | None => {
                    let how = self.how(decision, &round, patience);
                    if how != How::Late && self.is_over(patience) {
                        self.diagnose(attempt, &round, limit).await;
                    }
                    return Ok(RoundEnd::Defeated(FailedRound { round, before: None, how }));
                }
            }
        }
    }

    fn how(&self, decision: Option<Decision>, round: &Round<ClaimTally>, patience: Patience) -> How {
        let (verdict, cause) = round.look(|tally| (tally.verdict(), tally.cause()));
        let too_late = decision == Some(Decision::Failed(Cause::Unavailable)) && cause != Cause::Unavailable;
        match (decision, patience) {
            (Some(_), _) if verdict == Some(Verdict::Won) || too_late => How::Late,
            (None, Patience::Try(end) | Patience::Until(end)) if self.voters.host.now() >= end => How::CutShort,
            _ => How::Refused,
        }
    }

    /// The decision on a round; `None` if the round is still undecided at `limit`.
    async fn decision(&self, attempt: &mut Attempt<'_>, round: &Round<ClaimTally>, limit: Tick) -> Option<Decision> {
        let mut lifts = None;
        loop {
            let changed = async {
                tokio::select! {
                    biased;
                    () = round.changed() => {}
                    () = attempt.news() => {}
                }
            };
            let until = lifts.map_or(limit, |at| limit.min(at));
            let changed = before(&self.voters.host, until, changed).await.is_some();
            let decision = attempt.decide(self.voters.host.now());
            if decision.is_some() || (!changed && until == limit) {
                return decision;
            }
            lifts = attempt.lifts_after(self.voters.host.now());
        }
    }

    /// Measures the round trip, if a quorum decided the ask. Returns the time since the ask; `None`
    /// if a node has pushed since then.
    fn note_round_trip(&self, attempt: &Attempt<'_>, round: &Round<ClaimTally>) -> Option<Duration> {
        let answered = round.look(|tally| {
            tally.verdict() == Some(Verdict::Won) || tally.verdict().is_some() && tally.cause() == Cause::Contended
        });
        // An ask with pushes measures nothing: it may have waited for pushes after its replies.
        let handed = attempt.heard().is_some_and(|heard| !heard.pushes.is_empty());
        let took = attempt.t0().filter(|_| !handed).map(|t0| self.voters.host.now().since(t0));
        // An ask that took longer than the round timeout measures nothing either: this process may
        // have stood still.
        if let Some(took) = took.filter(|took| answered && *took <= self.rules.round_timeout) {
            self.voters.measured(took);
        }
        took
    }

    /// The end of a round that begins now: after the round timeout, or at `end` if that is earlier.
    /// The first round always gets the whole timeout.
    fn limit(&self, rounds: u32, end: Option<Tick>) -> Tick {
        let whole = self.voters.host.now() + self.rules.round_timeout;
        match end {
            Some(end) if rounds > 0 => end.min(whole),
            _ => whole,
        }
    }

    /// Call this when the caller will get an error. Withdraws the round, and waits until the
    /// replies show why it failed, but not past `limit`.
    async fn diagnose(&self, attempt: &mut Attempt<'_>, round: &Round<ClaimTally>, limit: Tick) {
        attempt.stop_waiting();
        attempt.withdraw();
        let _ = before(&self.voters.host, limit, explained(round, self.voters.size.quorum())).await;
    }

    /// When to ask again: after a random pause, or just after another owner's hold ends, if that is
    /// earlier.
    fn next_round(&self, failures: u32, defeat: &FailedRound) -> Tick {
        let host = &self.voters.host;
        let pause = self.rules.backoff.pause(failures, self.voters.round_trip(), host.random());
        host.now() + pause.min(defeat.changes_in().unwrap_or(pause))
    }

    /// The error for a failed acquisition. `split` means that votes were split: no quorum names one
    /// holder.
    fn defeated(&self, defeat: &FailedRound, patience: Patience, split: bool) -> Error {
        let out_of_reach = self.out_of_reach();
        let (kind, why) = match defeat.cause() {
            Cause::Contended if split => (ErrorKind::Unavailable, SPLIT),
            Cause::Contended if defeat.is_held_by(self.voters.wakeups.client()) => {
                (patience.out_of_time(), OURS_OR_TICKET)
            }
            Cause::Contended if defeat.names_one(self.voters) => (patience.out_of_time(), "others hold it"),
            Cause::Contended => (patience.out_of_time(), "other owners hold it, or the votes were split"),
            Cause::Unavailable | Cause::Undecided if defeat.how == How::Late => {
                (ErrorKind::Unavailable, "nodes granted the lock, but their votes came too late or do not count")
            }
            Cause::Unavailable | Cause::Undecided => (ErrorKind::Unavailable, &*out_of_reach),
        };
        let reports = self.reports(defeat);
        let advice = if kind == ErrorKind::Unavailable { self.voters.advice(&reports) } else { "" };
        let error = self.error(kind, why, patience, advice);
        let holder = defeat.holder().filter(|_| !split);
        error.with_nodes(reports).with_source(defeat.source()).with_holder(holder)
    }

    /// The reason in error texts if no quorum voted: another list is in force, or else a quorum is
    /// out of reach.
    fn out_of_reach(&self) -> Arc<str> {
        self.voters.other_list().unwrap_or_else(|| OUT_OF_REACH.into())
    }

    /// The reply of each node, or why its votes do not count now.
    fn reports(&self, defeat: &FailedRound) -> Vec<NodeReport> {
        let reports = defeat.reports(self.voters);
        if defeat.cause() == Cause::Unavailable { self.brought_up_to_date(reports) } else { reports }
    }

    /// The reports may be old, because this client sends no claims while no quorum votes. So if a
    /// node's present state explains why the node does not vote, this state replaces its report.
    fn brought_up_to_date(&self, mut reports: Vec<NodeReport>) -> Vec<NodeReport> {
        let now = self.voters.statuses();
        let tells = |state: &NodeState| {
            matches!(state, NodeState::Quarantined { .. } | NodeState::OtherList { .. } | NodeState::Twins { .. })
        };
        for (report, now) in reports.iter_mut().zip(now) {
            let is_held = report.cause == NodeCause::Held;
            if tells(&now.state) || is_held && !now.state.is_admitted() {
                *report = NodeReport::of_status(&now);
            } else if is_held {
                report.said = format!("its last answer: {}", report.said);
            }
        }
        reports
    }

    /// The error if so many nodes replied `misused` or `lost` that no quorum can grant.
    fn hopeless(&self, defeat: &FailedRound) -> Option<Error> {
        let misused = |reply: &Option<Reply>| match reply {
            Some(Ok(Outcome::Misused { name })) => Some(*name),
            _ => None,
        };
        // If another owner holds a name on so many nodes, then no quorum holds it for the lock that
        // this claim takes over.
        let takes_over = self.who.follows().is_some();
        let is_lost = |reply: &&Option<Reply>| match reply {
            Some(Ok(Outcome::Held { .. })) => takes_over,
            Some(Ok(Outcome::Lost { .. })) => true,
            _ => false,
        };
        let blocking = self.voters.size.blocking() as usize;
        let (said, lost) = defeat.round.replies(|replies| {
            let said: Vec<_> = replies.iter().filter_map(misused).collect();
            (said, replies.iter().filter(is_lost).count())
        });
        // Only a claim that takes over a lock gets `lost`: the lock was revoked, released, or taken
        // over by another owner, or its hold expired.
        if lost >= blocking {
            let message = format!(
                "the lock on {} is not held any more: it was revoked or released, it has expired, or another owner has taken it over",
                listed(self.told)
            );
            return Some(Error::new(ErrorKind::Lost, message).with_nodes(defeat.reports(self.voters)));
        }
        let &name = said.first().filter(|_| said.len() >= blocking)?;
        let name = self.names.get(name).or(self.who.looks_at())?;
        Some(Error::config(self.who.misuse(name)).with_nodes(defeat.reports(self.voters)))
    }

    fn error(&self, kind: ErrorKind, why: &str, patience: Patience, advice: &str) -> Error {
        let (size, names, bound) = (self.voters.size, listed(self.told), self.bound(patience));
        let (quorum, nodes) = (size.quorum(), size.nodes());
        Error::new(
            kind,
            format!("cannot acquire {names}: {why}{bound}, and {quorum} of {nodes} nodes must agree{advice}"),
        )
    }

    /// The words for the error text if `max_rounds` ended the wait before the caller's deadline;
    /// else empty.
    fn bound(&self, patience: Patience) -> String {
        let time_left = patience.end().is_some_and(|end| self.voters.host.now() < end);
        let rounds = self.rules.max_rounds.filter(|_| time_left);
        rounds.map(|most| format!(" until max_rounds ({most}) ended the wait")).unwrap_or_default()
    }
}

/// Waits until this caller gets all turns, or until a caller ahead has a result. Returns whether
/// this caller got all turns.
async fn hear(places: &mut QueueEntries) -> bool {
    loop {
        places.blocked().news().await;
        if places.held().is_some() {
            return false;
        }
        if places.try_turns() {
            return true;
        }
        if !matches!(places.blocked().head(), HeadStatus::Trying | HeadStatus::Undecided) {
            return false;
        }
    }
}

const fn named(decision: Option<Decision>, verdict: Option<Verdict>) -> RoundEnded {
    match verdict {
        _ if matches!(decision, Some(Decision::Won(_))) => RoundEnded::Won,
        _ if matches!(decision, Some(Decision::Lift)) => RoundEnded::Stale,
        Some(Verdict::Won) => RoundEnded::Won,
        Some(Verdict::Stale) => RoundEnded::Stale,
        Some(Verdict::Failed) => RoundEnded::Failed,
        None => RoundEnded::Timeout,
    }
}
