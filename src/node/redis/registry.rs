//! Records the server behind each node, so that one server never counts as two nodes.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// A server's run id, and the label of its node.
type Server = (String, Arc<str>);

/// The servers of all nodes of one quorum, and a signal that a node's state has changed.
#[derive(Debug)]
pub(crate) struct Registry {
    servers: Mutex<Vec<Option<Server>>>,
    changes: watch::Sender<()>,
}

impl Registry {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { servers: Mutex::new(vec![None; nodes]), changes: watch::Sender::new(()) }
    }

    /// Notes that node `index` is the server `run_id`. If another node is the same server, returns
    /// that node's label as the error.
    pub(crate) fn enter(&self, index: usize, run_id: &str, label: &Arc<str>) -> Result<(), Arc<str>> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(at, entry): (usize, &Option<Server>)| {
            entry.as_ref().filter(|(known, _)| at != index && known == run_id).map(|(_, label)| label.clone())
        };
        if let Some(other) = servers.iter().enumerate().find_map(same) {
            return Err(other);
        }
        if let Some(entry) = servers.get_mut(index) {
            *entry = Some((run_id.to_owned(), label.clone()));
        }
        Ok(())
    }

    /// Removes the server of node `index`, whose connection has ended. From now on, another node
    /// may have this server.
    pub(crate) fn leave(&self, index: usize) {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = servers.get_mut(index) {
            *entry = None;
        }
    }

    pub(crate) fn changed(&self) {
        self.changes.send_replace(());
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_cannot_be_two_nodes() {
        let registry = Registry::new(2);
        assert_eq!(registry.enter(0, "run", &"a".into()), Ok(()));
        assert_eq!(registry.enter(1, "run", &"b".into()), Err("a".into()));
        assert_eq!(registry.enter(0, "run", &"a".into()), Ok(()));
        assert_eq!(registry.enter(0, "restarted", &"a".into()), Ok(()));
        assert_eq!(registry.enter(1, "run", &"b".into()), Ok(()));
    }

    #[test]
    fn a_server_whose_connection_ended_may_be_another_node() {
        let registry = Registry::new(2);
        assert_eq!(registry.enter(0, "run", &"a".into()), Ok(()));
        registry.leave(0);
        assert_eq!(registry.enter(1, "run", &"b".into()), Ok(()));
        assert_eq!(registry.enter(0, "run", &"a".into()), Err("b".into()));
    }
}
