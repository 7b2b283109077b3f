//! Taking a name away without making two holders: the hold is not renewed any more.

use std::sync::Arc;
use std::time::Duration;

use super::inspect::{listed, voting};
use super::round::{Count, Round};
use super::voters::Voters;
use crate::error::NodeReport;
use crate::host::before;
use crate::node::{Mode, Outcome, Reply, Revoke};
use crate::rules::tally::Size;
use crate::rules::{NodeSet, Tick};

/// What a quorum of nodes said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Revocation {
    /// For how long the owner may hold it still, if it does.
    pub(crate) left: Option<Duration>,
    /// Who else holds it.
    pub(crate) others: Vec<String>,
    /// Whether a quorum of nodes that clients count, by the rosters, has done it: only then does
    /// nobody renew the hold.
    pub(crate) counts: bool,
    /// Whether so many nodes hold it for that owner that nobody else has a quorum, whomever others
    /// name.
    pub(crate) alone: bool,
    /// Whether a quorum of nodes that were not in doubt has done it: if somebody else had it before,
    /// one of them names that one.
    pub(crate) truthful: bool,
    /// Whether a quorum of nodes, in doubt or not, holds it for one owner who is no reader: then
    /// nobody else does. Beside a reader others may read that such nodes have forgotten.
    pub(crate) held: bool,
    /// Whether a quorum of nodes that clients count knew of nobody who holds it.
    pub(crate) nobody: bool,
    /// Whether some node that named the owner did not say whether it holds it, and no other had it.
    pub(crate) silent: bool,
    /// Whether the owner may hold it still where only silent nodes know of it: no quorum of nodes
    /// that clients count said that the owner does not.
    pub(crate) unheard: bool,
    /// What each node said, where that was not enough.
    pub(crate) reports: Vec<NodeReport>,
}

impl Revocation {
    /// Whether that was enough.
    const fn is_known(&self) -> bool {
        self.counts && self.truthful && !self.unheard
    }

    /// What two owners' come to.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            left: self.left.max(other.left),
            others: [self.others, other.others].concat(),
            counts: self.counts && other.counts,
            alone: self.alone || other.alone,
            truthful: self.truthful && other.truthful,
            held: self.held || other.held,
            nobody: self.nobody || other.nobody,
            silent: self.silent || other.silent,
            unheard: self.unheard || other.unheard,
            reports: if self.reports.is_empty() { other.reports } else { self.reports },
        }
    }
}

/// Asks all nodes, and waits until then for a quorum of them that are not in doubt, and for one of
/// those that `named` the owner. What each said if too few have done it, in doubt or not.
///
/// A quorum is enough: these nodes neither renew the hold nor take it again, and without them no
/// quorum can. The next holder may rest on these nodes alone, so what they say is how long it
/// takes. And whoever else got the name by a lower ballot has it from a quorum, so one of them at
/// least names that one; others that are named came later. One that is in doubt may not: it counts
/// for that if it was not when it was asked, nor has come to be since, with its answer perhaps.
///
/// Where so many nodes hold it for the owner that no quorum is without any of them, nobody else
/// does: who has a lower ballot has it from a quorum, and keeps it there; and these nodes grant
/// none from now on. A node that may have forgotten whom it granted the name to does not count for
/// that, nor does one that is not on the list which clients have by the rosters. For some round
/// trips this is waited for, since the nearest nodes may be those that name others.
pub(crate) async fn revoke(
    voters: &Arc<Voters>,
    revoke: Revoke,
    named: NodeSet,
    until: Tick,
) -> Result<Revocation, Vec<NodeReport>> {
    let revoking = Revoking::new(voters.size, named, Mode::of(&revoke.owner));
    let round = Round::new(voters.nodes.len(), revoke.ballot, revoking);
    let (before_that, counted) = (voting(voters), listed(voters));
    let truthful = || before_that.and(voting(voters));
    voters.ask(voters.everyone(), &Arc::new(revoke.into()), &round);
    let taken = before(&voters.host, until, round.verdict()).await.flatten();
    taken.ok_or_else(|| round.reports(voters, None))?;
    let soon = until.min(voters.host.now() + voters.grace());
    let _ = before(&voters.host, soon, round.until(|so_far| so_far.is_settled().then_some(()))).await;
    let _ = before(&voters.host, until, round.until(|so_far| so_far.is_known().then_some(()))).await;
    let _ = before(&voters.host, until, enough(&round, truthful)).await;
    let (so_far, truthful) = (round.look(Revoking::clone), truthful());
    let uncounted = so_far.told.without(truthful);
    let taken = so_far.comes_to(truthful, counted.and(listed(voters)));
    Ok(if taken.is_known() { taken } else { Revocation { reports: reports(voters, &round, uncounted), ..taken } })
}

/// Waits for those that `truthful` finds not to be in doubt, as they are by then, until their
/// answers are enough, or for all. (That is asked of the nodes, so not with the round locked.)
async fn enough(round: &Round<Revoking>, truthful: impl Fn() -> NodeSet) {
    while !round.look(Revoking::clone).is_enough(truthful()) {
        round.changed().await;
    }
}

/// What each node said; of those that did it for nothing, how they are.
fn reports(voters: &Voters, round: &Round<Revoking>, uncounted: NodeSet) -> Vec<NodeReport> {
    let mut reports = round.reports(voters, None);
    uncounted.iter().for_each(|node| reports[node] = NodeReport::of_status(&voters.nodes[node].status()));
    reports
}

#[derive(Clone, Debug)]
struct Revoking {
    size: Size,
    mode: Mode,
    /// The nodes that named the owner.
    named: NodeSet,
    /// The nodes that said anything, if only that they could not.
    answered: NodeSet,
    /// Those of them that have done it.
    told: NodeSet,
    /// Those of these that hold it for the owner.
    marked: NodeSet,
    /// Those on which nobody holds it.
    nobody: NodeSet,
    so_far: Revocation,
}

impl Revoking {
    fn new(size: Size, named: NodeSet, mode: Mode) -> Self {
        let none = NodeSet::default();
        let so_far = Revocation::default();
        Self { size, mode, named, answered: none, told: none, marked: none, nobody: none, so_far }
    }

    /// What it comes to, where these were not in doubt, and clients count those.
    fn comes_to(self, truthful: NodeSet, counted: NodeSet) -> Revocation {
        let silent = !self.is_told();
        Revocation {
            counts: self.is_quorum(self.told.and(counted)),
            alone: self.is_alone(truthful),
            truthful: self.is_quorum(self.told.and(truthful)),
            held: self.mode == Mode::Exclusive && self.is_quorum(self.marked),
            nobody: self.is_quorum(self.nobody.and(truthful)),
            silent,
            unheard: silent && !self.is_quorum(self.told.without(self.marked).and(truthful)),
            ..self.so_far
        }
    }

    /// Whether those that are still to answer change nothing.
    fn is_settled(&self) -> bool {
        let (marked, blocking) = (self.marked.len(), self.size.blocking());
        let open = self.size.nodes() - self.answered.len();
        self.so_far.others.is_empty() || marked >= blocking || marked + open < blocking
    }

    /// Whether these tell who else has it, if anybody, or nobody has who is not known.
    fn is_enough(&self, truthful: NodeSet) -> bool {
        self.is_quorum(self.told.and(truthful)) || self.is_alone(truthful) || self.is_whole()
    }

    const fn is_quorum(&self, nodes: NodeSet) -> bool {
        nodes.len() >= self.size.quorum()
    }

    /// Whether so many of these hold it for the owner that no quorum is without them.
    fn is_alone(&self, truthful: NodeSet) -> bool {
        self.marked.and(truthful).len() >= self.size.blocking()
    }

    /// Whether all have answered.
    fn is_whole(&self) -> bool {
        self.answered.len() == self.size.nodes()
    }

    /// Whether it was taken from the owner somewhere, or all that named it have answered.
    fn is_known(&self) -> bool {
        !self.marked.is_empty() || self.named.without(self.answered).is_empty()
    }

    /// Whether it was taken from the owner somewhere, or all that named it have done it.
    fn is_told(&self) -> bool {
        !self.marked.is_empty() || self.named.without(self.told).is_empty()
    }
}

impl Count for Revoking {
    type Verdict = Option<Revocation>;

    fn count(&mut self, node: usize, reply: &Reply, _: u64) {
        self.answered.insert(node);
        if let Ok(Outcome::Revoked { held, left, other }) = reply {
            self.told.insert(node);
            if *held > 0 {
                self.marked.insert(node);
                self.so_far.left = self.so_far.left.max(Some(*left));
            } else if other.is_none() {
                self.nobody.insert(node);
            }
            self.so_far.others.extend(other.clone());
        }
    }

    fn verdict(&self) -> Option<Option<Revocation>> {
        if self.is_quorum(self.told) {
            return Some(Some(self.so_far.clone()));
        }
        (self.answered.without(self.told).len() >= self.size.blocking()).then_some(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Fault, FaultKind};

    const SECOND: Duration = Duration::from_secs(1);

    fn told(replies: &[Reply]) -> Option<Option<Revocation>> {
        let mut revoking = Revoking::new(Size::of(3), NodeSet::default(), Mode::Exclusive);
        replies.iter().enumerate().for_each(|(node, reply)| revoking.count(node, reply, 0));
        revoking.verdict()
    }

    fn left(seconds: u32) -> Reply {
        Ok(Outcome::Revoked { held: 1, left: SECOND * seconds, other: None })
    }

    #[test]
    fn a_quorum_tells_how_long_it_takes_at_most() {
        assert_eq!(told(&[left(3)]), None);
        assert_eq!(told(&[left(3), left(2)]), Some(Some(Revocation { left: Some(3 * SECOND), ..Default::default() })));
        let free = Ok(Outcome::Revoked { held: 0, left: Duration::ZERO, other: Some("x".into()) });
        assert_eq!(
            told(&[free.clone(), free]),
            Some(Some(Revocation { others: vec!["x".into(), "x".into()], ..Default::default() }))
        );
    }

    #[test]
    fn without_a_quorum_nothing_is_taken_away() {
        let silent = || Err(Fault::new(FaultKind::Timeout, "no answer in time"));
        assert_eq!(told(&[left(3), silent()]), None);
        assert_eq!(told(&[left(3), silent(), silent()]), Some(None));
    }
}
