//! The state of a node, as text.

use std::collections::HashSet;

use quorumlock::{NodeState, NodeStatus};

use super::idle::{is_idle, is_unused};
use super::verdict::Verdict;
use crate::duration::left;
use crate::output::{green, red, yellow};

/// The text about a node that lost its record, and perhaps locks, while it ran.
const FORGOT: &str = "it forgot while it ran, and may have forgotten locks";

/// A node and its state, as a part of a sentence.
pub(crate) fn told(node: &NodeStatus) -> String {
    match &node.state {
        // Leave out `why`: the command's final error says how the other list differs from ours. The
        // other list may be in force only on other nodes.
        NodeState::OtherList { .. } => format!("{} does not vote while another list is in force", node.node),
        NodeState::Twins { .. } => format!("{}: {}", node.node, node.state),
        NodeState::Connecting if node.run.is_some() => {
            format!("{} answers, but this client's list is not in force there yet", node.node)
        }
        NodeState::Connecting => format!("{} has not answered yet", node.node),
        state => format!("{} is {state}", node.node),
    }
}

/// What keeps a node from voting, or from answering.
pub(crate) fn why(verdict: &Verdict<'_>, index: usize, node: &NodeStatus) -> Option<String> {
    verdict.refusal(index).map(|refused| format!("{}, but {refused}", plain(node))).or_else(|| match &node.state {
        _ if is_unused(node) => Some(verdict.forgot(index).map_or_else(
            || "no record: no client has used it since it started empty or lost its data".to_owned(),
            |how| format!("forgot: {FORGOT} ({how}); it votes {} after a client has used it", left(verdict.max_ttl())),
        )),
        _ if is_idle(node) => Some("idle: it votes once a client has sent it the tokens in use".to_owned()),
        NodeState::Up => None,
        NodeState::Connecting => Some(verdict.silence().to_owned()),
        NodeState::Quarantined { left: time, .. } => Some(verdict.forgot(index).map_or_else(
            || node.state.to_string(),
            |how| format!("quarantined for {} more: {FORGOT} ({how})", left(*time)),
        )),
        state => Some(state.to_string()),
    })
}

/// The nodes' addresses, without the scheme if all nodes have the same scheme. If a node has a name
/// that is not its address, the name comes first: `eu (10.0.1.7:6379)`.
pub(crate) fn labels(nodes: &[NodeStatus]) -> Vec<String> {
    let parts = || nodes.iter().map(|node| node.node.split_once("://").unwrap_or(("", &node.node)));
    let schemes: HashSet<_> = parts().map(|(scheme, _)| scheme).collect();
    let label = |(node, (_, address)): (&NodeStatus, (&str, &str))| {
        let shown = if schemes.len() > 1 { &*node.node } else { address };
        // If the user configured no name, the library made the name from the address.
        let is_made = address.to_ascii_lowercase().contains(&*node.name) || node.name.starts_with('/');
        if is_made { shown.to_owned() } else { format!("{} ({shown})", node.name) }
    };
    nodes.iter().zip(parts()).map(label).collect()
}

pub(super) fn in_short(verdict: &Verdict<'_>, index: usize, node: &NodeStatus) -> String {
    coloured(node, &plainly(verdict, index, node))
}

/// The state in short, without a colour.
pub(crate) fn plainly(verdict: &Verdict<'_>, index: usize, node: &NodeStatus) -> String {
    match verdict.forgot(index) {
        Some(_) if is_unused(node) => "forgot".to_owned(),
        _ if node.state == NodeState::Connecting && !is_unused(node) => "no answer".to_owned(),
        _ => plain(node),
    }
}

/// The state in short, from the node's own state alone.
pub(crate) fn plain(node: &NodeStatus) -> String {
    match node.state {
        _ if is_unused(node) => "no record".to_owned(),
        _ if is_idle(node) => "idle".to_owned(),
        NodeState::Quarantined { left: time, .. } => format!("quarantined {}", left(time)),
        _ => word(&node.state).to_owned(),
    }
}

pub(crate) fn state(node: &NodeStatus) -> String {
    let is_checked = node.state == NodeState::Unclear;
    coloured(node, &if is_checked { plain(node) } else { node.state.to_string() })
}

fn coloured(node: &NodeStatus, text: &str) -> String {
    match node.state {
        _ if is_unused(node) => yellow(text),
        NodeState::Up => green(text),
        NodeState::Quarantined { .. } | NodeState::Connecting | NodeState::Unclear => yellow(text),
        _ => red(text),
    }
}

/// The state in one word, for programs.
pub(crate) const fn word(state: &NodeState) -> &'static str {
    match state {
        NodeState::Up => "up",
        NodeState::Quarantined { .. } => "quarantined",
        NodeState::Connecting => "connecting",
        NodeState::Unclear => "checking",
        NodeState::Down { .. } => "down",
        NodeState::Replica => "replica",
        NodeState::Cluster => "cluster",
        NodeState::OtherList { .. } => "other list",
        NodeState::Twins { .. } => "two servers",
        NodeState::Duplicate { .. } => "duplicate",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_list_is_told_at_length_by_nothing_that_waits() {
        let node = NodeStatus::new("redis://eu".into(), NodeState::OtherList { why: "ours is long".into() });
        assert_eq!(told(&node), "redis://eu does not vote while another list is in force");
    }

    #[test]
    fn a_node_that_answers_is_not_told_to_be_connected_to() {
        let mut node = NodeStatus::new("redis://eu".into(), NodeState::Connecting);
        assert_eq!(told(&node), "redis://eu has not answered yet");
        node.run = Some("run".to_owned());
        assert_eq!(told(&node), "redis://eu answers, but this client's list is not in force there yet");
        node.state = NodeState::Unclear;
        assert!(told(&node).starts_with("redis://eu is connected, but another client reports another server"));
        assert_eq!(plain(&node), "checking");
    }
}
