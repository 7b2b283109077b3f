//! The nodes of one quorum, and what one client knows of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc;

use super::hints::Hints;
use super::release::Cleanup;
use crate::error::{Error, Result};
use crate::host::Host;
use crate::metrics::Meters;
use crate::node::{Listener, Node, Operation, ReplyTo, Request, Sink};
use crate::quorum::waiting::grace;
use crate::quorum::{Ballots, Size};

/// Some of the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeSet(u64);

impl NodeSet {
    pub(crate) const fn of(node: usize) -> Self {
        Self(1 << node)
    }

    pub(crate) const fn insert(&mut self, node: usize) {
        self.0 |= 1 << node;
    }

    pub(crate) const fn remove(&mut self, node: usize) {
        self.0 &= !(1 << node);
    }

    pub(crate) const fn contains(self, node: usize) -> bool {
        self.0 & (1 << node) != 0
    }

    pub(crate) const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// The nodes in both.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The nodes, and what one client shares over all its locks.
#[derive(Debug)]
pub(crate) struct Voters {
    pub(crate) nodes: Vec<Arc<dyn Node>>,
    pub(crate) size: Size,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) meters: Meters,
    pub(crate) ballots: Ballots,
    pub(crate) hints: Arc<Hints>,
    acquisitions: AtomicU64,
    round_trip: AtomicU64,
    cleanups: Arc<Cleanups>,
    leftovers: mpsc::Sender<Arc<Cleanup>>,
}

/// How many releases have not ended.
#[derive(Debug, Default)]
pub(super) struct Cleanups {
    open: AtomicUsize,
    none: Notify,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Open(Arc<Cleanups>);

impl Drop for Open {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none.notify_waiters();
        }
    }
}

impl Voters {
    /// The quorum of `nodes`. Releases that a node did not confirm are sent to `leftovers`, to be tried again.
    pub(crate) fn new(
        nodes: Vec<Arc<dyn Node>>,
        host: Arc<dyn Host>,
        hints: Arc<Hints>,
        leftovers: mpsc::Sender<Arc<Cleanup>>,
    ) -> Self {
        for (index, node) in nodes.iter().enumerate() {
            node.listen(index, hints.clone());
        }
        let size = Size::of(u32::try_from(nodes.len()).unwrap_or(u32::MAX));
        Self {
            nodes,
            size,
            host,
            meters: Meters::new(),
            ballots: Ballots::default(),
            hints,
            acquisitions: AtomicU64::new(0),
            round_trip: AtomicU64::new(0),
            cleanups: Arc::default(),
            leftovers,
        }
    }

    /// Whether a quorum of nodes gives hints, so that waiting for them makes sense.
    pub(crate) fn hinted(&self) -> bool {
        let hinting = self.nodes.iter().filter(|node| node.hints()).count();
        hinting >= self.size.quorum() as usize
    }

    /// All nodes.
    pub(crate) fn everyone(&self) -> NodeSet {
        let mut all = NodeSet::default();
        (0..self.nodes.len()).for_each(|node| all.insert(node));
        all
    }

    /// Asks `whom` to carry out `operation`. Each answers to `sink` once, whatever happens.
    pub(crate) fn ask(&self, whom: NodeSet, operation: &Arc<Operation>, sink: &Arc<impl Sink>) {
        for (index, node) in self.nodes.iter().enumerate().filter(|&(index, _)| whom.contains(index)) {
            let sink: Arc<dyn Sink> = sink.clone();
            node.submit(Request { operation: operation.clone(), reply: ReplyTo::new(index, sink) });
        }
    }

    /// What identifies the next acquisition: the client and a number.
    pub(crate) fn acquisition(&self) -> (String, u64) {
        let number = self.acquisitions.fetch_add(1, Ordering::Relaxed);
        (format!("{}/{number}", self.hints.client()), number)
    }

    /// How long turns last that this client gives.
    pub(crate) fn grace(&self) -> Duration {
        grace(self.round_trip())
    }

    /// The next ballot.
    pub(crate) fn ballot(&self) -> Result<u64> {
        self.ballots.next(self.host.wall()).ok_or_else(|| {
            Error::config(
                "the fencing tokens are used up: a node's gate key holds a fence near 2^53; delete that key by hand",
            )
        })
    }

    /// How long a quorum takes to answer, lately: a moving average over rounds. Zero until measured.
    pub(crate) fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.round_trip.load(Ordering::Relaxed))
    }

    /// Takes note of how long a quorum took. Each measurement weighs an eighth, as in TCP's smoothed round trip (RFC 6298).
    pub(crate) fn measured(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let smoothed = match self.round_trip.load(Ordering::Relaxed) {
            0 => took,
            known => known - known / 8 + took / 8,
        };
        self.round_trip.store(smoothed, Ordering::Relaxed);
    }

    pub(super) fn open_cleanup(&self) -> Open {
        self.cleanups.open.fetch_add(1, Ordering::AcqRel);
        Open(self.cleanups.clone())
    }

    /// Hands a release on whose last try some nodes did not confirm. Returns whether there was room for it.
    pub(super) fn leave_over(&self, cleanup: Arc<Cleanup>) -> bool {
        self.leftovers.try_send(cleanup).is_ok()
    }

    /// Waits until no release is under way.
    pub(crate) async fn cleaned(&self) {
        loop {
            let none = self.cleanups.none.notified();
            tokio::pin!(none);
            none.as_mut().enable();
            if self.cleanups.open.load(Ordering::Acquire) == 0 {
                return;
            }
            none.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_nodes_knows_its_nodes() {
        let mut set = NodeSet::of(5);
        set.insert(63);
        set.insert(0);
        assert!(set.contains(0) && set.contains(5) && set.contains(63) && !set.contains(1) && !set.is_empty());
        assert_eq!(
            (set.len(), set.and(NodeSet::of(5)), set.and(NodeSet::of(1))),
            (3, NodeSet::of(5), NodeSet::default())
        );
        set.remove(5);
        set.remove(5);
        assert!(set.len() == 2 && !set.contains(5) && NodeSet::default().is_empty());
    }
}
