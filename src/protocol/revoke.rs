//! Taking a name away without making two holders: the hold is not renewed any more.

use std::sync::Arc;
use std::time::Duration;

use super::inspect::{listed, voting};
use super::round::{Count, Round};
use super::voters::Voters;
use crate::error::NodeReport;
use crate::host::before;
use crate::node::{Outcome, Reply, Revoke};
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
    /// What two owners' come to.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            left: self.left.max(other.left),
            others: [self.others, other.others].concat(),
            counts: self.counts && other.counts,
            alone: self.alone || other.alone,
            nobody: self.nobody || other.nobody,
            silent: self.silent || other.silent,
            unheard: self.unheard || other.unheard,
            reports: if self.reports.is_empty() { other.reports } else { self.reports },
        }
    }
}

/// Asks all nodes, and waits until then for a quorum of them, and for one of those that `named` the
/// owner. What each said if too few have done it.
///
/// A quorum is enough: these nodes neither renew the hold nor take it again, and without them no
/// quorum can. The next holder may rest on these nodes alone, so what they say is how long it
/// takes. And whoever else got the name by a lower ballot has it from a quorum, so one of them at
/// least names that one; others that are named came later.
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
    let round = Round::new(voters.nodes.len(), revoke.ballot, Revoking::new(voters.size, named));
    let (before_that, counted) = (voting(voters), listed(voters));
    let quorum = |of: NodeSet| of.len() >= voters.size.quorum();
    voters.ask(voters.everyone(), &Arc::new(revoke.into()), &round);
    let taken = before(&voters.host, until, round.verdict()).await.flatten();
    taken.ok_or_else(|| round.reports(voters, None))?;
    let soon = until.min(voters.host.now() + voters.grace());
    let _ = before(&voters.host, soon, round.until(|so_far| so_far.is_settled().then_some(()))).await;
    let _ = before(&voters.host, until, round.until(|so_far| so_far.is_known().then_some(()))).await;
    // Of nodes in doubt none may name who has it.
    let enough = |so_far: &Revoking| quorum(so_far.told.and(counted).and(before_that)) || so_far.is_whole();
    let _ = before(&voters.host, until, round.until(|so_far| enough(so_far).then_some(()))).await;
    let so_far = round.look(Revoking::clone);
    let truthful = before_that.and(voting(voters));
    let silent = !so_far.is_told();
    let counts = quorum(so_far.told.and(counted).and(listed(voters)));
    let unheard = silent && !quorum(so_far.told.without(so_far.marked).and(truthful));
    Ok(Revocation {
        counts,
        alone: so_far.marked.and(truthful).len() >= voters.size.blocking(),
        nobody: quorum(so_far.nobody.and(truthful)),
        silent,
        unheard,
        reports: if counts && !unheard { Vec::new() } else { reports(voters, &round, so_far.told.without(counted)) },
        ..so_far.so_far
    })
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
    fn new(size: Size, named: NodeSet) -> Self {
        let none = NodeSet::default();
        Self { size, named, answered: none, told: none, marked: none, nobody: none, so_far: Revocation::default() }
    }

    /// Whether those that are still to answer change nothing.
    fn is_settled(&self) -> bool {
        let (marked, blocking) = (self.marked.len(), self.size.blocking());
        let open = self.size.nodes() - self.answered.len();
        self.so_far.others.is_empty() || marked >= blocking || marked + open < blocking
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
        if self.told.len() >= self.size.quorum() {
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
        let mut revoking = Revoking::new(Size::of(3), NodeSet::default());
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
