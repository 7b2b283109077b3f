//! The nodes that may have forgotten what they granted, until leases were told.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::rules::{NodeSet, Tick};

/// The nodes that may have forgotten what they granted, and when each came into doubt.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    nodes: Mutex<Doubted>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Doubted {
    /// Those that `next` has not returned yet.
    news: NodeSet,
    /// When each came into doubt last.
    last: BTreeMap<usize, Tick>,
}

impl Doubts {
    /// Waits until some nodes are in doubt, and takes them.
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

    /// The nodes that came into doubt at `t0` or later: what was asked then may rest on them.
    pub(crate) fn since(&self, t0: Tick) -> NodeSet {
        let mut since = NodeSet::default();
        self.nodes().last.iter().filter(|(_, at)| **at >= t0).for_each(|(node, _)| since.insert(*node));
        since
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
