//! One fan-out and its votes, counted as they come.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::in_the_way::in_the_way;
use super::listening::Watch;
use super::voters::Voters;
use crate::error::NodeReport;
use crate::node::{Outcome, Reply, Sink, vote};
use crate::rules::tally::Cause;
use crate::rules::{ClaimTally, Renewal, RenewalTally, Verdict, Votes};

/// A way to count replies.
pub(super) trait Count: Send + 'static {
    /// What the count comes to.
    type Verdict: Clone + Send;

    /// Counts one node's reply to what was asked with `ballot`.
    fn count(&mut self, node: usize, reply: &Reply, ballot: u64);

    /// What it comes to, as soon as that is known.
    fn verdict(&self) -> Option<Self::Verdict>;

    /// Whether whoever waits for the verdict should look at the tally.
    fn is_worth_a_look(&self) -> bool {
        self.verdict().is_some()
    }
}

/// One fan-out. Replies that come after the verdict are kept too.
#[derive(Debug)]
pub(super) struct Round<T> {
    ballot: u64,
    /// Who keeps what nodes say of places in their queues.
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
    pub(super) fn new(nodes: usize, ballot: u64, tally: T) -> Arc<Self> {
        Self::watched(nodes, ballot, tally, None)
    }

    /// A round of an owner that waits in the nodes' queues: `watch` records the places that nodes
    /// confirm.
    pub(super) fn watched(nodes: usize, ballot: u64, tally: T, watch: Option<Watch>) -> Arc<Self> {
        let state = State { tally, replies: (0..nodes).map(|_| None).collect() };
        Arc::new(Self { ballot, watch, state: Mutex::new(state), decided: Notify::new() })
    }

    /// Waits for the verdict. At most one task may wait on a round.
    ///
    /// # Cancel safety
    /// Safe; replies keep being counted.
    pub(super) async fn verdict(&self) -> T::Verdict {
        self.until(T::verdict).await
    }

    /// Waits until `known` finds in the tally what it looks for.
    pub(super) async fn until<V>(&self, known: impl Fn(&T) -> Option<V>) -> V {
        loop {
            if let Some(found) = known(&self.state().tally) {
                return found;
            }
            self.decided.notified().await;
        }
    }

    /// Waits until it may have been decided since this was asked last.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn changed(&self) {
        self.decided.notified().await;
    }

    /// Looks at the tally as it is now.
    pub(super) fn look<V>(&self, at: impl FnOnce(&T) -> V) -> V {
        at(&self.state().tally)
    }

    /// Looks at the replies as they are now.
    pub(super) fn replies<V>(&self, at: impl FnOnce(&[Option<Reply>]) -> V) -> V {
        at(&self.state().replies)
    }

    /// What each node has said, for people: to this, or else to the round before it.
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
        // First: who reads what a node may hold, and then what is registered there, must find it in
        // one of them.
        let handed_over = self.watch.as_ref().is_some_and(|watch| watch.heard(node, &reply));
        let granted = matches!(reply, Ok(Outcome::Granted { .. }));
        let mut state = self.state();
        state.tally.count(node, &reply, self.ballot);
        if let Some(slot) = state.replies.get_mut(node) {
            *slot = Some(reply);
        }
        let decided = state.tally.is_worth_a_look();
        drop(state);
        // What else was handed over may decide it sooner.
        if decided || handed_over {
            self.decided.notify_one();
        }
        // Who waits for something else by now looks at what was counted.
        self.watch.iter().filter(|_| granted).for_each(Watch::wake);
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

/// Waits until it is known why a failed round of claims failed, and whether `quorum` nodes name one
/// that is in the way.
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
