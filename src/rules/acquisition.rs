//! One acquisition's decisions: what its votes come to, and what it must withdraw or release.
//!
//! A pure state machine: the caller tells it the time and counts votes into its tallies; it
//! decides. The asynchronous code around it (`protocol::attempt`) sends what it says, and the model
//! checker (`tests/model`) drives this very code.

use std::time::Duration;

use super::combination::{Carried, Combination, Sum, Terms};
use super::handover::Handovers;
use super::node_set::NodeSet;
use super::tally::{Cause, ClaimTally, Verdict};
use super::tick::Tick;
use super::validity::MAX_ROUND;

/// How many higher ballots are tried at once before a round counts as failed.
pub const LIFTS: usize = 3;

/// Where the votes of one ask are counted. In the client that is a place which the nodes' replies
/// reach from other tasks; in the model it is the tally itself.
pub trait Votes {
    /// The votes so far.
    fn tally(&self) -> ClaimTally;
}

impl Votes for ClaimTally {
    fn tally(&self) -> ClaimTally {
        *self
    }
}

/// All nodes were asked once, with one ballot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask<V> {
    /// Read before the first request was sent: the nodes count from later than this.
    pub t0: Tick,
    /// The ballot that was asked with.
    pub ballot: u64,
    /// The votes.
    pub votes: V,
}

/// What the votes of a round come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A quorum granted in time: the name is held.
    Won(Won),
    /// Ask again at once with a higher ballot.
    Lift,
    /// The round cannot be won.
    Failed(Cause),
}

/// A round that was won.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Won {
    /// When the ask or the registrations began that its votes answer, the first of them.
    pub t0: Tick,
    /// The ballot that a quorum granted: the fencing token.
    pub ballot: u64,
    /// The highest ballot that was asked with or pushed under this owner: a release must hide all
    /// of them.
    pub highest: u64,
    /// Whether it rests on pushes: most of what was asked for is still to be had, by a renewal.
    pub handed_over: bool,
    /// Until when it may be relied on, unless it is renewed.
    pub deadline: Tick,
    /// How much of it must be left when it is won.
    pub least: Duration,
    /// The nodes that granted: of several names all of them.
    pub voters: NodeSet,
    /// The nodes that granted it, or one of several names.
    pub backers: NodeSet,
    /// The nodes that may hold the name, of all asks under this owner.
    pub may_hold: NodeSet,
}

/// One acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquisition<V> {
    terms: Terms,
    /// The highest ballot that was withdrawn, at whatever node: no vote with one up to it counts.
    withdrawn: u64,
    /// What was asked since a round of it failed last.
    asks: Vec<Ask<V>>,
    /// Whether the last round has failed, and the next ask begins another.
    waits: bool,
    /// The nodes that may have heard of what was asked before, since it withdrew last, and those that
    /// may hold something by that.
    before: (NodeSet, NodeSet),
    /// The highest ballot that was asked with.
    highest: u64,
    /// Whether anything was ever asked.
    asked: bool,
}

impl<V: Votes> Acquisition<V> {
    /// An acquisition that has not asked yet.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        let before = (NodeSet::default(), NodeSet::default());
        Self { terms, withdrawn: 0, asks: Vec::with_capacity(1), waits: false, before, highest: 0, asked: false }
    }

    /// The highest ballot that was withdrawn; 0 if none was. The next ask must be above it.
    #[must_use]
    pub const fn withdrawn(&self) -> u64 {
        self.withdrawn
    }

    /// Whether anything was ever asked.
    #[must_use]
    pub const fn has_asked(&self) -> bool {
        self.asked
    }

    /// All nodes are being asked.
    pub fn ask(&mut self, ask: Ask<V>) {
        if std::mem::take(&mut self.waits) {
            self.before = (self.sent(), self.may_hold());
            self.asks.clear();
        }
        self.asked = true;
        self.highest = self.highest.max(ask.ballot);
        self.asks.push(ask);
    }

    /// The last ask.
    #[must_use]
    pub fn last(&self) -> Option<&Ask<V>> {
        self.asks.last()
    }

    /// The last ask, to count votes.
    pub fn last_mut(&mut self) -> Option<&mut Ask<V>> {
        self.asks.last_mut()
    }

    /// What the votes of the last ask, and what was handed over, come to at `now`; `None` as long
    /// as more are needed.
    ///
    /// Validity and [`MAX_ROUND`] are looked at here, at the time of the
    /// decision, since a process may have stood still after the last vote.
    #[must_use]
    pub fn decide(&self, now: Tick, handed: &Handovers) -> Option<Decision> {
        self.decide_by(now, handed, NodeSet::first(64))
    }

    /// The same if only these nodes may vote at `now`: a vote of a node that has come into doubt
    /// since does not count.
    #[must_use]
    pub fn decide_by(&self, now: Tick, handed: &Handovers, voting: NodeSet) -> Option<Decision> {
        let ask = self.asks.last().filter(|ask| ask.ballot > self.withdrawn)?;
        let tally = ask.votes.tally();
        if !handed.is_empty() {
            return self.combined(ask, tally, now, (handed, voting));
        }
        let voters = tally.granted().and(voting);
        let open = tally.unheard().without(tally.silent_nodes()).and(voting);
        let decision = match tally.verdict()? {
            Verdict::Won if self.in_time(ask.t0, now) && voters.len() >= self.terms.size.quorum() => {
                Decision::Won(self.won(ask, voters))
            }
            // Nodes that are still to answer may make a quorum of those that may vote.
            Verdict::Won if self.in_time(ask.t0, now) && voters.or(open).len() >= self.terms.size.quorum() => {
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

    /// Whether a higher ballot is worth asking with before the last ask is decided, if nothing was
    /// handed over: see [`ClaimTally::may_lift`]. One lift is kept for what all answers say.
    #[must_use]
    pub fn may_lift_early(&self) -> bool {
        let liftable = |ask: &Ask<V>| {
            let tally = ask.votes.tally();
            tally.verdict().is_none() && tally.may_lift()
        };
        self.asks.len() < LIFTS && self.asks.last().is_some_and(liftable)
    }

    /// The same if some nodes have handed the name over.
    fn combined(&self, ask: &Ask<V>, tally: ClaimTally, now: Tick, by: (&Handovers, NodeSet)) -> Option<Decision> {
        let (handed, voting) = by;
        let (&Ask { t0, ballot, .. }, &Self { terms, withdrawn, .. }) = (ask, self);
        let sum = Combination { terms, t0, ballot, tally, handed, withdrawn, voting }.sum(now)?;
        Some(match sum {
            Sum::Carried(carried) if now < carried.deadline.minus(carried.least) => {
                Decision::Won(self.carried(&carried, handed))
            }
            Sum::Carried(_) => Decision::Failed(Cause::Unavailable),
            Sum::Apart if self.may_lift() => Decision::Lift,
            Sum::Apart | Sum::OutOfReach => Decision::Failed(tally.cause()),
        })
    }

    fn carried(&self, carried: &Carried, handed: &Handovers) -> Won {
        let Carried { t0, ballot, pushed, deadline, least, voters } = *carried;
        let (highest, may_hold) = (self.highest.max(handed.top()), self.sent().or(handed.pushed()));
        let (handed_over, backers) = (pushed, voters);
        Won { t0, ballot, highest, handed_over, deadline, least, voters, backers, may_hold }
    }

    /// Whether what was won is worth having at `now` still: its votes count, and enough of it is left.
    #[must_use]
    pub fn holds(&self, won: &Won, now: Tick) -> bool {
        now < won.deadline.minus(won.least) && now < won.t0 + MAX_ROUND
    }

    fn in_time(&self, t0: Tick, now: Tick) -> bool {
        self.terms.validity.suffices(t0, now, self.terms.min_validity)
    }

    fn won(&self, ask: &Ask<V>, voters: NodeSet) -> Won {
        let Ask { t0, ballot, .. } = *ask;
        let (deadline, least) = (self.terms.validity.deadline(t0), self.terms.min_validity);
        let (may_hold, highest, backers) = (self.sent(), self.highest, voters);
        Won { t0, ballot, highest, handed_over: false, deadline, least, voters, backers, may_hold }
    }

    /// The nodes that may have heard of any claim since it withdrew last.
    fn sent(&self) -> NodeSet {
        self.asks.iter().fold(self.before.0, |sent, ask| sent.or(ask.votes.tally().sent()))
    }

    /// The nodes that may hold something, since it withdrew last: all that did not explicitly refuse
    /// each of its asks.
    #[must_use]
    pub fn may_hold(&self) -> NodeSet {
        self.asks.iter().fold(self.before.1, |held, ask| held.or(ask.votes.tally().may_hold()))
    }

    /// The highest ballot that was asked with.
    #[must_use]
    pub const fn highest(&self) -> u64 {
        self.highest
    }

    /// Whether a round that failed left nothing but places in queues, or what was handed over since
    /// it was asked (`handed_since`): then nothing is withdrawn: from a withdrawal on no vote up to
    /// that ballot would count, those that are still to come included. Else it holds a minority, which
    /// is given back.
    #[must_use]
    pub fn only_waits(&self, handed: &Handovers, handed_since: bool) -> bool {
        let tally = self.asks.last().map(|ask| ask.votes.tally());
        let nothing_granted = tally.is_some_and(|tally| tally.granted().is_empty());
        let waits = !handed.registered().is_empty() && handed.open().is_empty();
        nothing_granted && (waits || handed_since)
    }

    /// It goes on after a round that failed. What was asked is over; that nodes may hold something by
    /// it is not.
    pub const fn wait(&mut self) {
        self.waits = true;
    }

    /// The nodes whose answer to the last ask is not known.
    #[must_use]
    pub fn unheard(&self) -> NodeSet {
        self.asks.last().map_or_else(NodeSet::default, |ask| ask.votes.tally().unheard())
    }

    /// What it may have been granted with ballots up to this one is withdrawn: that is at least the
    /// highest that it asked with.
    pub fn withdraw(&mut self, ballot: u64) {
        self.asks.clear();
        self.before = (NodeSet::default(), NodeSet::default());
        self.waits = false;
        self.withdrawn = self.withdrawn.max(ballot).max(self.highest);
    }
}

#[cfg(test)]
mod tests;
