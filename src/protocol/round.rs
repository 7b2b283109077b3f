//! One operation that is sent to several nodes, and the count of its votes so far.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::blocker::in_the_way;
use super::listening::Watch;
use super::voters::Voters;
use crate::error::NodeReport;
use crate::node::{Reply, Sink, vote};
use crate::rules::tally::Cause;
use crate::rules::{ClaimTally, Renewal, RenewalTally, Verdict, Votes};

/// A way to count replies.
pub(super) trait Count: Send + 'static {
    /// The result of the count.
    type Verdict: Clone + Send;

    /// Counts a node's reply to a request with this ballot.
    fn count(&mut self, node: usize, reply: &Reply, ballot: u64);

    /// The result, as soon as it is known.
    fn verdict(&self) -> Option<Self::Verdict>;

    /// Whether to wake the task that waits for the verdict.
    fn is_worth_a_look(&self) -> bool {
        self.verdict().is_some()
    }
}

/// One operation sent to several nodes. Replies after the verdict are kept too.
#[derive(Debug)]
pub(super) struct Round<T> {
    ballot: u64,
    /// Passes replies on to the owner's receiver; `None` if the owner receives no pushes and hints.
    watch: Option<Watch>,
    state: Mutex<State<T>>,
    decided: Notify,
}

#[derive(Debug)]
struct State<T> {
    tally: T,
    replies: Vec<Option<Reply>>,
}

impl<T: Count> Round<T> {
    pub(super) fn new(voters: &Voters, ballot: u64, tally: T, watch: Option<Watch>) -> Arc<Self> {
        let state = State { tally, replies: vec![None; voters.nodes.len()] };
        Arc::new(Self { ballot, watch, state: Mutex::new(state), decided: Notify::new() })
    }

    /// Waits for the verdict. At most one task may wait on a round.
    ///
    /// # Cancel safety
    /// Safe; replies are still counted.
    pub(super) async fn verdict(&self) -> T::Verdict {
        loop {
            if let Some(verdict) = self.look(T::verdict) {
                return verdict;
            }
            self.decided.notified().await;
        }
    }

    /// Waits until a reply that came after the last call may have decided the round.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn changed(&self) {
        self.decided.notified().await;
    }

    pub(super) fn look<V>(&self, at: impl FnOnce(&T) -> V) -> V {
        at(&self.state().tally)
    }

    pub(super) fn replies<V>(&self, at: impl FnOnce(&[Option<Reply>]) -> V) -> V {
        at(&self.state().replies)
    }

    /// Each node's reply in words; for a node that has not replied yet, its reply to the round
    /// `before`.
    pub(super) fn reports(&self, voters: &Voters, before: Option<&Self>) -> Vec<NodeReport> {
        let known = before.map(|before| before.replies(<[_]>::to_vec));
        let report = |(node, reply): (usize, &Option<Reply>)| {
            let reply = reply.as_ref().or_else(|| known.as_ref()?.get(node)?.as_ref());
            NodeReport::of_reply(voters.nodes[node].label(), reply)
        };
        self.replies(|replies| replies.iter().enumerate().map(report).collect())
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Count> Sink for Round<T> {
    fn deliver(self: Arc<Self>, node: usize, reply: Reply) {
        // Pass the reply on to the hand-overs before the tally changes. A task that reads the tally
        // first and the hand-overs next must find this node in one of the two.
        let noted = self.watch.as_ref().map(|watch| watch.heard(node, &reply)).unwrap_or_default();
        let mut state = self.state();
        state.tally.count(node, &reply, self.ballot);
        if let Some(slot) = state.replies.get_mut(node) {
            *slot = Some(reply);
        }
        let decided = state.tally.is_worth_a_look();
        drop(state);
        // If a node has handed the name over, the votes of pushes add to the tally. So this reply
        // may make a quorum, although the tally alone has none.
        if decided || noted.is_handed_over {
            self.decided.notify_one();
        }
        // After a failed round, the owner does not wait on this round, but on its receiver. So a
        // late reply wakes the owner there.
        self.watch.iter().filter(|_| noted.wakes).for_each(Watch::wake);
    }
}

impl Count for ClaimTally {
    type Verdict = Verdict;

    fn count(&mut self, node: usize, reply: &Reply, ballot: u64) {
        self.count(node, vote::claimed(reply, ballot));
    }

    fn verdict(&self) -> Option<Verdict> {
        self.verdict()
    }

    fn is_worth_a_look(&self) -> bool {
        self.verdict().is_some() || self.may_lift()
    }
}

impl Votes for Arc<Round<ClaimTally>> {
    fn tally(&self) -> ClaimTally {
        self.look(|tally| *tally)
    }
}

impl Count for RenewalTally {
    type Verdict = Renewal;

    fn count(&mut self, node: usize, reply: &Reply, _: u64) {
        self.count(node, vote::renewed(reply));
    }

    fn verdict(&self) -> Option<Renewal> {
        self.verdict()
    }
}

/// Waits until it is clear why a round failed. If the name was contended, also waits until it is
/// clear whether `quorum` nodes name the same holder.
pub(super) async fn explained(round: &Round<ClaimTally>, quorum: u32) {
    let is_explained = || match round.look(ClaimTally::cause) {
        Cause::Undecided => false,
        Cause::Unavailable => true,
        Cause::Contended => round.replies(|replies| in_the_way(replies, quorum).is_some()),
    };
    while !is_explained() {
        round.changed().await;
    }
}
