//! What the grants of an ask and the pushes of nodes decide together.
//!
//! Only votes with the same ballot are added up. A grant counts until the validity of its ask ends.
//! A push counts until its hand-over ends. The lock may be relied on until the first vote of the
//! quorum ends.

use std::time::Duration;

use super::handover::{Handovers, Pushed};
use super::node_set::NodeSet;
use super::tally::{ClaimTally, Size};
use super::tick::Tick;
use super::validity::{MAX_ROUND, Validity};

/// The terms of a claim: how many nodes must agree, and how much validity must be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// How many nodes there are.
    pub size: Size,
    /// The ttl of the claim, and how much of it may be relied on.
    pub validity: Validity,
    /// How much validity must be left when the round is won.
    pub min_validity: Duration,
}

/// An ask, its answers, and the hand-overs to its owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Combination<'a> {
    pub(super) terms: Terms,
    /// When the ask began.
    pub(super) t0: Tick,
    /// The ballot of the ask.
    pub(super) ballot: u64,
    pub(super) tally: ClaimTally,
    pub(super) handed: &'a Handovers,
    /// The highest ballot that the owner has withdrawn on any node. Votes with this ballot or a
    /// lower one do not count.
    pub(super) withdrawn: u64,
    /// The nodes that may vote.
    pub(super) voting: NodeSet,
}

/// What the votes decide.
#[derive(Clone, Debug)]
pub(super) enum Sum {
    /// A quorum of votes has the same ballot. The fields `highest` and `may_hold` cover only these
    /// votes. The caller adds what other asks and pushes contribute.
    Won(Won),
    /// No ballot can get a quorum now, but a new ask with a higher ballot may get one.
    Apart,
    /// No ballot can get a quorum, whatever the other nodes answer.
    OutOfReach,
}

/// A round that was won.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Won {
    /// The earliest t0 of the claims that the votes answer.
    pub t0: Tick,
    /// The ballot that a quorum granted: the fencing token.
    pub ballot: u64,
    /// The highest ballot that this owner has sent in an ask or received in a push. A release must
    /// have at least this ballot.
    pub highest: u64,
    /// Whether a push is among the votes. If so, the lock has little time left: renew it soon.
    pub handed_over: bool,
    /// Until when the lock may be relied on if it is not renewed.
    pub deadline: Tick,
    /// How much validity must be left when the round is won.
    pub least: Duration,
    /// The nodes whose votes won. For a set of names: the nodes that voted for all names.
    pub granted: NodeSet,
    /// The nodes whose votes won. For a set of names: the nodes that voted for at least one name.
    pub backers: NodeSet,
    /// The nodes that may hold the name because of any ask of this owner or any push to it.
    pub may_hold: NodeSet,
}

/// A vote that counts.
#[derive(Clone, Copy, Debug)]
struct Counted {
    node: usize,
    ballot: u64,
    t0: Tick,
    ends: Tick,
    /// How much validity must be left.
    least: Duration,
    pushed: bool,
}

impl Combination<'_> {
    /// What the votes decide at `now`; `None` if more votes are needed.
    pub(super) fn sum(&self, now: Tick) -> Option<Sum> {
        let nodes = 0..self.terms.size.nodes() as usize;
        let votes: Vec<_> = nodes.filter_map(|node| self.vote(node, now)).collect();
        self.quorum(&votes).map(Sum::Won).or_else(|| self.blocked(&votes))
    }

    /// The vote of this node that counts at `now`, if any.
    fn vote(&self, node: usize, now: Tick) -> Option<Counted> {
        if !self.voting.contains(node) {
            return None;
        }
        let min_validity = self.terms.min_validity;
        // Ignore a push with too little time left: this node may also have granted the ask, and the
        // grant may last longer.
        let counts = |push: &Pushed| push.ballot > self.withdrawn && now < push.ends().minus(push.least(min_validity));
        if let Some(push) = self.handed.vote(node, now).filter(counts) {
            let (ends, least) = (push.ends(), push.least(min_validity));
            return Some(Counted { node, ballot: push.ballot, t0: push.t0, ends, least, pushed: true });
        }
        let ends = self.terms.validity.deadline(self.t0);
        let counts = self.tally.granted().contains(node) && now < self.t0 + MAX_ROUND && now < ends;
        counts.then_some(Counted { node, ballot: self.ballot, t0: self.t0, ends, least: min_validity, pushed: false })
    }

    /// If a quorum of votes has the same ballot, returns the round that these votes win. If there
    /// are more such votes than a quorum needs, only the votes that end last are used.
    fn quorum(&self, votes: &[Counted]) -> Option<Won> {
        let quorum = self.terms.size.quorum() as usize;
        let alike = |ballot: u64| votes.iter().filter(move |vote| vote.ballot == ballot);
        let ballot = votes.iter().map(|vote| vote.ballot).find(|&ballot| alike(ballot).count() >= quorum)?;
        let mut longest: Vec<_> = alike(ballot).collect();
        longest.sort_by_key(|vote| std::cmp::Reverse(vote.ends));
        longest.truncate(quorum);
        let granted = longest.iter().map(|vote| vote.node).collect();
        Some(Won {
            t0: longest.iter().map(|vote| vote.t0).min()?,
            ballot,
            highest: ballot,
            handed_over: longest.iter().any(|vote| vote.pushed),
            deadline: longest.iter().map(|vote| vote.ends).min()?,
            least: longest.iter().map(|vote| vote.least).max()?,
            granted,
            backers: granted,
            may_hold: granted,
        })
    }

    /// Why no quorum is possible; `None` if a quorum is still possible. Nodes that called the
    /// ballot stale, and votes with a lower ballot than other votes, count only for `Apart`: a new
    /// ask may get these nodes.
    fn blocked(&self, votes: &[Counted]) -> Option<Sum> {
        let blocking = self.terms.size.blocking();
        let pushes: NodeSet = votes.iter().filter(|vote| vote.pushed).map(|vote| vote.node).collect();
        let against = self.tally.refused().or(self.tally.silent_nodes()).without(pushes).len();
        if against >= blocking {
            return Some(Sum::OutOfReach);
        }
        let apart = self.tally.stale().without(pushes).len();
        (against + apart + self.outvoted(votes) >= blocking).then_some(Sum::Apart)
    }

    /// How many votes have a ballot below the highest one, and cannot change any more. A vote may
    /// still change if its node has not answered the ask yet, and the ask's ballot is above the
    /// vote's.
    fn outvoted(&self, votes: &[Counted]) -> u32 {
        let top = votes.iter().map(|vote| vote.ballot).max();
        let pending = |vote: &&Counted| vote.ballot < self.ballot && self.tally.is_open(vote.node);
        let outvoted = votes.iter().filter(|vote| Some(vote.ballot) != top && !pending(vote)).count();
        u32::try_from(outvoted).unwrap_or(u32::MAX)
    }
}
