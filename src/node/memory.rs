//! A node in memory. This node does exactly what the Lua scripts do on a real node. A simulation
//! can run the node's clock fast or slow, or step the clock.
//!
//! Doc examples, users' unit tests and simulations use this node. `tests/script.rs` gives the
//! memory node and the scripts the same random operations, and compares the replies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::hint::{Hint, Listener};
use super::operation::Name;
use super::status::{NodeState, NodeStatus};
use super::{Node, Request};
use crate::host::Host;

mod entry;
mod hello;
mod line;
mod listed;
mod readers;
mod record;
mod seen;
mod store;
mod waiting;
mod work;

pub use record::KEEP;
pub use store::Store;

/// Rounds a time down to whole milliseconds, because nodes count whole milliseconds.
fn millis(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// A node in memory that replies at once.
#[derive(Debug)]
pub struct MemoryNode {
    label: Arc<str>,
    host: Arc<dyn Host>,
    /// How far the node's clock is ahead of the host's monotonic clock. The node's clock shows wall
    /// time, because nodes compare ballots with their clocks.
    ahead: Duration,
    store: Mutex<Store>,
    listeners: Mutex<Vec<(usize, Weak<dyn Listener>)>>,
}

impl MemoryNode {
    /// A new node whose votes count at once, and whose clock follows `host`. No list of nodes is in
    /// force on the node.
    #[must_use]
    pub fn new(label: &str, host: Arc<dyn Host>) -> Self {
        let ahead = host.wall().saturating_sub(host.now().since_origin());
        let store = Mutex::new(Store::made(label));
        Self { label: label.into(), host, ahead, store, listeners: Mutex::default() }
    }

    /// Drops all holds of a name, as if an operator had deleted them. Keeps the fence.
    #[cfg(feature = "unstable")]
    pub fn forget(&self, name: &Name) {
        self.store().forget(name);
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_heard_by(&self, client: &str) -> bool {
        let is = |listener: Arc<dyn Listener>| listener.client() == client && listener.hears();
        self.listeners().iter().any(|(_, listener)| listener.upgrade().is_some_and(is))
    }

    fn publish(&self, hints: &[Hint], news: &[Name]) {
        let listeners = self.listeners().clone();
        for (index, listener) in listeners.iter().filter_map(|(index, listener)| Some((*index, listener.upgrade()?))) {
            hints.iter().for_each(|hint| listener.hint(index, hint));
            news.iter().for_each(|name| listener.news(index, name));
        }
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<(usize, Weak<dyn Listener>)>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node for MemoryNode {
    fn label(&self) -> &Arc<str> {
        &self.label
    }

    fn submit(&self, request: Request) {
        let hears = |client: &str| self.is_heard_by(client);
        let mut store = self.store();
        let outcome = store.apply_heard(&request.operation, self.ahead + self.host.now().since_origin(), &hears);
        let (hints, news) = (store.hints(), store.news());
        drop(store);
        request.reply.send(Ok(outcome));
        if !hints.is_empty() || !news.is_empty() {
            self.publish(&hints, &news);
        }
    }

    fn listen(&self, index: usize, listener: Arc<dyn Listener>) {
        let mut listeners = self.listeners();
        listeners.retain(|(_, known)| known.strong_count() > 0);
        listeners.push((index, Arc::downgrade(&listener)));
    }

    fn hints(&self) -> bool {
        true
    }

    fn clock_ahead(&self) -> Option<i128> {
        Some(self.ahead.as_micros().cast_signed())
    }

    fn status(&self) -> NodeStatus {
        NodeStatus::new(self.label.clone(), NodeState::Up)
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::*;
    use crate::host::TokioTime;

    #[derive(Debug)]
    struct Client;

    impl Listener for Client {
        fn client(&self) -> &'static str {
            "host/1/uuid"
        }

        fn hint(&self, _: usize, _: &Hint) {}

        fn missed(&self, _: usize) {}
    }

    #[tokio::test]
    async fn node_has_a_wall_clock_and_forgets_dropped_listeners() {
        let node = MemoryNode::new("memory://0", Arc::new(TokioTime::new(Handle::current())));
        assert!(node.hints() && node.clock_ahead() > Some(0), "the node's clock shows the time of day");
        let stays: Arc<dyn Listener> = Arc::new(Client);
        for listener in [stays.clone(), Arc::new(Client), Arc::new(Client)] {
            node.listen(0, listener);
        }
        assert_eq!(node.listeners().len(), 2, "only a later call removes the last listener");
        drop(stays);
    }
}
