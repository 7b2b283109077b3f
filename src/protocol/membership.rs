//! What one client has in common with the other clients of its list.

use std::sync::Arc;
use std::time::Duration;

use crate::rules::list::List;

/// What this client tells nodes of itself.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) list: Arc<List>,
    /// The nodes' names in it, in the order of the nodes.
    pub(crate) names: Vec<Arc<str>>,
    /// For how long nodes that are being connected to are waited for, before a list is put in force.
    pub(crate) round_timeout: Duration,
    /// It only looks, and acquires nothing.
    pub(crate) onlooker: bool,
}

#[cfg(test)]
impl Membership {
    /// Of a client of one node.
    pub(crate) fn sample(node: &Arc<str>) -> Self {
        let list = Arc::new(List::new("default", [node], Duration::ZERO));
        Self { list, names: vec![node.clone()], round_timeout: Duration::from_secs(2), onlooker: false }
    }
}
