//! Nodes that vote as soon as a client has come, and not before.

use std::time::Duration;

use quorumlock::{Doubt, NodeState, NodeStatus};

/// Whether it can be reached and has no record: its first client makes one.
pub(crate) fn is_unused(node: &NodeStatus) -> bool {
    let reached = matches!(node.state, NodeState::Up | NodeState::Quarantined { .. } | NodeState::Connecting);
    reached && node.run.is_some() && node.unreadable.is_none() && node.record.is_none()
}

/// Whether its quarantine is over, and no client is there to sync it: the next one does.
pub(crate) fn is_idle(node: &NodeStatus) -> bool {
    matches!(node.state, NodeState::Quarantined { left, doubt: Doubt::Unsynced } if left <= Duration::from_secs(1))
}

/// Whether its record is that of the server before a restart: its first client takes it over, and
/// waits for max_ttl.
pub(crate) fn has_restarted_unseen(node: &NodeStatus) -> bool {
    let process = node.record.as_ref().map(|record| &*record.process);
    let other = |run: &str| process.is_some_and(|process| !process.starts_with(run));
    matches!(node.state, NodeState::Quarantined { .. }) && node.run.as_deref().is_some_and(other)
}
