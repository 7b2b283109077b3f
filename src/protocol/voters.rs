//! The nodes of one `Quorum`, and what this client knows about them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::membership::Membership;
use super::pending_releases::{PendingReleases, ReleaseTasks};
use super::wakeups::Wakeups;
use crate::error::{Error, NodeCause, NodeReport, Result};
use crate::host::{Host, sleep_until};
use crate::metrics::Meters;
use crate::node::{Listener, Mode, Name, Node, NodeState, Operation, Outcome, Reply, ReplyTo, Request, Sink};
use crate::rules::ballot::LIMIT;
use crate::rules::{Ballots, NodeSet, Size, Tick};
use crate::spans::Spanned;

/// The pause between two checks whether a quorum may vote.
const LOOK: Duration = Duration::from_millis(100);

/// An operation to send: its parent span, the operation, and the sink for the replies.
pub(super) type Asked = (Spanned, Arc<Operation>, Arc<dyn Sink>);

/// The nodes, and the state that all locks of one client share.
#[derive(Debug)]
pub(crate) struct Voters {
    pub(crate) nodes: Vec<Arc<dyn Node>>,
    pub(crate) size: Size,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) meters: Meters,
    ballots: Ballots,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) membership: Membership,
    /// The hash of the list, which each claim carries. Empty if no node checks lists.
    pub(crate) claimed: Arc<str>,
    /// Why this client acquires nothing: set while another list of the same name is in force.
    other_list: Mutex<Option<Arc<str>>>,
    acquisitions: AtomicU64,
    round_trip: AtomicU64,
    /// The work for which a shutdown waits, such as releases.
    pub(crate) release_tasks: Arc<ReleaseTasks>,
    pub(super) pending: PendingReleases,
}

impl Voters {
    /// The quorum of `nodes`. Releases that a node does not confirm are queued in `pending`.
    pub(crate) fn new(
        nodes: Vec<Arc<dyn Node>>,
        host: Arc<dyn Host>,
        wakeups: Arc<Wakeups>,
        pending: PendingReleases,
        membership: Membership,
        meters: Meters,
    ) -> Self {
        for (index, node) in nodes.iter().enumerate() {
            node.listen(index, wakeups.clone());
        }
        let size = Size::of(u32::try_from(nodes.len()).unwrap_or(u32::MAX));
        let checks = nodes.iter().any(|node| node.takes_hello());
        let claimed = if checks { membership.list.hash().clone() } else { "".into() };
        Self {
            nodes,
            size,
            host,
            meters,
            ballots: Ballots::default(),
            wakeups,
            membership,
            claimed,
            other_list: Mutex::default(),
            acquisitions: AtomicU64::new(0),
            round_trip: AtomicU64::new(0),
            release_tasks: Arc::default(),
            pending,
        }
    }

    /// Subscribes to the news of a name on all nodes if `on`, else unsubscribes.
    pub(super) fn follow(&self, name: &Name, on: bool) {
        self.nodes.iter().for_each(|node| node.follow(name, on));
    }

    /// Whether a quorum of nodes can send pushes and hints to this client.
    pub(crate) fn hinted(&self) -> bool {
        let hinting = self.nodes.iter().filter(|node| node.hints()).count();
        hinting >= self.size.quorum() as usize
    }

    /// Whether nodes keep lists, and so need hellos.
    pub(crate) fn have_lists(&self) -> bool {
        !self.claimed.is_empty()
    }

    /// The nodes whose votes on claims count now. No vote counts while a different list of the same
    /// name is in force on any node.
    pub(crate) fn voting(&self) -> NodeSet {
        if self.other().is_some() {
            return NodeSet::default();
        }
        (0..self.nodes.len()).filter(|&node| self.nodes[node].votes()).collect()
    }

    /// Whether a quorum of nodes may vote on claims now.
    pub(crate) fn can_vote(&self) -> bool {
        self.voting().len() >= self.size.quorum()
    }

    /// Waits while no quorum may vote, but a quorum of nodes is up or connecting. Ends at `end`, or
    /// at a shutdown. After a stall of this process, nodes are up, but may not vote until the next
    /// hello.
    pub(crate) async fn greeted(&self, end: Tick, shut: &CancellationToken) {
        while self.may_vote_soon() && self.host.now() < end && !shut.is_cancelled() {
            sleep_until(&self.host, end.min(self.host.now() + LOOK)).await;
        }
    }

    /// Waits while any node is connecting, or is not greeted yet. Ends at `end`, or at a shutdown.
    pub(crate) async fn settled(&self, end: Tick, shut: &CancellationToken) {
        let is_pending = || self.nodes.iter().any(|node| node.status().state.is_pending());
        while is_pending() && self.host.now() < end && !shut.is_cancelled() {
            sleep_until(&self.host, end.min(self.host.now() + LOOK)).await;
        }
    }

    fn may_vote_soon(&self) -> bool {
        let may = |node: &&Arc<dyn Node>| {
            let state = node.status().state;
            state == NodeState::Up || state.is_pending()
        };
        !self.can_vote() && self.nodes.iter().filter(may).count() >= self.size.quorum() as usize
    }

    /// Waits until a quorum may vote on claims, or until `end`. Returns whether a quorum may vote.
    pub(crate) async fn votes(&self, end: Tick) -> bool {
        while !self.can_vote() {
            if self.host.now() >= end {
                return false;
            }
            sleep_until(&self.host, end.min(self.host.now() + LOOK)).await;
        }
        true
    }

    /// Whether no quorum can vote before `end`, because too many nodes are quarantined until after
    /// `end`.
    pub(crate) fn are_quarantined_past(&self, end: Tick) -> bool {
        let (now, blocking) = (self.host.now(), self.size.blocking() as usize);
        let is = |node: &&Arc<dyn Node>| matches!(node.status().state, NodeState::Quarantined { left, .. } if now + left > end);
        // Check `can_vote` first: it costs less, and is almost always true.
        !self.can_vote() && self.nodes.iter().filter(is).count() >= blocking
    }

    pub(crate) fn other_list(&self) -> Option<Arc<str>> {
        self.other().clone()
    }

    /// Sets or clears `other_list`. Returns true if it was clear and is set now.
    pub(super) fn meet(&self, other: Option<Arc<str>>) -> bool {
        let is = other.is_some();
        std::mem::replace(&mut *self.other(), other).is_none() && is
    }

    fn other(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.other_list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of each node, for errors.
    pub(crate) fn reports(&self) -> Vec<NodeReport> {
        self.statuses().iter().map(NodeReport::of_status).collect()
    }

    /// Advice for the caller if quarantines alone keep a quorum out of reach; else empty.
    pub(crate) fn advice(&self, reports: &[NodeReport]) -> &'static str {
        let waits = reports.iter().filter(|report| report.cause == NodeCause::Quarantined).count();
        if waits < self.size.blocking() as usize {
            return "";
        }
        "; this ends by itself: wait until the quarantines end, or use a longer timeout. New servers \
         need no wait if `quorumlock init` is run before the first client connects"
    }

    /// Fails if this client is an onlooker, which only inspects locks.
    pub(crate) fn may_acquire(&self) -> Result<()> {
        match self.membership.onlooker {
            false => Ok(()),
            true => Err(Error::config(
                "this client only inspects; to acquire locks, connect a client without QuorumBuilder::onlooker",
            )),
        }
    }

    pub(crate) fn everyone(&self) -> NodeSet {
        NodeSet::first(self.size.nodes())
    }

    /// Sends `operation` to these nodes. `sink` gets exactly one reply for each node.
    pub(crate) fn ask(&self, nodes: NodeSet, operation: &Arc<Operation>, sink: &Arc<impl Sink>) {
        self.ask_within(&Spanned::default(), nodes, operation, sink);
    }

    /// Like [`ask`](Self::ask), as a part of `span`.
    pub(crate) fn ask_within(&self, span: &Spanned, nodes: NodeSet, operation: &Arc<Operation>, sink: &Arc<impl Sink>) {
        for (index, node) in self.nodes.iter().enumerate().filter(|&(index, _)| nodes.contains(index)) {
            let sink = traced(span, &**node, operation, sink.clone());
            node.submit(Request { operation: operation.clone(), reply: ReplyTo::new(index, sink) });
        }
    }

    /// Sends several operations to all nodes, in as few calls as possible.
    pub(super) fn ask_all(&self, asked: &[Asked]) {
        for (index, node) in self.nodes.iter().enumerate() {
            let request = |(span, operation, sink): &Asked| Request {
                operation: operation.clone(),
                reply: ReplyTo::new(index, traced(span, &**node, operation, sink.clone())),
            };
            node.submit_all(asked.iter().map(request).collect());
        }
    }

    /// The id and the number of a new owner.
    pub(crate) fn owner(&self, mode: Mode) -> (String, u64) {
        let number = self.acquisitions.fetch_add(1, Ordering::Relaxed);
        (mode.owner(self.wakeups.client(), number), number)
    }

    /// A new ballot: above `told`, every earlier ballot of this client, and every fence that
    /// [`seen`](Self::seen) has recorded.
    pub(crate) fn ballot(&self, told: u64) -> Result<u64> {
        self.ballots.next(self.host.wall(), told).ok_or_else(|| {
            Error::config(
                "the fencing tokens are used up: on a node, this name's key holds a fence near 2^53; delete that key by hand",
            )
        })
    }

    /// A new ballot above `told`, with which a node hands a name over to its next waiter; 0 if
    /// ballots are used up.
    pub(crate) fn next_ballot(&self, told: u64) -> u64 {
        self.ballots.next(self.host.wall(), told).unwrap_or(0)
    }

    /// Takes note of a fence that a node returned, so that later ballots are higher. Ignores a
    /// fence that [is far](Self::is_far) ahead of the wall clock.
    pub(crate) fn seen(&self, fence: u64) {
        self.ballots.seen(fence, self.host.wall());
    }

    /// Whether a fence is so far ahead of the wall clock that it should not spread to other nodes.
    pub(crate) fn is_far(&self, fence: u64) -> bool {
        Ballots::is_far(fence, self.host.wall())
    }

    /// The arrival of an acquisition that begins now, in microseconds. It is the median of the wall
    /// clock and the clocks of all nodes that have replied. So a client with a wrong clock does not
    /// get a place before or behind all other clients. If there are two middle values, the later
    /// one is used, so that the client comes after others rather than before them.
    pub(crate) fn arrival(&self) -> u64 {
        let now = self.host.now().since_origin().as_micros().cast_signed();
        let mine = i128::from(micros(self.host.wall()));
        let mut clocks = Vec::with_capacity(self.nodes.len() + 1);
        clocks.extend(self.nodes.iter().filter_map(|node| Some(now + node.clock_ahead()?)).chain([mine]));
        clocks.sort_unstable();
        u64::try_from(clocks[clocks.len() / 2].max(0)).unwrap_or(LIMIT).min(LIMIT)
    }

    /// The time until the first quarantined node may vote; `None` if no node is quarantined.
    pub(super) fn next_to_vote(&self) -> Option<Duration> {
        let left = |node: &Arc<dyn Node>| match node.status().state {
            NodeState::Quarantined { left, .. } => Some(left),
            _ => None,
        };
        self.nodes.iter().filter_map(left).min()
    }

    /// How long a quorum takes to answer: a moving average over rounds. Zero before the first
    /// measurement.
    pub(crate) fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.round_trip.load(Ordering::Relaxed))
    }

    /// Takes note of how long a quorum took to answer. Each measurement weighs an eighth, as in
    /// TCP's smoothed round trip (RFC 6298).
    pub(crate) fn measured(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let smoothed = match self.round_trip.load(Ordering::Relaxed) {
            0 => took,
            known => known - known / 8 + took / 8,
        };
        self.round_trip.store(smoothed, Ordering::Relaxed);
    }
}

/// Wraps `sink` in the span of one node call, if a subscriber has enabled such spans.
fn traced(span: &Spanned, node: &dyn Node, operation: &Operation, sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
    if !Spanned::of_nodes() {
        return sink;
    }
    let call = span.node_call(node.label(), operation.verb().as_str());
    if call.is_on() { Arc::new(Traced { call, sink }) } else { sink }
}

/// A sink that ends the span of one node call.
struct Traced {
    call: Spanned,
    sink: Arc<dyn Sink>,
}

impl Sink for Traced {
    fn deliver(self: Arc<Self>, node: usize, reply: Reply) {
        let outcome = reply.as_ref().map_or_else(|fault| fault.kind().as_str(), Outcome::as_str);
        self.sink.clone().deliver(node, reply);
        self.call.end(outcome);
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(0).min(LIMIT)
}
