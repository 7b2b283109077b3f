//! The decisions of one acquisition: whether its votes win the lock, and which nodes may hold the
//! name.
//!
//! This is a pure state machine: the caller passes in the time, and counts votes into the tallies.
//! The asynchronous code (`protocol::attempt`) carries out the decisions. The model checker
//! (`tests/model`) runs this same code.

use super::combination::{Combination, Sum, Terms, Won};
use super::handover::Handovers;
use super::node_set::NodeSet;
use super::tally::{Cause, ClaimTally, Verdict};
use super::tick::Tick;
use super::validity::MAX_ROUND;

/// How many times one round may ask again at once with a higher ballot. If another ask would be
/// needed after that, the round fails.
pub const LIFTS: usize = 3;

/// The votes of one ask. In the client, the tasks that receive replies share these votes, and add
/// to them. The model checker uses a plain [`ClaimTally`].
pub trait Votes {
    /// The votes so far.
    fn tally(&self) -> ClaimTally;
}

impl Votes for ClaimTally {
    fn tally(&self) -> ClaimTally {
        *self
    }
}

/// One ask: a claim that is sent to all nodes at once, with one ballot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask<V> {
    /// The time just before the first request was sent. So each node's hold begins later than `t0`.
    pub t0: Tick,
    /// The ballot of the ask.
    pub ballot: u64,
    /// The votes.
    pub votes: V,
}

/// What the votes of a round decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A quorum granted in time, so the owner holds the name.
    Won(Won),
    /// Ask again at once with a higher ballot.
    Lift,
    /// The round cannot be won.
    Failed(Cause),
}

/// One acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquisition<V> {
    terms: Terms,
    /// The highest ballot that was withdrawn on any node. Votes with ballots up to this one are
    /// void.
    withdrawn: u64,
    /// The asks of the last round.
    asks: Vec<Ask<V>>,
    /// Whether the last round has failed and was not withdrawn. If so, the next ask begins a new
    /// round.
    waits: bool,
    /// Two sets of nodes, by the asks after the last withdrawal and before the last round: the
    /// nodes that may have received one of these asks, and the nodes that may hold the name because
    /// of one of these asks.
    before: (NodeSet, NodeSet),
    /// The highest ballot of all asks.
    highest: u64,
}

impl<V: Votes> Acquisition<V> {
    /// An acquisition that has sent no ask yet.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        let before = (NodeSet::default(), NodeSet::default());
        Self { terms, withdrawn: 0, asks: Vec::with_capacity(1), waits: false, before, highest: 0 }
    }

    /// The highest ballot that was withdrawn; 0 if none was. The next ballot must be higher.
    #[must_use]
    pub const fn withdrawn(&self) -> u64 {
        self.withdrawn
    }

    /// Adds an ask, which the caller sends to all nodes.
    pub fn ask(&mut self, ask: Ask<V>) {
        if std::mem::take(&mut self.waits) {
            self.before = (self.sent(), self.may_hold());
            self.asks.clear();
        }
        self.highest = self.highest.max(ask.ballot);
        self.asks.push(ask);
    }

    /// The last ask.
    #[must_use]
    pub fn last(&self) -> Option<&Ask<V>> {
        self.asks.last()
    }

    /// The last ask, so that the caller can count votes in its tally.
    pub fn last_mut(&mut self) -> Option<&mut Ask<V>> {
        self.asks.last_mut()
    }

    /// Decides at `now` by the votes of the last ask and by the hand-overs. Returns `None` if more
    /// votes are needed, or if every ask is withdrawn.
    ///
    /// Checks at `now` that enough validity is left and that no vote is older than [`MAX_ROUND`]:
    /// the process may have been suspended after the last vote.
    #[must_use]
    pub fn decide(&self, now: Tick, handed: &Handovers) -> Option<Decision> {
        self.decide_by(now, handed, NodeSet::first(64))
    }

    /// Like [`decide`](Self::decide), but counts only votes of the nodes in `voting`. So the caller
    /// can leave out a node that came into doubt after it voted.
    #[must_use]
    pub fn decide_by(&self, now: Tick, handed: &Handovers, voting: NodeSet) -> Option<Decision> {
        let ask = self.asks.last().filter(|ask| ask.ballot > self.withdrawn)?;
        let tally = ask.votes.tally();
        if !handed.is_empty() {
            return self.combined(ask, tally, now, (handed, voting));
        }
        let granted = tally.granted().and(voting);
        let open = tally.unheard().without(tally.silent_nodes()).and(voting);
        let decision = match tally.verdict()? {
            Verdict::Won if self.in_time(ask.t0, now) && granted.len() >= self.terms.size.quorum() => {
                Decision::Won(self.won(ask, granted))
            }
            // A quorum granted, but not all of these nodes are in `voting`. Open nodes may still
            // complete a quorum within `voting`.
            Verdict::Won if self.in_time(ask.t0, now) && granted.or(open).len() >= self.terms.size.quorum() => {
                return None;
            }
            Verdict::Won => Decision::Failed(Cause::Unavailable),
            Verdict::Stale if self.may_lift() => Decision::Lift,
            Verdict::Stale | Verdict::Failed => Decision::Failed(tally.cause()),
        };
        Some(decision)
    }

    fn may_lift(&self) -> bool {
        self.asks.len() <= LIFTS
    }

    /// Whether to ask with a higher ballot (lift) before the last ask has a verdict: see
    /// [`ClaimTally::may_lift`]. Call this only if no node has pushed. The last lift of a round
    /// always waits for the verdict.
    #[must_use]
    pub fn may_lift_early(&self) -> bool {
        let liftable = |ask: &Ask<V>| {
            let tally = ask.votes.tally();
            tally.verdict().is_none() && tally.may_lift()
        };
        self.asks.len() < LIFTS && self.asks.last().is_some_and(liftable)
    }

    /// Decides by grants and pushes together, if any node has pushed.
    fn combined(&self, ask: &Ask<V>, tally: ClaimTally, now: Tick, by: (&Handovers, NodeSet)) -> Option<Decision> {
        let (handed, voting) = by;
        let (&Ask { t0, ballot, .. }, &Self { terms, withdrawn, .. }) = (ask, self);
        let sum = Combination { terms, t0, ballot, tally, handed, withdrawn, voting }.sum(now)?;
        Some(match sum {
            Sum::Won(won) if now < won.deadline.minus(won.least) => {
                let (highest, may_hold) = (self.highest.max(handed.top()), self.sent().or(handed.pushed()));
                Decision::Won(Won { highest, may_hold, ..won })
            }
            Sum::Won(_) => Decision::Failed(Cause::Unavailable),
            Sum::Apart if self.may_lift() => Decision::Lift,
            Sum::Apart | Sum::OutOfReach => Decision::Failed(tally.cause()),
        })
    }

    /// Whether `won` still counts at `now`: no vote is too old, and enough validity is left.
    #[must_use]
    pub fn holds(&self, won: &Won, now: Tick) -> bool {
        now < won.deadline.minus(won.least) && now < won.t0 + MAX_ROUND
    }

    fn in_time(&self, t0: Tick, now: Tick) -> bool {
        self.terms.validity.suffices(t0, now, self.terms.min_validity)
    }

    fn won(&self, ask: &Ask<V>, granted: NodeSet) -> Won {
        let Ask { t0, ballot, .. } = *ask;
        let (deadline, least) = (self.terms.validity.deadline(t0), self.terms.min_validity);
        let (may_hold, highest, backers) = (self.sent(), self.highest, granted);
        Won { t0, ballot, highest, handed_over: false, deadline, least, granted, backers, may_hold }
    }

    /// The nodes that may have received an ask that was sent after the last withdrawal.
    fn sent(&self) -> NodeSet {
        self.asks.iter().fold(self.before.0, |sent, ask| sent.or(ask.votes.tally().sent()))
    }

    /// The nodes that may hold the name because of an ask that was sent after the last withdrawal.
    /// A node is left out if its vote on each of these asks was `Refused` or `Unsent`.
    #[must_use]
    pub fn may_hold(&self) -> NodeSet {
        self.asks.iter().fold(self.before.1, |held, ask| held.or(ask.votes.tally().may_hold()))
    }

    /// The highest ballot of all asks.
    #[must_use]
    pub const fn highest(&self) -> u64 {
        self.highest
    }

    /// Whether the owner goes on waiting after a failed round, because a withdrawal would void
    /// pushes that may come. For this, no node may have granted the last ask. And the owner must
    /// have places in queues and no open push, or a push must have come after this ask
    /// (`handed_since`). Otherwise, the owner withdraws: a few nodes may hold the name for it.
    #[must_use]
    pub fn only_waits(&self, handed: &Handovers, handed_since: bool) -> bool {
        let tally = self.asks.last().map(|ask| ask.votes.tally());
        let nothing_granted = tally.is_some_and(|tally| tally.granted().is_empty());
        let waits = !handed.registered().is_empty() && handed.open().is_empty();
        nothing_granted && (waits || handed_since)
    }

    /// Ends the round without a withdrawal: the next ask begins a new round. Nodes may still hold
    /// the name because of the asks of the round that ended.
    pub const fn wait(&mut self) {
        self.waits = true;
    }

    /// The nodes without a usable answer to the last ask.
    #[must_use]
    pub fn unheard(&self) -> NodeSet {
        self.asks.last().map_or_else(NodeSet::default, |ask| ask.votes.tally().unheard())
    }

    /// Records that all asks so far are withdrawn, and all votes with ballots up to `ballot`.
    pub fn withdraw(&mut self, ballot: u64) {
        self.asks.clear();
        self.before = (NodeSet::default(), NodeSet::default());
        self.waits = false;
        self.withdrawn = self.withdrawn.max(ballot).max(self.highest);
    }
}

#[cfg(test)]
mod tests;
