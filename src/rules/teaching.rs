//! Which ballots a node must be told of that may have forgotten what it granted.
//!
//! Its fences are gone, and with them what kept tokens growing. But whoever was granted a token has
//! it from a quorum, so any N - quorum + 1 other nodes that never forgot include one that has it in
//! its `high`. The highest of theirs becomes the floor below which the node grants nothing.

use super::node_set::NodeSet;
use super::tally::Size;

/// What the nodes' records say.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    size: Size,
    answered: NodeSet,
    known: NodeSet,
    taught: NodeSet,
    listed: NodeSet,
    high: u64,
}

/// What is to be done about one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing: it never forgot, or somebody taught it.
    Nothing,
    /// It is told this ballot.
    Teach(u64),
    /// Too few others know. What they know of, this ballot, is told all the same: that only refuses
    /// more.
    NobodyKnows(u64),
}

impl Records {
    /// No record so far.
    #[must_use]
    pub fn new(size: Size) -> Self {
        let none = NodeSet::default();
        Self { size, answered: none, known: none, taught: none, high: 0, listed: (0..size.nodes() as usize).collect() }
    }

    /// The same where clients count the votes of these nodes only, by the rosters. Others may know
    /// nothing of what was dealt, and what they are told may not be all: tokens are still dealt by
    /// the nodes that vote in their place.
    #[must_use]
    pub const fn of_listed(mut self, listed: NodeSet) -> Self {
        self.listed = listed;
        self
    }

    /// The record of a node: its `high`, and whether its present process is known to have never
    /// forgotten. `None` if it did not tell.
    pub const fn count(&mut self, node: usize, record: Option<(u64, bool)>) {
        self.answered.insert(node);
        if let Some((high, taught)) = record {
            self.known.insert(node);
            if taught {
                self.taught.insert(node);
            }
            if high > self.high {
                self.high = high;
            }
        }
    }

    /// Whether no further record is needed to advise on `pupils`.
    #[must_use]
    pub fn suffice(&self, pupils: NodeSet) -> bool {
        let complete = self.answered.len() == self.size.nodes();
        complete || pupils.iter().all(|pupil| !matches!(self.advise(pupil, false), Advice::NobodyKnows(_)))
    }

    /// The highest ballot that was dealt, if so many know that every quorum has one of them.
    #[must_use]
    pub fn known(&self) -> Option<u64> {
        (self.taught.len() >= self.size.blocking()).then_some(self.high)
    }

    /// What is to be done about a node. `free` says that no node is quarantined any more: then all
    /// of them together know what can be known, whoever forgot.
    #[must_use]
    pub fn advise(&self, pupil: usize, free: bool) -> Advice {
        let mut teachers = self.taught.and(self.listed);
        teachers.remove(pupil);
        let all = || free && self.known.and(self.listed).len() == self.size.nodes();
        if self.taught.contains(pupil) {
            Advice::Nothing
        } else if self.listed.contains(pupil) && (teachers.len() >= self.size.blocking() || all()) {
            Advice::Teach(self.high)
        } else {
            Advice::NobodyKnows(self.high)
        }
    }

    /// Whether clients count a node's votes.
    #[must_use]
    pub fn is_listed(&self, node: usize) -> bool {
        self.listed.contains(node)
    }

    /// The nodes that told what they know.
    #[must_use]
    pub const fn heard(&self) -> NodeSet {
        self.known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(nodes: u32, told: &[Option<(u64, bool)>]) -> Records {
        let mut records = Records::new(Size::of(nodes));
        told.iter().enumerate().for_each(|(node, &record)| records.count(node, record));
        records
    }

    #[test]
    fn a_node_is_taught_the_highest_ballot_of_so_many_others_that_every_quorum_has_one_of_them() {
        let told = |last| records(5, &[Some((0, false)), Some((7, true)), Some((9, true)), None, last]);
        assert_eq!(told(Some((8, true))).advise(0, false), Advice::Teach(9));
        assert_eq!(told(None).advise(0, false), Advice::NobodyKnows(9));
        assert_eq!(told(Some((8, false))).advise(0, false), Advice::NobodyKnows(9), "who forgot does not teach");
    }

    #[test]
    fn only_nodes_whose_votes_count_teach_and_are_taught() {
        let told = [Some((0, false)), Some((7, true)), Some((9, true))];
        let listed = |nodes: &[usize]| records(3, &told).of_listed(nodes.iter().copied().collect());
        assert_eq!(listed(&[0, 1, 2]).advise(0, false), Advice::Teach(9));
        assert_eq!(listed(&[1, 2]).advise(0, false), Advice::NobodyKnows(9), "clients have another in its place");
        assert_eq!(listed(&[0, 1]).advise(0, false), Advice::NobodyKnows(9), "node 2 is another's");
        let forgot = records(3, &[Some((0, false)); 3]);
        assert_eq!(forgot.advise(0, true), Advice::Teach(0));
        assert_eq!(forgot.of_listed([0, 1].into_iter().collect()).advise(0, true), Advice::NobodyKnows(0));
    }

    #[test]
    fn what_was_dealt_is_known_by_as_many_as_every_quorum_has_one_of() {
        let known = |told: &[_]| records(3, told).known();
        assert_eq!(known(&[Some((7, true)), Some((9, true)), None]), Some(9));
        assert_eq!(known(&[Some((7, true)), Some((9, false)), None]), None);
        assert_eq!(known(&[Some((7, true)), Some((9, false)), Some((5, true))]), Some(9), "more does no harm");
    }

    #[test]
    fn who_was_taught_by_others_needs_nothing() {
        assert_eq!(records(3, &[Some((7, true))]).advise(0, false), Advice::Nothing);
    }

    #[test]
    fn a_node_does_not_teach_itself() {
        assert_eq!(records(3, &[Some((7, true)), Some((0, false))]).advise(1, false), Advice::NobodyKnows(7));
    }

    #[test]
    fn where_too_many_forgot_all_together_know_what_can_be_known_once_all_are_free() {
        let all = records(3, &[Some((7, false)), Some((0, false)), Some((3, true))]);
        assert_eq!((all.advise(1, false), all.advise(1, true)), (Advice::NobodyKnows(7), Advice::Teach(7)));
        let some = records(3, &[Some((7, false)), Some((0, false)), None]);
        assert_eq!(some.advise(1, true), Advice::NobodyKnows(7), "the silent one may know more");
    }

    #[test]
    fn records_suffice_once_every_pupil_has_its_teachers_or_all_have_answered() {
        let pupils = NodeSet::of(0);
        assert!(!records(3, &[Some((0, false)), Some((7, true))]).suffice(pupils));
        assert!(records(3, &[Some((0, false)), Some((7, true)), Some((7, true))]).suffice(pupils));
        assert!(records(3, &[Some((0, false)), None, None]).suffice(pupils));
    }
}
