//! One acquisition: the claims that it sends, and what it must withdraw or release.

use std::sync::Arc;
use std::time::Duration;

use super::claim_kind::ClaimKind;
use super::grant::{Grant, Line};
use super::listening::Listening;
use super::pending_releases::Open;
use super::push_receiver::Heard;
use super::queue_entries::QueueEntries;
use super::release::{ReleaseRequest, ReleaseTargets, ReleaseTask};
use super::round::Round;
use super::voters::Voters;
use crate::config::Rules;
use crate::error::Result;
use crate::metrics::Counted;
use crate::node::vote::told;
use crate::node::{Claim, Kind, Name, Release, Waiter};
use crate::rules::handover::{self, Handovers};
use crate::rules::tally::Cause;
use crate::rules::{Acquisition, Ask, ClaimTally, Decision, NodeSet, Terms, Tick, Validity, Won};
use crate::spans::Spanned;

/// How many asks before the last one are checked for late replies.
const EARLIER: usize = 4;

/// Every fourth withdrawal of an owner does not take the owner's places again: see `place_again`.
const YIELDS: u32 = 4;

/// How a claim treats waiters.
#[derive(Clone, Copy, Debug)]
pub(super) enum QueuePolicy {
    /// Overtakes no waiter, and joins no queue.
    Once,
    /// Waits in the nodes' queues, with this arrival.
    Wait(u64),
    /// Overtakes all waiters.
    Barge,
}

/// All asks of one owner. An `Attempt` that is dropped before it has won leaves every queue. It
/// also sends a release to every node that may hold the name for this owner.
pub(super) struct Attempt<'a> {
    voters: &'a Arc<Voters>,
    rules: &'a Rules,
    number: u64,
    /// The last claim. Before the first ask: the first claim, with ballot 0.
    claim: Claim,
    /// Whether a claim was won. If so, dropping this attempt releases nothing.
    has_won: bool,
    /// The asks so far, and the decisions that follow from their replies.
    acquisition: Acquisition<Arc<Round<ClaimTally>>>,
    /// The asks before the last one. A far node may reply to these after the last ask is decided.
    earlier: Vec<Arc<Round<ClaimTally>>>,
    /// How long a hand-over lasts; `None` until a claim has announced this time. All claims
    /// announce the same time: a node may have stored an earlier claim whose reply was lost.
    lasts: Option<Validity>,
    /// The ballot that withdrawals and releases of `claim` carry for the next waiter; `None` before
    /// the first of them. They share this ballot until a fence or a ballot of this owner is as
    /// high.
    next: Option<u64>,
    /// The highest fence that any node returned to this owner.
    told: u64,
    /// When to lift the ballot (ask again with a higher one), even if some nodes have not replied
    /// by then. `None` until the nodes that granted or replied `stale` are a quorum together.
    early: Option<Tick>,
    /// How many withdrawals the owner has sent.
    withdrawals: u32,
    /// The nodes where a withdrawal may give the owner its place again.
    taken_again: NodeSet,
    in_line: Option<Counted<'a>>,
    listening: Option<Listening>,
    /// Makes a shutdown wait for this attempt, which may have to send a release.
    _open: Open,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        voters: &'a Arc<Voters>,
        names: &Arc<[Name]>,
        rules: &'a Rules,
        who: ClaimKind<'_>,
        may_have_note: bool,
    ) -> Self {
        let (owner, number) = who.owner(voters);
        let Rules { validity, min_validity, period, .. } = *rules;
        let kind = match period {
            Some(_) => Kind::Once,
            None if matches!(who, ClaimKind::Gate) => Kind::Gate,
            None if may_have_note => Kind::Noted,
            None => Kind::Lock,
        };
        let claim = Claim {
            names: names.clone(),
            list: voters.claimed.clone(),
            owner: owner.into(),
            kind,
            // Nodes hold the names for the whole period, if there is one.
            ttl: period.unwrap_or(validity.ttl()),
            ballot: 0,
            follows: who.follows().cloned(),
            gate: who.looks_at().cloned(),
            waiter: None,
            next: 0,
        };
        Self {
            voters,
            rules,
            number,
            claim,
            has_won: false,
            lasts: None,
            acquisition: Acquisition::new(Terms { size: voters.size, validity, min_validity }),
            earlier: Vec::new(),
            next: None,
            told: who.follows().map_or(0, |lock| lock.token),
            early: None,
            withdrawals: 0,
            taken_again: NodeSet::default(),
            in_line: None,
            listening: None,
            _open: voters.release_tasks.begin(),
        }
    }

    /// Begins to receive pushes and hints. Later calls change nothing.
    pub(super) fn listen(&mut self) -> &Listening {
        self.listening.get_or_insert_with(|| Listening::begin(&self.voters.wakeups, self.number))
    }

    /// The pushes and hints received since the last ask.
    pub(super) fn heard(&self) -> Option<Heard> {
        self.listening.as_ref().and_then(Listening::heard)
    }

    /// Waits for a push, a hint or a late grant.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn news(&self) {
        match &self.listening {
            Some(listening) => listening.news().await,
            None => std::future::pending().await,
        }
    }

    /// Sends a claim to all nodes.
    pub(super) fn ask(&mut self, policy: QueuePolicy, span: &Spanned) -> Result<Arc<Round<ClaimTally>>> {
        self.look_back();
        self.renew_claim(policy)?;
        if self.claim.waiter.is_some() {
            self.stand_in_line();
        }
        (self.next, self.early) = (None, None);
        // Read the clock before the first send: then each node's ttl begins later than `t0`.
        let t0 = self.voters.host.now();
        let claim = &self.claim;
        let watch = self.listening.as_ref().and_then(|listening| listening.asks(claim, t0, self.lasts));
        let tally = ClaimTally::new(self.voters.size);
        let round = Round::new(self.voters, claim.ballot, tally, watch);
        self.acquisition.ask(Ask { t0, ballot: claim.ballot, votes: round.clone() });
        self.voters.ask_within(span, self.voters.everyone(), &Arc::new(claim.clone().into()), &round);
        Ok(round)
    }

    /// Takes note of fences in late replies. If a name is free, the node refuses ballots up to the
    /// name's fence, and gives the owner no place in the queue. So the next ballot must be above
    /// these fences.
    fn look_back(&mut self) {
        let Some(last) = self.acquisition.last() else { return };
        if self.earlier.len() >= EARLIER {
            self.earlier.remove(0);
        }
        self.earlier.push(last.votes.clone());
        let told =
            |round: &Arc<Round<ClaimTally>>| round.replies(|replies| replies.iter().flatten().filter_map(told).max());
        if let Some(fence) = self.earlier.iter().filter_map(told).max() {
            self.voters.seen(fence);
            self.told = self.told.max(fence);
        }
    }

    /// When the last ask began.
    pub(super) fn t0(&self) -> Option<Tick> {
        self.acquisition.last().map(|ask| ask.t0)
    }

    /// The decision at `now`, by the replies to the last ask and by the pushes.
    pub(super) fn decide(&mut self, now: Tick) -> Option<Decision> {
        let told = self.acquisition.last()?.votes.replies(|replies| replies.iter().flatten().filter_map(told).max());
        if let Some(fence) = told {
            self.voters.seen(fence);
            self.told = self.told.max(fence);
        }
        let handed = self.handed();
        if !handed.is_empty() {
            self.voters.seen(handed.top());
        }
        match self.acquisition.decide_by(now, &handed, self.voters.voting()) {
            // This task may have stood still between reading `now` and reading the votes. So check
            // the win again with the time after both reads.
            Some(Decision::Won(won)) if !self.acquisition.holds(&won, self.voters.host.now()) => {
                Some(Decision::Failed(Cause::Unavailable))
            }
            None if self.lifts_early(now, &handed) => Some(Decision::Lift),
            decision => decision,
        }
    }

    /// Whether to lift the ballot early, while some nodes have not replied. When the nodes that
    /// granted and those that replied `stale` are a quorum together, the owner waits for the other
    /// nodes. This wait is as long as the replies so far took.
    fn lifts_early(&mut self, now: Tick, handed: &Handovers) -> bool {
        let Some(ask) = self.acquisition.last() else { return false };
        let (ballot, took) = (ask.ballot, now.since(ask.t0));
        // A fence that is far ahead of the clock may be on one node only. An ask above this fence
        // would raise the other nodes' fences as far. So do not lift early, unless the ask's own
        // ballot is far ahead too.
        let spreads = self.voters.is_far(self.told) && !self.voters.is_far(ballot);
        if !handed.is_empty() || spreads || !self.acquisition.may_lift_early() {
            return false;
        }
        now >= *self.early.get_or_insert(now + took)
    }

    /// The time at which the ballot is lifted early, if that is after `now`.
    pub(super) fn lifts_after(&self, now: Tick) -> Option<Tick> {
        self.early.filter(|at| now < *at)
    }

    fn handed(&self) -> Handovers {
        self.listening.as_ref().map(Listening::handed).unwrap_or_default()
    }

    /// Makes the next claim.
    fn renew_claim(&mut self, policy: QueuePolicy) -> Result<()> {
        self.claim.ballot = self.ballot()?;
        self.claim.next = match policy {
            QueuePolicy::Barge => 0,
            QueuePolicy::Once | QueuePolicy::Wait(_) => self.voters.next_ballot(self.claim.ballot),
        };
        self.claim.waiter = self.waiter(policy);
        Ok(())
    }

    /// The claim's data about the waiter; `None` if the owner does not wait. `again` is at least a
    /// round timeout, because the owner does not ask again during a round.
    fn waiter(&mut self, policy: QueuePolicy) -> Option<Waiter> {
        let QueuePolicy::Wait(arrival) = policy else { return None };
        let Rules { validity, drift, .. } = *self.rules;
        let lasts = || handover::lasts(validity.ttl(), drift, self.voters.round_trip());
        let lasts = *self.lasts.get_or_insert_with(lasts);
        let again = self.interval(lasts).max(self.rules.round_timeout);
        Some(Waiter { arrival, lasts: lasts.ttl(), again })
    }

    /// The time between two asks that renew the owner's places, by the owner's best rank in the
    /// queues.
    fn interval(&self, lasts: Validity) -> Duration {
        let soon = self.handed().rank().is_some_and(|rank| rank <= 2);
        handover::again(lasts.ttl(), self.rules.places, soon)
    }

    /// The pause between the end of another owner's hold and this owner's next ask, by this owner's
    /// best rank in the queues.
    pub(super) fn defers(&self) -> Duration {
        let rank = self.handed().rank().unwrap_or_default();
        self.lasts.map_or(Duration::ZERO, |lasts| handover::defers(lasts.ttl(), rank))
    }

    /// The ballot of the next ask: this owner's highest ballot so far. If that ballot was
    /// withdrawn, or a node returned a fence at least as high, picks a new, higher ballot.
    fn ballot(&self) -> Result<u64> {
        let known = self.highest();
        let above = self.told.max(self.acquisition.withdrawn());
        if known > above { Ok(known) } else { self.voters.ballot(above.max(known)) }
    }

    /// The highest ballot of all asks and pushes of this owner.
    fn highest(&self) -> u64 {
        self.acquisition.highest().max(self.listening.as_ref().map_or(0, |listening| listening.handed().top()))
    }

    /// Whether the failed round left only places in queues, and pushes that came after the ask. If
    /// so, ends the round without a withdrawal.
    pub(super) fn waits(&mut self) -> bool {
        let since = self.heard().is_some_and(|heard| !heard.pushes.is_empty());
        let waits = self.in_line.is_some() && self.acquisition.only_waits(&self.handed(), since);
        if waits {
            self.acquisition.wait();
        }
        waits
    }

    /// Whether a node granted the last claim after the round had failed. False if a node has pushed
    /// since the ask: the owner must first ask with the pushed ballot.
    pub(super) fn holds_a_minority(&self) -> bool {
        let late = self.acquisition.last().is_some_and(|ask| ask.votes.look(|tally| !tally.granted().is_empty()));
        late && self.heard().is_none_or(|heard| heard.pushes.is_empty())
    }

    /// Whether the owner waits in the nodes' queues.
    pub(super) const fn queues(&self) -> bool {
        self.claim.waiter.is_some()
    }

    /// When the owner asks again if no hint comes earlier; `None` after a withdrawal, because the
    /// owner pauses then.
    pub(super) fn asks_again(&self) -> Option<Tick> {
        let said = self.claim.waiter?.again;
        let near = self.lasts.filter(|_| self.heard().is_some_and(|heard| heard.is_near));
        let soon = near.map(|lasts| handover::again(lasts.ttl(), self.rules.places, true));
        Some(self.t0()? + soon.map_or(said, |soon| said.min(soon)))
    }

    /// Withdraws all grants and pushes so far, on each node that may hold the name for this owner.
    pub(super) fn withdraw(&mut self) {
        // Read `may_hold` before the hand-overs: a reply may move a node from `may_hold` to the
        // hand-overs. In the other order, this code could miss that node.
        let (may_hold, unheard) = (self.acquisition.may_hold(), self.acquisition.unheard());
        let targets = |handed: &Handovers| may_hold.or(handed.open());
        let (ask, ballot) = match &self.listening {
            Some(listening) => listening.withdraw(self.acquisition.highest(), targets),
            None => (may_hold, self.acquisition.highest()),
        };
        if ask.is_empty() {
            return self.acquisition.wait();
        }
        let place = self.place_again();
        if place.is_some() {
            self.taken_again = self.taken_again.or(ask);
        }
        self.acquisition.withdraw(ballot);
        let next = self.next(ballot);
        let withdraw = ReleaseRequest::withdrawal(Release { ballot, next, place, ..Release::of(&self.claim) });
        ReleaseTask::start(self.voters, self.with_lease(withdraw), ReleaseTargets { ask, insist: ask, unheard });
    }

    /// The place in the queues that the owner takes again when it withdraws. Without places,
    /// waiters that hold some nodes each could pass these nodes to each other for ever. But an
    /// owner that cannot win must not keep the name from others. So this is `None` after a round
    /// that too few nodes answered in time, and at every fourth withdrawal.
    fn place_again(&mut self) -> Option<(Kind, Waiter)> {
        self.withdrawals = self.withdrawals.wrapping_add(1);
        let ask = self.acquisition.last()?;
        let is_late = self.voters.host.now().since(ask.t0) >= self.rules.round_timeout;
        if is_late || ask.votes.look(ClaimTally::cause) == Cause::Unavailable {
            return None;
        }
        let waiter = self.claim.place().filter(|_| !self.withdrawals.is_multiple_of(YIELDS))?;
        Some((self.claim.kind, waiter))
    }

    /// From now on, withdrawals take no place in the queues, because the owner will end.
    pub(super) const fn stop_waiting(&mut self) {
        self.claim.waiter = None;
    }

    /// Sets the request's `lease` to the lock's ttl. The request's `ttl` may be longer: for a job
    /// that runs once in a period, it is the period.
    fn with_lease(&self, request: ReleaseRequest) -> ReleaseRequest {
        ReleaseRequest { lease: self.rules.validity.ttl(), ..request }
    }

    /// The ballot for the next waiter, above `above`.
    fn next(&mut self, above: u64) -> u64 {
        let above = above.max(self.told);
        let next = self.next.filter(|next| *next > above).unwrap_or_else(|| self.voters.next_ballot(above));
        *self.next.insert(next)
    }

    /// Makes the grant of the won round. The grant keeps `places`, which are in the process's
    /// queues. A shutdown waits until the returned [`Open`] is dropped, so the caller can send a
    /// release until then.
    pub(super) fn won(mut self, won: Won, places: QueueEntries) -> (Grant, Open) {
        let claim = Claim { ballot: won.ballot, ttl: self.rules.validity.ttl(), ..self.claim.clone() };
        // A withdrawal that is still on its way may give the owner a place again. So the node that
        // gets this withdrawal may hand the name over to this owner.
        let won = Won { may_hold: won.may_hold.or(self.taken_again), ..won };
        self.has_won = true;
        self.in_line = None;
        let mut listening = self.listening.take();
        listening.iter_mut().for_each(|listening| listening.rest(&claim.owner));
        let open = self.voters.release_tasks.begin();
        let line = Line { places: places.served(self.rules.fair), listening };
        (Grant::new(self.voters, claim, won, line, self.rules), open)
    }

    /// Call this before the owner joins the nodes' queues: a push or hint may come together with
    /// the reply.
    fn stand_in_line(&mut self) {
        let meters = &self.voters.meters;
        self.in_line.get_or_insert_with(|| meters.in_line());
        self.listen();
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let in_line = self.in_line.take().is_some();
        // Read `may_hold` before the hand-overs, as in `withdraw`.
        let (may_hold, unheard) = (self.acquisition.may_hold(), self.acquisition.unheard());
        let listening = self.listening.take();
        let handed = listening.as_ref().map(Listening::end).unwrap_or_default();
        if self.has_won {
            return;
        }
        // The nodes that may have granted a claim of this owner, or may hand the name over to it.
        let mut ask = may_hold.or(handed.pushed()).or(handed.registered()).or(self.taken_again);
        let insist = ask;
        if in_line {
            ask = self.voters.everyone();
        }
        if !ask.is_empty() {
            let ballot = self.acquisition.highest().max(handed.top());
            let release = Release::of(&self.claim);
            let next = self.next(ballot);
            let request = self.with_lease(ReleaseRequest::release(Release { ballot, next, ..release }));
            let task = ReleaseTask::start(self.voters, request, ReleaseTargets { ask, insist, unheard });
            listening.into_iter().for_each(|listening| task.ends(listening));
        }
    }
}
