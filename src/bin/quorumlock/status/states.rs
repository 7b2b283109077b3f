//! How a node is, in words.

use std::collections::HashSet;

use quorumlock::{NodeState, NodeStatus};

use super::idle::{is_idle, is_unused};
use super::verdict::Verdict;
use crate::duration::left;
use crate::output::{green, red, yellow};

/// A node and its state, as a part of a sentence.
pub(crate) fn told(node: &NodeStatus) -> String {
    match &node.state {
        NodeState::OtherList { .. } | NodeState::Twins { .. } => format!("{}: {}", node.node, node.state),
        state => format!("{} is {state}", node.node),
    }
}

/// What keeps a node from voting, or from answering.
pub(crate) fn why(verdict: &Verdict<'_>, index: usize, node: &NodeStatus) -> Option<String> {
    verdict.refusal(index).map(|refused| format!("{}, but {refused}", plain(node))).or_else(|| match &node.state {
        _ if is_unused(node) => Some("no record: no client has come since it began, or forgot".to_owned()),
        _ if is_idle(node) => Some("idle: the next client tells it which tokens were dealt, and it votes".to_owned()),
        NodeState::Up => None,
        NodeState::Connecting => Some(
            "connecting: no answer so far, so it hangs or is far away; --connect-timeout 10s says which".to_owned(),
        ),
        state => Some(state.to_string()),
    })
}

/// The nodes' addresses, without the scheme where all have the same.
pub(crate) fn labels(nodes: &[NodeStatus]) -> Vec<&str> {
    let parts = || nodes.iter().map(|node| node.node.split_once("://").unwrap_or(("", &node.node)));
    let schemes: HashSet<_> = parts().map(|(scheme, _)| scheme).collect();
    if schemes.len() > 1 {
        return nodes.iter().map(|node| &*node.node).collect();
    }
    parts().map(|(_, rest)| rest).collect()
}

pub(super) fn in_short(node: &NodeStatus) -> String {
    coloured(node, &plain(node))
}

/// The same without a colour.
pub(crate) fn plain(node: &NodeStatus) -> String {
    match node.state {
        _ if is_unused(node) => "no record".to_owned(),
        _ if is_idle(node) => "idle".to_owned(),
        NodeState::Quarantined { left: time, .. } => format!("quarantined {}", left(time)),
        _ => word(&node.state).to_owned(),
    }
}

pub(crate) fn state(node: &NodeStatus) -> String {
    coloured(node, &node.state.to_string())
}

fn coloured(node: &NodeStatus, text: &str) -> String {
    match node.state {
        _ if is_unused(node) => yellow(text),
        NodeState::Up => green(text),
        NodeState::Quarantined { .. } | NodeState::Connecting => yellow(text),
        _ => red(text),
    }
}

/// The state in one word, for programs.
pub(crate) const fn word(state: &NodeState) -> &'static str {
    match state {
        NodeState::Up => "up",
        NodeState::Quarantined { .. } => "quarantined",
        NodeState::Connecting => "connecting",
        NodeState::Down { .. } => "down",
        NodeState::Replica => "replica",
        NodeState::Cluster => "cluster",
        NodeState::OtherList { .. } => "other list",
        NodeState::Twins { .. } => "two servers",
        NodeState::Duplicate { .. } => "duplicate",
        _ => "other",
    }
}
