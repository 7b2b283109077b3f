//! Warnings: faults that should be repaired even if locks can be acquired.

use std::time::Duration;

use quorumlock::NodeStatus;

use crate::output::same_once;
use crate::raw_connection::rights::Asked;

pub(super) fn warnings(nodes: &[NodeStatus], rights: &[Asked], max_ttl: Duration) -> Vec<String> {
    let count = nodes.len();
    let even = count.is_multiple_of(2).then(|| {
        let (failed, fewer) = ((count - 1) / 2, count - 1);
        format!("with {count} nodes, at most {failed} may fail, as with {fewer}; use an odd number of nodes")
    });
    let unguarded = max_ttl.is_zero().then(|| {
        "max_ttl is 0 here: a client with max_ttl 0 counts votes of nodes that may have forgotten who holds a lock"
            .to_owned()
    });
    let of_nodes = nodes.iter().flat_map(of_node).chain(untold(nodes, rights));
    let of_nodes = same_once(of_nodes).into_iter().map(|(nodes, what)| format!("{what}: {nodes}"));
    even.into_iter().chain(unguarded).chain(of_nodes).collect()
}

/// The warnings about nodes that answer, but did not report the user's rights.
fn untold<'a>(nodes: &'a [NodeStatus], rights: &'a [Asked]) -> impl Iterator<Item = (&'a str, String)> {
    let asked = nodes.iter().zip(rights).filter(|(node, _)| node.state.is_admitted());
    asked.filter_map(|(node, rights)| {
        let why = rights.as_ref().err()?;
        Some((&*node.node, format!("it is unknown whether the user may acquire locks ({why})")))
    })
}

fn of_node(node: &NodeStatus) -> impl Iterator<Item = (&str, String)> {
    let evicts = node.evicts.as_ref().map(|policy| {
        format!("a server may evict locks (maxmemory-policy {policy}); set maxmemory-policy to noeviction")
    });
    let silent = node
        .no_wake_ups
        .as_ref()
        .map(|why| format!("a server does not notify waiters, so waiting takes longer ({why})"));
    let full = node
        .out_of_memory
        .as_ref()
        .map(|used| format!("a server is out of memory ({used}) and grants no lock; raise maxmemory or free memory"));
    evicts.into_iter().chain(full).chain(silent).map(|what| (&*node.node, what))
}
