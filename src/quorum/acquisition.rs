//! One acquisition's decisions: under which owner it asks, what its votes come to, and what it must
//! release.
//!
//! A pure state machine: the caller tells it the time and counts votes into its tallies; it decides.
//! The asynchronous code around it (`protocol::attempt`) sends what it says, and the model checker
//! (`tests/model`) drives this very code.

use std::time::Duration;

use super::node_set::NodeSet;
use super::tally::{Cause, ClaimTally, Size, Verdict};
use super::tick::Tick;
use super::validity::Validity;

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

/// What a claim must leave to be worth having.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// How many nodes there are.
    pub size: Size,
    /// What is asked for, and what may be relied on of it.
    pub validity: Validity,
    /// How much of the validity must be left.
    pub min_validity: Duration,
}

/// What the votes of a round come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A quorum granted in time: the name is held.
    Won(Grant),
    /// Ask again at once under the same owner, with a higher ballot.
    Lift,
    /// The round cannot be won.
    Failed(Cause),
}

/// A round that was won.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// When its last ask began.
    pub t0: Tick,
    /// The ballot that a quorum granted: the fencing token.
    pub ballot: u64,
    /// Until when it may be relied on, unless it is renewed.
    pub deadline: Tick,
    /// The nodes that granted.
    pub voters: NodeSet,
    /// The nodes that may hold the name, of all asks under this owner.
    pub may_hold: NodeSet,
}

/// One acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquisition<V> {
    terms: Terms,
    /// The number of the present owner: a new round is a new owner, so that a late release never
    /// undoes a newer grant, and no vote counts for an owner of which any release was sent.
    round: u32,
    /// What was asked under this owner.
    asks: Vec<Ask<V>>,
    /// Whether anything was ever asked.
    asked: bool,
}

impl<V: Votes> Acquisition<V> {
    /// An acquisition that has not asked yet.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        Self { terms, round: 0, asks: Vec::with_capacity(1), asked: false }
    }

    /// The number of the present owner.
    #[must_use]
    pub const fn round(&self) -> u32 {
        self.round
    }

    /// Whether anything was ever asked.
    #[must_use]
    pub const fn has_asked(&self) -> bool {
        self.asked
    }

    /// All nodes are being asked under the present owner.
    pub fn ask(&mut self, ask: Ask<V>) {
        self.asked = true;
        self.asks.push(ask);
    }

    /// The last ask under the present owner.
    #[must_use]
    pub fn last(&self) -> Option<&Ask<V>> {
        self.asks.last()
    }

    /// The last ask under the present owner, to count votes.
    pub fn last_mut(&mut self) -> Option<&mut Ask<V>> {
        self.asks.last_mut()
    }

    /// What the votes of the last ask come to at `now`; `None` as long as more are needed.
    ///
    /// Validity and [`MAX_ROUND`](super::validity::MAX_ROUND) are looked at here, at the time of the
    /// decision, since a process may have stood still after the last vote.
    #[must_use]
    pub fn decide(&self, now: Tick) -> Option<Decision> {
        let ask = self.asks.last()?;
        let tally = ask.votes.tally();
        let decision = match tally.verdict()? {
            Verdict::Won if self.in_time(ask.t0, now) => Decision::Won(self.grant(ask, tally)),
            Verdict::Won => Decision::Failed(Cause::Unavailable),
            Verdict::Stale if self.asks.len() <= LIFTS => Decision::Lift,
            Verdict::Stale | Verdict::Failed => Decision::Failed(tally.cause()),
        };
        Some(decision)
    }

    /// Whether what a quorum granted to an ask that began at `t0` is worth having at `now`.
    #[must_use]
    pub fn in_time(&self, t0: Tick, now: Tick) -> bool {
        self.terms.validity.suffices(t0, now, self.terms.min_validity)
    }

    fn grant(&self, ask: &Ask<V>, tally: ClaimTally) -> Grant {
        let Ask { t0, ballot, .. } = *ask;
        let deadline = self.terms.validity.deadline(t0);
        Grant { t0, ballot, deadline, voters: tally.granted(), may_hold: self.sent() }
    }

    /// The nodes that may have heard of any claim of the present owner.
    fn sent(&self) -> NodeSet {
        self.asks.iter().fold(NodeSet::default(), |sent, ask| sent.or(ask.votes.tally().sent()))
    }

    /// The nodes that may hold something of the present owner: all that did not explicitly refuse
    /// each of its asks.
    #[must_use]
    pub fn may_hold(&self) -> NodeSet {
        self.asks.iter().fold(NodeSet::default(), |held, ask| held.or(ask.votes.tally().may_hold()))
    }

    /// The nodes whose answer to the last ask is not known.
    #[must_use]
    pub fn unheard(&self) -> NodeSet {
        self.asks.last().map_or_else(NodeSet::default, |ask| ask.votes.tally().unheard())
    }

    /// The round is given up: what it may have been granted is to be released, and the next ask has
    /// another owner.
    pub fn give_up(&mut self) {
        self.asks.clear();
        self.round = self.round.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quorum::{Drift, Vote};

    fn at(ms: u64) -> Tick {
        Tick::new(Duration::from_millis(ms))
    }

    fn acquisition(ttl: u64) -> Acquisition<ClaimTally> {
        let validity = Validity::new(Duration::from_millis(ttl), Drift::default());
        Acquisition::new(Terms { size: Size::of(3), validity, min_validity: Duration::ZERO })
    }

    fn ask(of: &mut Acquisition<ClaimTally>, t0: u64, ballot: u64, votes: &[Vote]) {
        let mut tally = ClaimTally::new(Size::of(3));
        votes.iter().enumerate().for_each(|(node, &vote)| tally.count(node, vote));
        of.ask(Ask { t0: at(t0), ballot, votes: tally });
    }

    fn nodes(set: NodeSet) -> Vec<usize> {
        set.iter().collect()
    }

    #[test]
    fn a_quorum_in_time_wins_with_the_deadline_of_its_own_ask() {
        let mut acquisition = acquisition(1_000);
        ask(&mut acquisition, 100, 7, &[Vote::Granted]);
        assert_eq!(acquisition.decide(at(110)), None);
        acquisition.last_mut().unwrap().votes.count(2, Vote::Granted);
        let Some(Decision::Won(grant)) = acquisition.decide(at(120)) else { panic!("a quorum granted") };
        assert_eq!((grant.t0, grant.ballot, grant.deadline), (at(100), 7, at(1_088)));
        assert_eq!((nodes(grant.voters), nodes(grant.may_hold)), (vec![0, 2], vec![0, 1, 2]));
    }

    #[test]
    fn it_begins_with_the_first_owner_and_has_asked_nothing() {
        let mut acquisition = acquisition(1_000);
        assert_eq!((acquisition.round(), acquisition.has_asked()), (0, false));
        ask(&mut acquisition, 0, 7, &[]);
        assert_eq!((acquisition.round(), acquisition.has_asked()), (0, true));
    }

    #[test]
    fn a_quorum_that_comes_too_late_is_unavailable_and_not_contended() {
        let mut acquisition = acquisition(1_000);
        ask(&mut acquisition, 0, 7, &[Vote::Granted; 2]);
        assert!(matches!(acquisition.decide(at(987)), Some(Decision::Won(_))));
        assert_eq!(acquisition.decide(at(988)), Some(Decision::Failed(Cause::Unavailable)));
    }

    #[test]
    fn votes_older_than_the_longest_round_count_for_nothing_however_long_the_ttl() {
        let mut acquisition = acquisition(60_000);
        ask(&mut acquisition, 0, 7, &[Vote::Granted; 2]);
        assert!(matches!(acquisition.decide(at(4_999)), Some(Decision::Won(_))));
        assert_eq!(acquisition.decide(at(5_000)), Some(Decision::Failed(Cause::Unavailable)));
    }

    #[test]
    fn stale_ballots_are_lifted_three_times() {
        let mut acquisition = acquisition(1_000);
        for ballot in 0..3 {
            ask(&mut acquisition, 0, ballot, &[Vote::Stale; 2]);
            assert_eq!(acquisition.decide(at(1)), Some(Decision::Lift));
        }
        ask(&mut acquisition, 0, 3, &[Vote::Stale; 2]);
        assert_eq!(acquisition.decide(at(1)), Some(Decision::Failed(Cause::Contended)));
    }

    #[test]
    fn what_an_earlier_ask_may_have_left_is_not_forgotten_when_the_last_was_never_sent() {
        let mut acquisition = acquisition(1_000);
        ask(&mut acquisition, 0, 1, &[Vote::Granted, Vote::Stale, Vote::Stale]);
        ask(&mut acquisition, 5, 9, &[Vote::Unsent, Vote::Granted, Vote::Granted]);
        assert_eq!(nodes(acquisition.may_hold()), [0, 1, 2]);
        let Some(Decision::Won(grant)) = acquisition.decide(at(6)) else { panic!("a quorum granted") };
        assert_eq!(nodes(grant.may_hold), [0, 1, 2]);
    }

    #[test]
    fn a_round_that_is_given_up_leaves_its_votes_to_nobody() {
        let mut acquisition = acquisition(1_000);
        ask(&mut acquisition, 0, 1, &[Vote::Granted, Vote::Refused]);
        acquisition.give_up();
        assert_eq!((acquisition.round(), acquisition.decide(at(1)), acquisition.has_asked()), (1, None, true));
        assert!(acquisition.may_hold().is_empty() && acquisition.unheard().is_empty());
    }
}
