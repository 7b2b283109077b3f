//! How a node is, in words.

use std::collections::HashSet;

use quorumlock::{NodeState, NodeStatus};

use super::verdict::Verdict;
use crate::duration::left;
use crate::output::{green, red, yellow};

/// A node and its state, as a part of a sentence.
pub(crate) fn told(node: &NodeStatus) -> String {
    format!("{} is {}", node.node, node.state)
}

/// What keeps a node from voting, or from answering.
pub(crate) fn why(verdict: &Verdict<'_>, index: usize, node: &NodeStatus) -> Option<String> {
    verdict.refusal(index).map(|refused| format!("{}, but {refused}", word(&node.state))).or_else(|| {
        match &node.state {
            NodeState::Up => None,
            NodeState::Connecting => Some("connecting: not done yet; --connect-timeout waits longer for it".to_owned()),
            state => Some(state.to_string()),
        }
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
        NodeState::Quarantined { left: time, .. } => format!("quarantined {}", left(time)),
        _ => word(&node.state).to_owned(),
    }
}

pub(crate) fn state(node: &NodeStatus) -> String {
    coloured(node, &node.state.to_string())
}

fn coloured(node: &NodeStatus, text: &str) -> String {
    match node.state {
        NodeState::Up => green(text),
        NodeState::Quarantined { .. } | NodeState::Waiting { .. } | NodeState::Connecting => yellow(text),
        _ => red(text),
    }
}

/// The state in one word, for programs.
pub(crate) const fn word(state: &NodeState) -> &'static str {
    match state {
        NodeState::Up => "up",
        NodeState::Quarantined { .. } => "quarantined",
        NodeState::Connecting => "connecting",
        NodeState::Waiting { .. } => "waiting",
        NodeState::Down { .. } => "down",
        NodeState::Replica => "replica",
        NodeState::Cluster => "cluster",
        NodeState::Unlisted { .. } => "unlisted",
        NodeState::Duplicate { .. } => "duplicate",
        _ => "other",
    }
}
