//! Counts votes, and says whether a quorum has granted or is out of reach. The decision about a
//! round is in acquisition.rs, because it also depends on the time.

use super::node_set::NodeSet;

/// How many nodes there are, and how many must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size(u32);

impl Size {
    /// The size of a list of `nodes` **configured** nodes, connected or not.
    #[must_use]
    pub const fn of(nodes: u32) -> Self {
        Self(nodes)
    }

    /// The number of configured nodes, N.
    #[must_use]
    pub const fn nodes(self) -> u32 {
        self.0
    }

    /// How many nodes must agree: `N / 2 + 1`, so that any two quorums share a node.
    #[must_use]
    pub const fn quorum(self) -> u32 {
        self.0 / 2 + 1
    }

    /// How many failing nodes put a quorum out of reach: `N - quorum + 1`.
    #[must_use]
    pub const fn blocking(self) -> u32 {
        self.0 - self.quorum() + 1
    }
}

/// What one node answered. `Refused` and `Stale` differ: `Stale` is a refusal of this ballot only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// The node holds the name for this owner.
    Granted,
    /// The node refused, and would refuse any ballot. Usually, another owner holds the name there,
    /// or comes first in the queue. The name may also be held as a gate and claimed as something
    /// else, or the reverse. Or the claim is of a writer that becomes a reader, and its lock is
    /// over.
    Refused,
    /// The node refused this ballot, and may grant a higher one. The ballot is too low for the
    /// node's fence or floor, or for a hold of this owner on the node.
    Stale,
    /// The node did not answer, or gave no usable answer. It may have granted.
    Unknown,
    /// The node certainly carried nothing out. For example, there is no connection, or the node may
    /// not vote.
    Unsent,
}

/// What the votes of an ask decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A quorum granted.
    Won,
    /// A quorum is out of reach with this ballot, but a higher ballot may get one.
    Stale,
    /// A quorum is out of reach.
    Failed,
}

/// Why a round failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A quorum of nodes answered: another owner holds the name, or the votes were split.
    Contended,
    /// So many nodes cannot vote, or did not vote in time, that fewer nodes than a quorum can have
    /// answered. Or a quorum granted, but the grants came too late or did not count.
    Unavailable,
    /// Too few nodes have answered so far to tell `Contended` from `Unavailable`.
    Undecided,
}

/// The votes of one ask, by node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimTally {
    size: Size,
    granted: NodeSet,
    refused: NodeSet,
    stale: NodeSet,
    unknown: NodeSet,
    unsent: NodeSet,
}

impl ClaimTally {
    /// An empty tally.
    #[must_use]
    pub fn new(size: Size) -> Self {
        let none = NodeSet::default();
        Self { size, granted: none, refused: none, stale: none, unknown: none, unsent: none }
    }

    /// Counts a node's vote. This vote replaces an earlier vote of the same node.
    pub const fn count(&mut self, node: usize, vote: Vote) {
        self.forget(node);
        match vote {
            Vote::Granted => self.granted.insert(node),
            Vote::Refused => self.refused.insert(node),
            Vote::Stale => self.stale.insert(node),
            Vote::Unknown => self.unknown.insert(node),
            Vote::Unsent => self.unsent.insert(node),
        }
    }

    const fn forget(&mut self, node: usize) {
        self.granted.remove(node);
        self.refused.remove(node);
        self.stale.remove(node);
        self.unknown.remove(node);
        self.unsent.remove(node);
    }

    /// The nodes that granted.
    #[must_use]
    pub const fn granted(&self) -> NodeSet {
        self.granted
    }

    /// The nodes that called the ballot stale.
    #[must_use]
    pub const fn stale(&self) -> NodeSet {
        self.stale
    }

    /// The nodes whose vote is `Refused`.
    #[must_use]
    pub const fn refused(&self) -> NodeSet {
        self.refused
    }

    /// The nodes that may have received the claim.
    #[must_use]
    pub const fn sent(&self) -> NodeSet {
        NodeSet::first(self.size.nodes()).without(self.unsent)
    }

    /// The nodes that may have received the claim, except those whose vote is `Refused`. A node
    /// that called the ballot stale may have handed the name over to this owner with a higher
    /// ballot.
    #[must_use]
    pub const fn may_hold(&self) -> NodeSet {
        self.sent().without(self.refused)
    }

    /// The nodes without a usable answer.
    #[must_use]
    pub const fn unheard(&self) -> NodeSet {
        let heard = self.granted.or(self.refused).or(self.stale);
        NodeSet::first(self.size.nodes()).without(heard)
    }

    /// The verdict; `None` if the votes decide nothing yet. Later votes can turn `Stale` into
    /// `Failed`, and change no other verdict.
    #[must_use]
    pub const fn verdict(&self) -> Option<Verdict> {
        let against = self.refused.len() + self.silent();
        if self.granted.len() >= self.size.quorum() {
            Some(Verdict::Won)
        } else if against >= self.size.blocking() {
            Some(Verdict::Failed)
        } else if against + self.stale.len() >= self.size.blocking() {
            Some(Verdict::Stale)
        } else {
            None
        }
    }

    /// Whether to ask with a higher ballot before there is a verdict. For this, a node must have
    /// called the ballot stale, and such nodes must be a quorum together with the nodes that
    /// granted. If the client waited for a slow node each time, other clients could raise the
    /// fences again and again.
    #[must_use]
    pub const fn may_lift(&self) -> bool {
        !self.stale.is_empty() && self.granted.or(self.stale).len() >= self.size.quorum()
    }

    const fn silent(&self) -> u32 {
        self.silent_nodes().len()
    }

    /// The nodes that have given no usable answer and will give none.
    #[must_use]
    pub const fn silent_nodes(&self) -> NodeSet {
        self.unknown.or(self.unsent)
    }

    /// Whether a node has not answered yet.
    #[must_use]
    pub const fn is_open(&self, node: usize) -> bool {
        self.unheard().without(self.silent_nodes()).contains(node)
    }

    /// Why the round failed. If so many nodes are silent that fewer than a quorum can answer, the
    /// cause is `Unavailable`.
    #[must_use]
    pub const fn cause(&self) -> Cause {
        // If a quorum granted and the round still failed, the grants came too late or did not
        // count.
        let (granted, quorum) = (self.granted.len(), self.size.quorum());
        if self.silent() >= self.size.blocking() || granted >= quorum {
            Cause::Unavailable
        } else if granted + self.refused.len() + self.stale.len() >= quorum {
            Cause::Contended
        } else {
            Cause::Undecided
        }
    }

    /// Whether the round was split: some nodes granted, others refused, and neither group was a
    /// quorum.
    #[must_use]
    pub const fn is_split(&self) -> bool {
        let (granted, refused, quorum) = (self.granted.len(), self.refused.len(), self.size.quorum());
        granted > 0 && refused > 0 && granted < quorum && refused < quorum
    }
}

/// The result of a release, from best to worst. If several names are released, the worst of their
/// results counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Freed {
    /// A quorum held the name for this owner until now.
    Held,
    /// The nodes that did not answer decide whether a quorum held the name.
    Unknown,
    /// No quorum held the name for this owner any more.
    Gone,
}

/// The answers to one release.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseTally {
    size: Size,
    held: u32,
    gone: u32,
    unknown: u32,
}

impl ReleaseTally {
    /// An empty tally.
    #[must_use]
    pub const fn new(size: Size) -> Self {
        Self { size, held: 0, gone: 0, unknown: 0 }
    }

    /// Counts the answer of one node: whether it held the name for this owner, or `None` if it gave
    /// no usable answer.
    pub const fn count(&mut self, held: Option<bool>) {
        match held {
            Some(true) => self.held += 1,
            Some(false) => self.gone += 1,
            None => self.unknown += 1,
        }
    }

    /// Whether a quorum has carried out the release; `None` while this depends on answers that have
    /// not come yet.
    #[must_use]
    pub const fn confirmed(&self) -> Option<bool> {
        if self.held + self.gone >= self.size.quorum() {
            Some(true)
        } else if self.unknown >= self.size.blocking() {
            Some(false)
        } else {
            None
        }
    }

    /// The verdict; `None` while a later answer can still change it.
    #[must_use]
    pub const fn verdict(&self) -> Option<Freed> {
        let open = self.size.nodes() - self.held - self.gone - self.unknown;
        if self.held >= self.size.quorum() {
            Some(Freed::Held)
        } else if self.gone >= self.size.blocking() {
            Some(Freed::Gone)
        } else if self.held + open < self.size.quorum() && self.gone + open < self.size.blocking() {
            Some(Freed::Unknown)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quorum_table_of_one_to_nine_nodes() {
        let table = [(1, 1, 1), (2, 2, 1), (3, 2, 2), (4, 3, 2), (5, 3, 3), (6, 4, 3), (7, 4, 4), (8, 5, 4), (9, 5, 5)];
        for (nodes, quorum, blocking) in table {
            let size = Size::of(nodes);
            assert_eq!((size.quorum(), size.blocking()), (quorum, blocking), "{nodes} nodes");
        }
    }

    /// Two of four nodes can show that a hold had ended. Only three can show that it was held.
    #[test]
    fn hold_is_gone_once_two_of_four_nodes_report_it_ended() {
        let mut tally = ReleaseTally::new(Size::of(4));
        for (held, verdict) in [(None, None), (None, None), (Some(false), None), (Some(false), Some(Freed::Gone))] {
            tally.count(held);
            assert_eq!(tally.verdict(), verdict);
        }
    }

    fn tally(nodes: u32, votes: &[Vote]) -> ClaimTally {
        let mut tally = ClaimTally::new(Size::of(nodes));
        votes.iter().enumerate().for_each(|(node, &vote)| tally.count(node, vote));
        tally
    }

    #[test]
    fn a_round_is_won_the_moment_the_quorum_is_there() {
        assert_eq!(tally(5, &[Vote::Granted; 2]).verdict(), None);
        assert_eq!(tally(5, &[Vote::Granted; 3]).verdict(), Some(Verdict::Won));
    }

    #[test]
    fn refusals_and_faults_together_put_a_quorum_out_of_reach() {
        let votes = [Vote::Refused, Vote::Unknown, Vote::Unknown];
        assert_eq!(tally(5, &votes).verdict(), Some(Verdict::Failed));
    }

    #[test]
    fn stale_ballots_alone_ask_for_a_higher_one() {
        assert_eq!(tally(5, &[Vote::Stale; 3]).verdict(), Some(Verdict::Stale));
        assert_eq!(tally(5, &[Vote::Stale, Vote::Stale, Vote::Refused]).verdict(), Some(Verdict::Stale));
        let hopeless = [Vote::Stale, Vote::Refused, Vote::Refused, Vote::Refused];
        assert_eq!(tally(5, &hopeless).verdict(), Some(Verdict::Failed));
    }

    #[test]
    fn ballot_is_lifted_early_if_a_higher_one_has_a_quorum() {
        assert!(tally(4, &[Vote::Granted, Vote::Granted, Vote::Stale]).may_lift());
        assert!(tally(5, &[Vote::Granted, Vote::Stale, Vote::Stale]).may_lift());
        assert!(!tally(4, &[Vote::Granted, Vote::Refused, Vote::Stale]).may_lift());
        assert!(!tally(5, &[Vote::Granted; 3]).may_lift(), "no ballot needs to be higher");
    }

    #[test]
    fn a_majority_out_of_reach_is_never_told_as_contention() {
        assert_eq!(tally(5, &[Vote::Refused, Vote::Refused, Vote::Unknown, Vote::Unknown]).cause(), Cause::Undecided);
        let down = [Vote::Refused, Vote::Refused, Vote::Unknown, Vote::Unknown, Vote::Unknown];
        assert_eq!(tally(5, &down).cause(), Cause::Unavailable);
        assert_eq!(tally(5, &[Vote::Refused; 3]).cause(), Cause::Contended);
    }

    #[test]
    fn cause_follows_from_the_number_of_replies_without_a_fault() {
        assert_eq!(tally(5, &[Vote::Granted, Vote::Refused, Vote::Stale]).cause(), Cause::Contended);
        assert_eq!(tally(5, &[Vote::Granted, Vote::Stale]).cause(), Cause::Undecided);
        assert_eq!(tally(5, &[Vote::Granted; 2]).cause(), Cause::Undecided);
        assert_eq!(tally(5, &[Vote::Granted; 3]).cause(), Cause::Unavailable, "granted too late");
    }

    #[test]
    fn a_round_is_split_when_several_got_votes_and_nobody_a_quorum() {
        let split = |granted, refused| {
            let votes = [vec![Vote::Granted; granted], vec![Vote::Refused; refused]].concat();
            tally(5, &votes).is_split()
        };
        let table =
            [((0, 2), false), ((2, 0), false), ((1, 1), true), ((2, 2), true), ((3, 2), false), ((2, 3), false)];
        for ((granted, refused), expected) in table {
            assert_eq!(split(granted, refused), expected, "{granted} granted, {refused} refused");
        }
        assert!(!tally(9, &[vec![Vote::Granted; 1], vec![Vote::Refused; 6]].concat()).is_split());
        assert!(!tally(9, &[vec![Vote::Granted; 6], vec![Vote::Refused; 1]].concat()).is_split());
    }

    #[test]
    fn unknown_vote_may_hold_and_unsent_or_refused_does_not() {
        let votes = [Vote::Granted, Vote::Refused, Vote::Stale, Vote::Unknown, Vote::Unsent];
        let tally = tally(6, &votes);
        let nodes = |set: NodeSet| set.iter().collect::<Vec<_>>();
        assert_eq!(nodes(tally.may_hold()), [0, 2, 3, 5]);
        assert_eq!(nodes(tally.sent()), [0, 1, 2, 3, 5]);
        assert_eq!(nodes(tally.unheard()), [3, 4, 5]);
    }

    #[test]
    fn a_release_tells_held_gone_and_unknown_apart() {
        let freed = |answers: &[Option<bool>]| {
            let mut tally = ReleaseTally::new(Size::of(3));
            answers.iter().for_each(|&held| tally.count(held));
            tally.verdict()
        };
        assert_eq!(freed(&[Some(true)]), None);
        assert_eq!(freed(&[Some(true), Some(true)]), Some(Freed::Held));
        assert_eq!(freed(&[Some(false), Some(false)]), Some(Freed::Gone));
        assert_eq!(freed(&[None, None]), Some(Freed::Unknown));
        assert_eq!(freed(&[Some(true), None, Some(false)]), Some(Freed::Unknown), "one silent node decides");
        assert_eq!(freed(&[None, Some(false), Some(false)]), Some(Freed::Gone));
    }

    fn any_vote() -> impl Strategy<Value = Vote> {
        prop_oneof![
            Just(Vote::Granted),
            Just(Vote::Refused),
            Just(Vote::Stale),
            Just(Vote::Unknown),
            Just(Vote::Unsent)
        ]
    }

    proptest! {
        #[test]
        fn a_verdict_once_given_never_changes_and_all_votes_give_one(
            votes in proptest::collection::vec(any_vote(), 1..10)
        ) {
            let mut tally = ClaimTally::new(Size::of(votes.len() as u32));
            let mut first = None;
            for (node, &vote) in votes.iter().enumerate() {
                tally.count(node, vote);
                let now = tally.verdict();
                match first {
                    None => first = now,
                    Some(Verdict::Won) => prop_assert_eq!(now, Some(Verdict::Won)),
                    Some(Verdict::Failed) => prop_assert_eq!(now, Some(Verdict::Failed)),
                    // After `Stale`, the verdict may still become `Failed`, but never `Won`.
                    Some(Verdict::Stale) => prop_assert_ne!(now, Some(Verdict::Won)),
                }
            }
            prop_assert!(first.is_some());
        }

        #[test]
        fn two_quorums_share_a_node(nodes in 1u32..100) {
            prop_assert!(2 * Size::of(nodes).quorum() > nodes);
        }

        #[test]
        fn won_means_a_majority_of_the_configured_nodes(votes in proptest::collection::vec(any_vote(), 1..10)) {
            let tally = tally(votes.len() as u32, &votes);
            let granted = votes.iter().filter(|&&vote| vote == Vote::Granted).count();
            prop_assert_eq!(tally.verdict() == Some(Verdict::Won), 2 * granted > votes.len());
        }
    }
}
