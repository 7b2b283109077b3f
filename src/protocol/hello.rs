//! Sends `hello` to nodes. A hello makes a node's record, keeps this client's list in force there,
//! and shows whether the node may vote.
//!
//! Each `Quorum` has one task, which sends the hellos that [`KnownNodes`] plans. The task waits for
//! no node.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::membership::Membership;
use super::voters::Voters;
use crate::host::{Host, sleep_until};
use crate::metrics::GreeterMeters;
use crate::node::operation::Hello;
use crate::node::{Operation, Reply, Sink};
use crate::rules::known_nodes::{Known, KnownNodes, MembershipState, Plan, Wanted};
use crate::rules::{LostReason, NodeSet, Tick};

/// The shortest time from one call of `greet` to the next, unless a node has news. This gap leaves
/// time for other tasks.
const GAP: Duration = Duration::from_millis(1);
/// Pause after a panic of a logger, a metrics recorder or a node object.
const AGAIN: Duration = Duration::from_secs(1);

/// The locks of one client.
pub(crate) trait Holdings: Send + Sync + 'static {
    fn voters(&self) -> &Arc<Voters>;

    /// Loses all locks.
    fn lose_all(&self, reason: LostReason);
}

/// Sends the hellos that are due, until `closing` is cancelled.
pub(crate) async fn run(
    host: Arc<dyn Host>,
    mut greeter: Greeter,
    holdings: Weak<impl Holdings>,
    closing: CancellationToken,
) {
    let mut due = Tick::default();
    loop {
        tokio::select! {
            biased;
            () = closing.cancelled() => return,
            () = greeter.news.notified() => {}
            () = sleep_until(&host, due), if due != Tick::NEVER => {}
        }
        let Some(holdings) = holdings.upgrade() else { return };
        let greeted = catch_unwind(AssertUnwindSafe(|| greeter.greet(&*holdings)));
        let now = host.now();
        due = greeted.unwrap_or(now + AGAIN).max(now + GAP);
    }
}

/// Sends the hellos of one client, and concludes from the replies which votes count.
#[derive(Debug)]
pub(crate) struct Greeter {
    book: KnownNodes,
    meters: GreeterMeters,
    /// Notified when there is news of a node.
    news: Arc<Notify>,
    answered: Arc<Answered>,
    /// The nodes whose names led to two servers, by the last plan.
    twins: NodeSet,
}

impl Greeter {
    pub(crate) fn new(voters: &Voters) -> Self {
        let Membership { list, names, round_timeout, onlooker } = &voters.membership;
        let book = KnownNodes::new(list.clone(), names.clone(), *round_timeout, *onlooker);
        let meters = voters.meters.greeter(voters.nodes.iter().map(|node| node.label()));
        let news = voters.wakeups.news.clone();
        let answered = Arc::new(Answered { news: news.clone(), failed: Mutex::default() });
        Self { book, meters, news, answered, twins: NodeSet::default() }
    }

    /// Decides which nodes' votes count, and sends the hellos that are due. Returns when to call
    /// this function again.
    fn greet(&mut self, holdings: &impl Holdings) -> Tick {
        let voters = holdings.voters();
        let now = voters.host.now();
        self.answered.take_failed().iter().for_each(|node| self.book.failed(node, now));
        let known: Vec<_> = voters.nodes.iter().map(|node| node.known()).collect();
        known.iter().enumerate().for_each(|(node, known)| self.book.heard(node, known.clone(), now));
        let Plan { standings, hellos, other_list, due } =
            self.book.plan(now, voters.meters.any_held(), voters.host.random());
        // Record the other list before the states of the nodes: an acquisition that finds no votes
        // can then report this list.
        let is_new = voters.meet(other_list.clone());
        voters.nodes.iter().zip(&standings).for_each(|(node, standing)| node.judged(standing.clone()));
        let is_new = is_new && !voters.membership.onlooker;
        if is_new {
            holdings.lose_all(LostReason::OtherList);
        }
        for (node, wanted) in hellos {
            let hello = Operation::Hello(hello(voters, known[node].as_ref(), wanted));
            voters.ask(NodeSet::of(node), &Arc::new(hello), &self.answered);
        }
        // Log last, because a logger or a recorder may block or panic.
        let is_twin = |&node: &usize| matches!(standings[node], MembershipState::Twins { .. });
        let twins = (0..standings.len()).filter(is_twin).collect();
        self.tell(voters, &standings, (other_list.as_deref(), is_new), twins);
        due
    }

    /// Sets the metrics, and logs what is new: another list in force, and nodes whose names lead to
    /// two servers.
    fn tell(&mut self, voters: &Voters, standings: &[MembershipState], list: (Option<&str>, bool), twins: NodeSet) {
        let ((other_list, is_new), before) = (list, std::mem::replace(&mut self.twins, twins));
        self.meters.tell(other_list.is_some(), twins, usable(voters, standings));
        if let Some(other) = other_list.filter(|_| is_new) {
            tracing::warn!(quorum = %voters.meters.quorum(), "{other}");
        }
        for node in twins.without(before).iter() {
            if let MembershipState::Twins { why } = &standings[node] {
                tracing::warn!(node = %voters.nodes[node].label(), "no vote of this node counts: {why}");
            }
        }
    }
}

/// The nodes that answered a hello lately, and could carry out claims.
fn usable(voters: &Voters, standings: &[MembershipState]) -> NodeSet {
    let is = |&node: &usize| standings[node] != MembershipState::Unknown && voters.nodes[node].is_usable();
    (0..standings.len()).filter(is).collect()
}

/// The hello for a node. `known` is what the client knew about the node when it planned the hello.
fn hello(voters: &Voters, known: Option<&Known>, wanted: Wanted) -> Hello {
    let Wanted { intent, old, knew, sync, seen } = wanted;
    let new = format!("{:016x}", voters.host.random()).into();
    let process = known.map_or_else(|| "".into(), |known| known.process.clone());
    Hello { intent, new, process, list: voters.membership.list.clone(), old, knew, sync, seen }
}

/// The sink for replies to hellos. The node objects themselves keep the records.
#[derive(Debug)]
struct Answered {
    news: Arc<Notify>,
    /// Nodes whose hello failed or got no reply, since the last call of `take_failed`.
    failed: Mutex<NodeSet>,
}

impl Answered {
    fn take_failed(&self) -> NodeSet {
        std::mem::take(&mut *self.failed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sink for Answered {
    fn deliver(self: Arc<Self>, node: usize, reply: Reply) {
        if reply.is_err() {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).insert(node);
        }
        self.news.notify_one();
    }
}
