//! One acquisition's decisions: under which owner it asks, what its votes come to, and what it must
//! release.
//!
//! A pure state machine: the caller tells it the time and counts votes into its tallies; it decides.
//! The asynchronous code around it (`protocol::attempt`) sends what it says, and the model checker
//! (`tests/model`) drives this very code.

use std::time::Duration;

use super::handover::Handovers;
use super::node_set::NodeSet;
use super::tally::{Cause, ClaimTally, Size, Verdict};
use super::tick::Tick;
use super::validity::{MAX_ROUND, Validity};

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
    /// When the ask or the registrations began that its votes answer, the first of them.
    pub t0: Tick,
    /// The ballot that a quorum granted: the fencing token.
    pub ballot: u64,
    /// The highest ballot that was asked with or pushed under this owner: a release must hide all of them.
    pub highest: u64,
    /// Whether it rests on pushes: most of what was asked for is still to be had, by a renewal.
    pub handed_over: bool,
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
    /// What was asked under this owner since a round of it failed last.
    asks: Vec<Ask<V>>,
    /// Whether the last round has failed, and the next ask begins another.
    waits: bool,
    /// The nodes that may have heard of what was asked before, and those that may hold something by that.
    before: (NodeSet, NodeSet),
    /// The highest ballot that was asked with under this owner.
    highest: u64,
    /// Whether anything was ever asked.
    asked: bool,
}

impl<V: Votes> Acquisition<V> {
    /// An acquisition that has not asked yet.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        let before = (NodeSet::default(), NodeSet::default());
        Self { terms, round: 0, asks: Vec::with_capacity(1), waits: false, before, highest: 0, asked: false }
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
        if std::mem::take(&mut self.waits) {
            self.before = (self.sent(), self.may_hold());
            self.asks.clear();
        }
        self.asked = true;
        self.highest = self.highest.max(ask.ballot);
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

    /// What the votes of the last ask, and what was handed over, come to at `now`; `None` as long as
    /// more are needed.
    ///
    /// Validity and [`MAX_ROUND`] are looked at here, at the time of the
    /// decision, since a process may have stood still after the last vote.
    #[must_use]
    pub fn decide(&self, now: Tick, handed: &Handovers) -> Option<Decision> {
        let ask = self.asks.last()?;
        let tally = ask.votes.tally();
        if !handed.is_empty() {
            return self.combined(ask, tally, now, handed);
        }
        let decision = match tally.verdict()? {
            Verdict::Won if self.in_time(ask.t0, now) => Decision::Won(self.grant(ask, tally)),
            Verdict::Won => Decision::Failed(Cause::Unavailable),
            Verdict::Stale if self.may_lift() => Decision::Lift,
            Verdict::Stale | Verdict::Failed => Decision::Failed(tally.cause()),
        };
        Some(decision)
    }

    fn may_lift(&self) -> bool {
        self.asks.len() <= LIFTS
    }

    /// The same where some nodes have handed the name over. All votes that count must have one ballot:
    /// those of the last ask, which end a ttl after it began, and those that were pushed, which end by their own
    /// times. What a quorum of them carries is what may be relied on.
    fn combined(&self, ask: &Ask<V>, tally: ClaimTally, now: Tick, handed: &Handovers) -> Option<Decision> {
        let size = self.terms.size;
        let nodes = 0..size.nodes() as usize;
        let mut votes: Vec<_> = nodes.filter_map(|node| self.vote(node, ask, tally, now, handed)).collect();
        let pushes: NodeSet = votes.iter().filter(|vote| vote.pushed).map(|vote| vote.node).collect();
        let quorum = size.quorum() as usize;
        let alike = |ballot: u64| votes.iter().filter(|vote| vote.ballot == ballot).count();
        // One at most has a quorum.
        if let Some(ballot) = votes.iter().map(|vote| vote.ballot).find(|&ballot| alike(ballot) >= quorum) {
            votes.retain(|vote| vote.ballot == ballot);
            votes.sort_by_key(|vote| std::cmp::Reverse(vote.ends));
            votes.truncate(quorum);
            return Some(self.carried(&votes, now, handed));
        }
        // What has a lower ballot than the last ask is about to get that.
        let top = votes.iter().map(|vote| vote.ballot).max();
        let pending = |vote: &Counted| vote.ballot < ask.ballot && tally.is_open(vote.node);
        let other = votes.iter().filter(|vote| Some(vote.ballot) != top && !pending(vote)).count();
        let against = tally.refused().or(tally.silent_nodes()).without(pushes).len();
        let apart = tally.stale().or(tally.apart()).without(pushes).len();
        let other = u32::try_from(other).unwrap_or(u32::MAX);
        if against >= size.blocking() {
            Some(Decision::Failed(tally.cause()))
        } else if against + apart + other >= size.blocking() {
            Some(if self.may_lift() { Decision::Lift } else { Decision::Failed(tally.cause()) })
        } else {
            None
        }
    }

    /// What counts of a node at `now`.
    fn vote(&self, node: usize, ask: &Ask<V>, tally: ClaimTally, now: Tick, handed: &Handovers) -> Option<Counted> {
        // What has too little left may be renewed by an answer that is to come.
        let enough = |ends: Tick| now < ends.minus(self.terms.min_validity);
        if let Some(push) = handed.vote(node, now).filter(|push| enough(push.ends())) {
            return Some(Counted { node, ballot: push.ballot, t0: push.t0, ends: push.ends(), pushed: true });
        }
        let ends = self.terms.validity.deadline(ask.t0);
        let counts = tally.granted().contains(node) && now < ask.t0 + MAX_ROUND && now < ends;
        counts.then_some(Counted { node, ballot: ask.ballot, t0: ask.t0, ends, pushed: false })
    }

    /// What a quorum of votes with one ballot, the longest first, allows at `now`.
    fn carried(&self, quorum: &[Counted], now: Tick, handed: &Handovers) -> Decision {
        let deadline = quorum.iter().map(|vote| vote.ends).min().unwrap_or_default();
        if now >= deadline.minus(self.terms.min_validity) {
            return Decision::Failed(Cause::Unavailable);
        }
        Decision::Won(Grant {
            t0: quorum.iter().map(|vote| vote.t0).min().unwrap_or_default(),
            ballot: quorum.first().map_or(0, |vote| vote.ballot),
            highest: self.highest.max(handed.top()),
            handed_over: quorum.iter().any(|vote| vote.pushed),
            deadline,
            voters: quorum.iter().map(|vote| vote.node).collect(),
            may_hold: self.sent().or(handed.pushed()),
        })
    }

    /// Whether a grant is worth having at `now` still: its votes count, and enough of it is left.
    #[must_use]
    pub fn holds(&self, grant: &Grant, now: Tick) -> bool {
        now < grant.deadline.minus(self.terms.min_validity) && now < grant.t0 + MAX_ROUND
    }

    fn in_time(&self, t0: Tick, now: Tick) -> bool {
        self.terms.validity.suffices(t0, now, self.terms.min_validity)
    }

    fn grant(&self, ask: &Ask<V>, tally: ClaimTally) -> Grant {
        let Ask { t0, ballot, .. } = *ask;
        let deadline = self.terms.validity.deadline(t0);
        let (voters, may_hold, highest) = (tally.granted(), self.sent(), self.highest);
        Grant { t0, ballot, highest, handed_over: false, deadline, voters, may_hold }
    }

    /// The nodes that may have heard of any claim of the present owner.
    fn sent(&self) -> NodeSet {
        self.asks.iter().fold(self.before.0, |sent, ask| sent.or(ask.votes.tally().sent()))
    }

    /// The nodes that may hold something of the present owner: all that did not explicitly refuse
    /// each of its asks.
    #[must_use]
    pub fn may_hold(&self) -> NodeSet {
        self.asks.iter().fold(self.before.1, |held, ask| held.or(ask.votes.tally().may_hold()))
    }

    /// The highest ballot that was asked with under the present owner.
    #[must_use]
    pub const fn highest(&self) -> u64 {
        self.highest
    }

    /// Whether a round that failed left nothing but places in queues, or what was handed over since it was asked (`handed_since`):
    /// then it may be asked again under the same owner, and nothing is released: from a
    /// release on no vote would count, those that are still to come included. Else it holds a minority, which is given back.
    #[must_use]
    pub fn only_waits(&self, handed: &Handovers, handed_since: bool) -> bool {
        let tally = self.asks.last().map(|ask| ask.votes.tally());
        let nothing_granted = tally.is_some_and(|tally| tally.granted().or(tally.apart()).is_empty());
        let waits = !handed.registered().is_empty() && !handed.has_votes();
        nothing_granted && (waits || handed_since)
    }

    /// It goes on under the same owner after a round that failed. What was asked is over; that nodes may
    /// hold something by it is not.
    pub const fn wait(&mut self) {
        self.waits = true;
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
        self.before = (NodeSet::default(), NodeSet::default());
        (self.highest, self.waits) = (0, false);
        self.round = self.round.saturating_add(1);
    }
}

/// A vote that counts.
#[derive(Clone, Copy, Debug)]
struct Counted {
    node: usize,
    ballot: u64,
    t0: Tick,
    ends: Tick,
    pushed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quorum::handover::{Registered, Stamp};
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
        assert_eq!(acquisition.decide(at(110), &Handovers::default()), None);
        acquisition.last_mut().unwrap().votes.count(2, Vote::Granted);
        let Some(Decision::Won(grant)) = acquisition.decide(at(120), &Handovers::default()) else {
            panic!("a quorum granted")
        };
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
        assert!(matches!(acquisition.decide(at(987), &Handovers::default()), Some(Decision::Won(_))));
        assert_eq!(acquisition.decide(at(988), &Handovers::default()), Some(Decision::Failed(Cause::Unavailable)));
    }

    #[test]
    fn votes_older_than_the_longest_round_count_for_nothing_however_long_the_ttl() {
        let mut acquisition = acquisition(60_000);
        ask(&mut acquisition, 0, 7, &[Vote::Granted; 2]);
        assert!(matches!(acquisition.decide(at(4_999), &Handovers::default()), Some(Decision::Won(_))));
        assert_eq!(acquisition.decide(at(5_000), &Handovers::default()), Some(Decision::Failed(Cause::Unavailable)));
    }

    #[test]
    fn stale_ballots_are_lifted_three_times() {
        let mut acquisition = acquisition(1_000);
        for ballot in 0..3 {
            ask(&mut acquisition, 0, ballot, &[Vote::Stale; 2]);
            assert_eq!(acquisition.decide(at(1), &Handovers::default()), Some(Decision::Lift));
        }
        ask(&mut acquisition, 0, 3, &[Vote::Stale; 2]);
        assert_eq!(acquisition.decide(at(1), &Handovers::default()), Some(Decision::Failed(Cause::Contended)));
    }

    #[test]
    fn what_an_earlier_ask_may_have_left_is_not_forgotten_when_the_last_was_never_sent() {
        let mut acquisition = acquisition(1_000);
        ask(&mut acquisition, 0, 1, &[Vote::Granted, Vote::Stale, Vote::Stale]);
        ask(&mut acquisition, 5, 9, &[Vote::Unsent, Vote::Granted, Vote::Granted]);
        assert_eq!(nodes(acquisition.may_hold()), [0, 1, 2]);
        let Some(Decision::Won(grant)) = acquisition.decide(at(6), &Handovers::default()) else {
            panic!("a quorum granted")
        };
        assert_eq!(nodes(grant.may_hold), [0, 1, 2]);
    }

    #[test]
    fn a_round_that_is_given_up_leaves_its_votes_to_nobody() {
        let mut acquisition = acquisition(1_000);
        ask(&mut acquisition, 0, 1, &[Vote::Granted, Vote::Refused]);
        acquisition.give_up();
        assert_eq!(
            (acquisition.round(), acquisition.decide(at(1), &Handovers::default()), acquisition.has_asked()),
            (1, None, true)
        );
        assert!(acquisition.may_hold().is_empty() && acquisition.unheard().is_empty());
    }

    /// What was pushed with these ballots to claims that were sent at these times, for two seconds each.
    fn handed(pushes: &[(usize, u64, u64)]) -> Handovers {
        let (mut handed, stamp) = (Handovers::default(), Stamp::default());
        let later = Stamp { time: Duration::from_secs(1), ..stamp };
        let lasts = Validity::new(Duration::from_secs(2), Drift::default());
        for &(node, t0, ballot) in pushes {
            handed.refused(node, Some(Registered { t0: at(t0), lasts, stamp, rank: 1 }));
            assert!(handed.push(node, ballot, later, true));
        }
        handed
    }

    #[test]
    fn what_was_handed_over_ends_with_the_quorum_th_latest_of_its_votes() {
        let mut acquisition = acquisition(30_000);
        ask(&mut acquisition, 900, 5, &[Vote::Refused; 3]);
        assert_eq!(acquisition.decide(at(950), &handed(&[(0, 100, 7)])), Some(Decision::Failed(Cause::Contended)));
        for (pushes, t0, ends) in
            [(&[(0, 100, 7), (1, 500, 7)][..], 100, 2_078), (&[(0, 100, 7), (1, 500, 7), (2, 300, 7)], 300, 2_278)]
        {
            let Some(Decision::Won(grant)) = acquisition.decide(at(950), &handed(pushes)) else { panic!("{pushes:?}") };
            assert_eq!((grant.t0, grant.deadline, grant.ballot), (at(t0), at(ends), 7));
            assert_eq!((grant.voters.len(), grant.highest, grant.handed_over), (2, 7, true));
        }
        let two = handed(&[(0, 100, 7), (1, 500, 7)]);
        assert!(matches!(acquisition.decide(at(2_077), &two), Some(Decision::Won(_))));
        assert_eq!(acquisition.decide(at(2_078), &two), Some(Decision::Failed(Cause::Contended)), "one has ended");
    }

    #[test]
    fn pushes_and_grants_of_one_ballot_are_votes_alike() {
        let mut acquisition = acquisition(30_000);
        ask(&mut acquisition, 900, 7, &[Vote::Refused, Vote::Granted]);
        let Some(Decision::Won(grant)) = acquisition.decide(at(950), &handed(&[(0, 100, 7)])) else { panic!("won") };
        assert_eq!((grant.t0, grant.deadline), (at(100), at(2_078)));
        assert!(acquisition.holds(&grant, at(2_077)) && !acquisition.holds(&grant, at(2_078)));
    }

    #[test]
    fn pushes_and_grants_of_different_ballots_are_lifted() {
        let mut acquisition = acquisition(30_000);
        ask(&mut acquisition, 900, 8, &[Vote::Refused, Vote::Granted, Vote::Refused]);
        assert_eq!(acquisition.decide(at(950), &handed(&[(0, 100, 7)])), Some(Decision::Lift));
        assert_eq!(acquisition.decide(at(950), &handed(&[(0, 100, 7), (2, 100, 9)])), Some(Decision::Lift));
    }

    #[test]
    fn a_quorum_of_one_ballot_wins_whatever_others_have_pushed() {
        let mut acquisition = acquisition(30_000);
        ask(&mut acquisition, 900, 5, &[Vote::Refused; 3]);
        let three = handed(&[(0, 100, 7), (1, 100, 7), (2, 100, 9)]);
        let Some(Decision::Won(grant)) = acquisition.decide(at(950), &three) else { panic!("a quorum has 7") };
        assert_eq!((grant.ballot, grant.highest, nodes(grant.voters)), (7, 9, vec![0, 1]));
    }

    #[test]
    fn a_lift_waits_for_its_own_answers() {
        let mut acquisition = acquisition(30_000);
        let two = handed(&[(0, 100, 7), (1, 100, 9)]);
        ask(&mut acquisition, 50, 5, &[Vote::Refused; 3]);
        assert_eq!(acquisition.decide(at(950), &two), Some(Decision::Lift));
        for ballot in [9, 10] {
            let mut lifted = acquisition.clone();
            lifted.ask(Ask { t0: at(900), ballot, votes: ClaimTally::new(Size::of(3)) });
            lifted.last_mut().unwrap().votes.count(2, Vote::Refused);
            assert_eq!(lifted.decide(at(950), &two), None, "those that pushed will grant it");
            lifted.last_mut().unwrap().votes.count(0, Vote::Unknown);
            assert_eq!(lifted.decide(at(950), &two), Some(Decision::Lift), "or not, or are not heard");
        }
    }

    #[test]
    fn a_quorum_of_pushes_that_leaves_too_little_wins_nothing() {
        let mut acquisition = acquisition(30_000);
        acquisition.terms.min_validity = Duration::from_millis(500);
        ask(&mut acquisition, 900, 5, &[Vote::Refused; 3]);
        let two = handed(&[(0, 100, 7), (1, 100, 7)]);
        assert!(matches!(acquisition.decide(at(1_577), &two), Some(Decision::Won(_))));
        assert_eq!(acquisition.decide(at(1_578), &two), Some(Decision::Failed(Cause::Contended)));
        ask(&mut acquisition, 1_578, 7, &[]);
        assert_eq!(acquisition.decide(at(1_578), &two), None, "what holds it will tell");
    }

    #[test]
    fn who_was_only_refused_goes_on_under_its_owner_and_forgets_no_node_that_may_have_granted() {
        let mut acquisition = acquisition(30_000);
        ask(&mut acquisition, 0, 5, &[Vote::Refused, Vote::Refused, Vote::Unknown]);
        let mut waits = Handovers::default();
        assert!(!acquisition.only_waits(&waits, false), "no node has registered it");
        let (lasts, stamp) = (Validity::new(Duration::from_secs(2), Drift::default()), Stamp::default());
        waits.refused(0, Some(Registered { t0: at(0), lasts, stamp, rank: 1 }));
        assert!(acquisition.only_waits(&waits, false));
        let pushed = handed(&[(0, 0, 7)]);
        assert!(acquisition.only_waits(&pushed, true), "it is to be claimed");
        assert!(!acquisition.only_waits(&pushed, false), "it was, and it is a minority");
        for _ in 0..LIFTS {
            acquisition.wait();
            ask(&mut acquisition, 10, 6, &[Vote::Refused; 3]);
        }
        assert_eq!((nodes(acquisition.may_hold()), acquisition.highest(), acquisition.round()), (vec![2], 6, 0));
        ask(&mut acquisition, 20, 7, &[Vote::Stale; 3]);
        assert_eq!(acquisition.decide(at(21), &waits_nothing()), Some(Decision::Lift), "none of those were lifts");
        ask(&mut acquisition, 20, 7, &[Vote::Granted, Vote::Refused, Vote::Refused]);
        assert!(!acquisition.only_waits(&waits, true), "what was granted is to be released");
        acquisition.give_up();
        assert!(acquisition.may_hold().is_empty() && acquisition.highest() == 0);
    }

    fn waits_nothing() -> Handovers {
        Handovers::default()
    }
}
