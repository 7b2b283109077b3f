//! The nodes of one quorum, and what one client knows of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::hints::Hints;
use super::leftovers::{Cleanups, Leftovers, Open};
use super::membership::Membership;
use crate::error::{Error, NodeCause, NodeReport, Result};
use crate::host::{Host, sleep_until};
use crate::metrics::Meters;
use crate::node::{Listener, Mode, Name, Node, NodeState, Operation, Outcome, Reply, ReplyTo, Request, Sink};
use crate::rules::ballot::LIMIT;
use crate::rules::{Ballots, NodeSet, Size, Tick};
use crate::spans::Spanned;

/// How often a caller that waits for votes looks whether a quorum may vote.
const LOOK: Duration = Duration::from_millis(100);

/// What is asked, as a part of what, and who takes the answers.
pub(super) type Asked = (Spanned, Arc<Operation>, Arc<dyn Sink>);

/// The nodes, and what one client shares over all its locks.
#[derive(Debug)]
pub(crate) struct Voters {
    pub(crate) nodes: Vec<Arc<dyn Node>>,
    pub(crate) size: Size,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) meters: Meters,
    ballots: Ballots,
    pub(crate) hints: Arc<Hints>,
    pub(crate) membership: Membership,
    /// The list that claims name: its hash, or nothing if no node checks it.
    claimed: Arc<str>,
    /// Why nothing is acquired, while another list of this one's name is in force.
    other_list: Mutex<Option<Arc<str>>>,
    acquisitions: AtomicU64,
    round_trip: AtomicU64,
    cleanups: Arc<Cleanups>,
    pub(super) leftovers: Leftovers,
}

impl Voters {
    /// The quorum of `nodes`. Releases that a node did not confirm are sent to `leftovers`, to be
    /// tried again.
    pub(crate) fn new(
        nodes: Vec<Arc<dyn Node>>,
        host: Arc<dyn Host>,
        hints: Arc<Hints>,
        leftovers: Leftovers,
        membership: Membership,
        meters: Meters,
    ) -> Self {
        for (index, node) in nodes.iter().enumerate() {
            node.listen(index, hints.clone());
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
            hints,
            membership,
            claimed,
            other_list: Mutex::default(),
            acquisitions: AtomicU64::new(0),
            round_trip: AtomicU64::new(0),
            cleanups: Arc::default(),
            leftovers,
        }
    }

    /// Has all nodes give the news of a name from now on, or no more.
    pub(super) fn follow(&self, name: &Name, on: bool) {
        self.nodes.iter().for_each(|node| node.follow(name, on));
    }

    /// Whether a quorum of nodes gives hints, so that waiting for them makes sense.
    pub(crate) fn hinted(&self) -> bool {
        let hinting = self.nodes.iter().filter(|node| node.hints()).count();
        hinting >= self.size.quorum() as usize
    }

    /// The hash of the list that claims name; empty if no node checks it.
    pub(super) const fn claimed_list(&self) -> &Arc<str> {
        &self.claimed
    }

    /// Whether nodes keep lists: then they need hellos.
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

    /// Waits for hellos that are on their way, or due, if a quorum may vote then: so it is when this
    /// process stood still. Until `end` at most.
    pub(crate) async fn greeted(&self, end: Tick, shut: &CancellationToken) {
        while self.may_vote_soon() && self.host.now() < end && !shut.is_cancelled() {
            sleep_until(&self.host, end.min(self.host.now() + LOOK)).await;
        }
    }

    fn may_vote_soon(&self) -> bool {
        let may = |node: &&Arc<dyn Node>| matches!(node.status().state, NodeState::Up | NodeState::Connecting);
        !self.can_vote() && self.nodes.iter().filter(may).count() >= self.size.quorum() as usize
    }

    /// Waits until a quorum may vote on claims, until `end` at most; returns whether one may.
    /// Nothing is claimed meanwhile.
    pub(crate) async fn votes(&self, end: Tick) -> bool {
        while !self.can_vote() {
            if self.host.now() >= end {
                return false;
            }
            sleep_until(&self.host, end.min(self.host.now() + LOOK)).await;
        }
        true
    }

    /// Whether so many nodes are quarantined beyond `end` that no quorum votes by then.
    pub(crate) fn are_quarantined_past(&self, end: Tick) -> bool {
        let (now, blocking) = (self.host.now(), self.size.blocking() as usize);
        let is = |node: &&Arc<dyn Node>| matches!(node.status().state, NodeState::Quarantined { left, .. } if now + left > end);
        // First: that is so almost always, and costs less.
        !self.can_vote() && self.nodes.iter().filter(is).count() >= blocking
    }

    /// Why nothing is acquired, while another list of this one's name is in force.
    pub(crate) fn other_list(&self) -> Option<Arc<str>> {
        self.other().clone()
    }

    /// What nodes' lists mean from now on. Returns whether another list was met that was not before.
    pub(super) fn meet(&self, other: Option<Arc<str>>) -> bool {
        let is = other.is_some();
        std::mem::replace(&mut *self.other(), other).is_none() && is
    }

    fn other(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.other_list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How each node is, for errors.
    pub(crate) fn reports(&self) -> Vec<NodeReport> {
        self.nodes.iter().map(|node| NodeReport::of_status(&node.status())).collect()
    }

    /// What to do if a quorum is only out of reach since nodes are quarantined.
    pub(crate) fn advice(&self, reports: &[NodeReport]) -> &'static str {
        let waits = reports.iter().filter(|report| report.cause == NodeCause::Quarantined).count();
        if waits < self.size.blocking() as usize {
            return "";
        }
        "; this ends by itself: wait until the quarantines end, or with a timeout above that. Servers that never \
         served need no wait if `quorumlock init` is run before their first client comes"
    }

    /// An error if this client only looks.
    pub(crate) fn may_acquire(&self) -> Result<()> {
        match self.membership.onlooker {
            false => Ok(()),
            true => {
                Err(Error::config("this client only looks; connect one without QuorumBuilder::onlooker to acquire"))
            }
        }
    }

    /// All nodes.
    pub(crate) fn everyone(&self) -> NodeSet {
        NodeSet::first(self.size.nodes())
    }

    /// Asks `whom` to carry out `operation`. Each answers to `sink` once, whatever happens.
    pub(crate) fn ask(&self, whom: NodeSet, operation: &Arc<Operation>, sink: &Arc<impl Sink>) {
        self.ask_within(&Spanned::default(), whom, operation, sink);
    }

    /// The same as a part of this span.
    pub(crate) fn ask_within(&self, span: &Spanned, whom: NodeSet, operation: &Arc<Operation>, sink: &Arc<impl Sink>) {
        for (index, node) in self.nodes.iter().enumerate().filter(|&(index, _)| whom.contains(index)) {
            let sink = traced(span, &**node, operation, sink.clone());
            node.submit(Request { operation: operation.clone(), reply: ReplyTo::new(index, sink) });
        }
    }

    /// Asks all nodes to carry these out, in as few calls as they fit into.
    pub(super) fn ask_all(&self, asked: &[Asked]) {
        for (index, node) in self.nodes.iter().enumerate() {
            let request = |(span, operation, sink): &Asked| Request {
                operation: operation.clone(),
                reply: ReplyTo::new(index, traced(span, &**node, operation, sink.clone())),
            };
            node.submit_all(asked.iter().map(request).collect());
        }
    }

    /// The next owner, and its number.
    pub(crate) fn owner(&self, mode: Mode) -> (String, u64) {
        let number = self.acquisitions.fetch_add(1, Ordering::Relaxed);
        (mode.owner(self.hints.client(), number), number)
    }

    /// The next ballot, above `told`.
    pub(crate) fn ballot(&self, told: u64) -> Result<u64> {
        self.ballots.next(self.host.wall(), told).ok_or_else(|| {
            Error::config(
                "the fencing tokens are used up: a node's key of this name holds a fence near 2^53; delete that key by hand",
            )
        })
    }

    /// A ballot above `told` and all that was seen, for whoever a release hands over to; 0 where
    /// there is none.
    pub(crate) fn next_ballot(&self, told: u64) -> u64 {
        self.ballots.next(self.host.wall(), told).unwrap_or(0)
    }

    /// Takes note of a fence that a node told.
    pub(crate) fn seen(&self, fence: u64) {
        self.ballots.seen(fence, self.host.wall());
    }

    /// Whether a fence is so far ahead of the wall clock that it must not become that of nodes which
    /// do not have it, unless there is no other way.
    pub(super) fn is_far(&self, fence: u64) -> bool {
        Ballots::is_far(fence, self.host.wall())
    }

    /// The place in all queues of an acquisition that begins now, in microseconds: the median of the
    /// wall clock and the clocks of all nodes that have answered, so that nobody whose clock is wrong
    /// is before or behind all others. Of two in the middle the later one: it passes nobody.
    pub(crate) fn ticket(&self) -> u64 {
        let now = self.host.now().since_origin().as_micros().cast_signed();
        let mine = i128::from(micros(self.host.wall()));
        let mut clocks = Vec::with_capacity(self.nodes.len() + 1);
        clocks.extend(self.nodes.iter().filter_map(|node| Some(now + node.clock_ahead()?)).chain([mine]));
        clocks.sort_unstable();
        u64::try_from(clocks[clocks.len() / 2].max(0)).unwrap_or(LIMIT).min(LIMIT)
    }

    /// When the first of the nodes that may not vote for this client yet may, if that is known.
    pub(super) fn next_to_vote(&self) -> Option<Duration> {
        let left = |node: &Arc<dyn Node>| match node.status().state {
            NodeState::Quarantined { left, .. } => Some(left),
            _ => None,
        };
        self.nodes.iter().filter_map(left).min()
    }

    /// How long a quorum takes to answer, lately: a moving average over rounds. Zero until
    /// measured.
    pub(crate) fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.round_trip.load(Ordering::Relaxed))
    }

    /// Takes note of how long a quorum took. Each measurement weighs an eighth, as in TCP's
    /// smoothed round trip (RFC 6298).
    pub(crate) fn measured(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let smoothed = match self.round_trip.load(Ordering::Relaxed) {
            0 => took,
            known => known - known / 8 + took / 8,
        };
        self.round_trip.store(smoothed, Ordering::Relaxed);
    }

    pub(crate) fn open_cleanup(&self) -> Open {
        self.cleanups.begin()
    }

    /// The count of releases that have not ended, for whoever may begin some.
    pub(crate) fn cleanups(&self) -> Arc<Cleanups> {
        self.cleanups.clone()
    }

    /// Waits until no release is under way.
    pub(crate) async fn cleaned(&self) {
        self.cleanups.ended().await;
    }
}

/// Who takes an answer, behind the span of the call where anybody wants to see that.
fn traced(span: &Spanned, node: &dyn Node, operation: &Operation, sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
    if !Spanned::of_nodes() {
        return sink;
    }
    let call = span.node_call(node.label(), operation.verb().as_str());
    if call.is_on() { Arc::new(Traced { call, sink }) } else { sink }
}

/// One call of one node.
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
