//! The list of nodes of one client. All clients that want the same locks must have the same list.

use std::sync::Arc;
use std::time::Duration;

use crate::rules::list::List;

/// The list of nodes of this client, and how the client uses the list.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) list: Arc<List>,
    /// The nodes' names in the list, in the order of the client's nodes.
    pub(crate) names: Vec<Arc<str>>,
    /// How long to wait for nodes that are still connecting before the list is put in force.
    pub(crate) round_timeout: Duration,
    /// Whether the client only inspects, and acquires nothing.
    pub(crate) onlooker: bool,
}

#[cfg(test)]
impl Membership {
    /// The membership of a client of one node.
    pub(crate) fn sample(node: &Arc<str>) -> Self {
        let list = Arc::new(List::new("default", [node], Duration::ZERO));
        Self { list, names: vec![node.clone()], round_timeout: Duration::from_secs(2), onlooker: false }
    }
}
