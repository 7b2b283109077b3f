//! Revokes the locks on a name. Nodes end no hold, so there are never two holders. But nodes no
//! longer renew locks with tokens up to the revocation's ballot, so the holds of these locks
//! expire.

use std::sync::Arc;
use std::time::Duration;

use super::round::{Count, Round};
use super::voters::Voters;
use crate::error::NodeReport;
use crate::host::before;
use crate::node::{Outcome, Reply, Revoke};
use crate::rules::tally::Size;
use crate::rules::{NodeSet, Tick};

/// What nodes replied to a revocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Revocation {
    /// The owners that held the name with a ballot up to the revocation's, sorted.
    pub(crate) from: Vec<String>,
    /// For how long the holders that nodes named may still hold the name; `None` if no node named a
    /// holder.
    pub(crate) left: Option<Duration>,
    /// Whether a quorum of voting nodes has revoked. (Their votes counted both before the request
    /// and after the replies.) If so, `left` covers every holder: each holder has a quorum, which
    /// shares a node with this quorum.
    pub(crate) truthful: bool,
    /// The reply of each node, or its present state if its reply does not count; empty if
    /// `truthful`.
    pub(crate) reports: Vec<NodeReport>,
}

/// Sends the revocation to all nodes. Waits until a quorum of voting nodes has revoked, all nodes
/// have replied, or `until` has come. If fewer nodes than a quorum have revoked, voting or not,
/// fails with the reply of each node.
///
/// One quorum is enough: its nodes no longer renew or re-grant a lock with a token up to the
/// ballot. Each lock is held by a quorum, and any two quorums share a node. So at least one of
/// these nodes holds the lock, and its reply says how long the hold lasts. But a doubted node may
/// have forgotten the hold, and a node under another list never had it. So a node counts only if
/// its votes counted before the request, and still count after its reply.
pub(crate) async fn revoke(voters: &Arc<Voters>, revoke: Revoke, until: Tick) -> Result<Revocation, Vec<NodeReport>> {
    let revoking = Revoking::new(voters.size, revoke.ballot);
    let round = Round::new(voters, revoke.ballot, revoking, None);
    let before_that = voters.voting();
    let truthful = || before_that.and(voters.voting());
    voters.ask(voters.everyone(), &Arc::new(revoke.into()), &round);
    let done = before(&voters.host, until, round.verdict()).await;
    if done != Some(true) {
        return Err(round.reports(voters, None));
    }
    let _ = before(&voters.host, until, enough(&round, truthful)).await;
    let (so_far, truthful) = (round.look(Revoking::clone), truthful());
    let uncounted = so_far.done.without(truthful);
    let taken = Revocation { truthful: so_far.is_quorum(so_far.done.and(truthful)), ..so_far.told };
    let reports = if taken.truthful { Vec::new() } else { reports(voters, &round, uncounted) };
    Ok(Revocation { reports, ..taken })
}

/// Waits until a quorum of the nodes in `truthful` has revoked, or all nodes have replied.
/// `truthful` reads the state of the nodes, so do not call it while the round is locked.
async fn enough(round: &Round<Revoking>, truthful: impl Fn() -> NodeSet) {
    let is_enough = |so_far: Revoking| so_far.is_quorum(so_far.done.and(truthful())) || so_far.is_whole();
    while !is_enough(round.look(Revoking::clone)) {
        round.changed().await;
    }
}

/// The reply of each node. If a node revoked but does not count, its report is its present state.
fn reports(voters: &Voters, round: &Round<Revoking>, uncounted: NodeSet) -> Vec<NodeReport> {
    let mut reports = round.reports(voters, None);
    let now = voters.statuses();
    uncounted.iter().for_each(|node| reports[node] = NodeReport::of_status(&now[node]));
    reports
}

#[derive(Clone, Debug)]
struct Revoking {
    size: Size,
    ballot: u64,
    /// The nodes that replied, even with an error.
    answered: NodeSet,
    /// The nodes that have revoked.
    done: NodeSet,
    told: Revocation,
}

impl Revoking {
    fn new(size: Size, ballot: u64) -> Self {
        let none = NodeSet::default();
        Self { size, ballot, answered: none, done: none, told: Revocation::default() }
    }

    const fn is_quorum(&self, nodes: NodeSet) -> bool {
        nodes.len() >= self.size.quorum()
    }

    /// Whether all nodes have replied.
    fn is_whole(&self) -> bool {
        self.answered.len() == self.size.nodes()
    }
}

impl Count for Revoking {
    /// Whether a quorum has revoked. False as soon as too few nodes are left that can still revoke.
    type Verdict = bool;

    fn count(&mut self, node: usize, reply: &Reply, _: u64) {
        self.answered.insert(node);
        let Ok(Outcome::Revoked { holder, ballot, left }) = reply else { return };
        self.done.insert(node);
        let Some(holder) = holder else { return };
        // For `left`, a hold with a ballot above the revocation's counts too. Its lock may have a
        // lower token that the revocation covers: a node may have granted this owner a higher
        // ballot.
        self.told.left = self.told.left.max(Some(*left));
        if *ballot <= self.ballot
            && let Err(at) = self.told.from.binary_search(holder)
        {
            self.told.from.insert(at, holder.clone());
        }
    }

    fn verdict(&self) -> Option<bool> {
        let done = self.is_quorum(self.done);
        let failed = self.answered.without(self.done).len() >= self.size.blocking();
        (done || failed).then_some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Fault, FaultKind};

    const SECOND: Duration = Duration::from_secs(1);

    fn told(replies: &[Reply]) -> (Option<bool>, Revocation) {
        let mut revoking = Revoking::new(Size::of(3), 10);
        replies.iter().enumerate().for_each(|(node, reply)| revoking.count(node, reply, 0));
        (revoking.verdict(), revoking.told)
    }

    fn held(holder: &str, ballot: u64, seconds: u32) -> Reply {
        Ok(Outcome::Revoked { holder: Some(holder.to_owned()), ballot, left: SECOND * seconds })
    }

    #[test]
    fn revocation_by_a_quorum_names_the_holder_and_time_left() {
        assert_eq!(told(&[held("a", 7, 3)]).0, None);
        let (done, taken) = told(&[held("a", 7, 3), held("a", 7, 2)]);
        assert_eq!((done, taken.from, taken.left), (Some(true), vec!["a".to_owned()], Some(3 * SECOND)));
        let free = Ok(Outcome::Revoked { holder: None, ballot: 0, left: Duration::ZERO });
        assert_eq!(told(&[free.clone(), free]), (Some(true), Revocation::default()));
    }

    #[test]
    fn holder_with_higher_ballot_keeps_it_and_its_time_counts() {
        let (_, taken) = told(&[held("a", 10, 3), held("b", 11, 5)]);
        assert_eq!((taken.from, taken.left), (vec!["a".to_owned()], Some(5 * SECOND)));
    }

    #[test]
    fn revocation_without_a_quorum_takes_nothing_away() {
        let silent = || Err(Fault::new(FaultKind::Timeout, "no answer in time"));
        assert_eq!(told(&[held("a", 7, 3), silent()]).0, None);
        assert_eq!(told(&[held("a", 7, 3), silent(), silent()]).0, Some(false));
    }
}
