//! Doubted nodes, which may have forgotten their grants.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::rules::{NodeSet, Tick};

/// Which nodes this client has doubted, and when.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    nodes: Mutex<Doubted>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Doubted {
    /// Doubted nodes that `next` has not returned yet.
    news: NodeSet,
    /// For each node: when its last doubt began.
    last: BTreeMap<usize, Tick>,
}

impl Doubts {
    /// Waits for new doubts, and returns the nodes with new doubts.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn next(&self) -> NodeSet {
        loop {
            let nodes = std::mem::take(&mut self.nodes().news);
            if !nodes.is_empty() {
                return nodes;
            }
            self.news.notified().await;
        }
    }

    /// Nodes whose last doubt began at `t0` or later. These nodes may have forgotten a claim or a
    /// renewal that was sent at `t0`.
    pub(crate) fn since(&self, t0: Tick) -> NodeSet {
        self.nodes().last.iter().filter(|(_, at)| **at >= t0).map(|(node, _)| *node).collect()
    }

    pub(super) fn add(&self, node: usize, now: Tick) {
        let mut nodes = self.nodes();
        nodes.news.insert(node);
        nodes.last.insert(node, now);
        drop(nodes);
        self.news.notify_one();
    }

    fn nodes(&self) -> MutexGuard<'_, Doubted> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
