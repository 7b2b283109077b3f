//! Nodes that vote only after a client has come.

use std::time::Duration;

use quorumlock::{Doubt, NodeState, NodeStatus};

/// The greatest error of a reported uptime: servers count whole seconds.
pub(super) const ROUNDED: Duration = Duration::from_secs(1);

/// Whether the node can be reached and has no record. The node's first client makes its record.
pub(crate) fn is_unused(node: &NodeStatus) -> bool {
    let reached = matches!(node.state, NodeState::Up | NodeState::Quarantined { .. } | NodeState::Connecting);
    reached && node.run.is_some() && node.unreadable.is_none() && node.record.is_none()
}

/// Whether the node's quarantine is over (or ends within a second), but no client has sent the
/// tokens that the node may have forgotten. The next client sends them, and then the node votes.
pub(crate) fn is_idle(node: &NodeStatus) -> bool {
    matches!(node.state, NodeState::Quarantined { left, doubt: Doubt::Unsynced } if left <= Duration::from_secs(1))
}

/// Whether the server forgot locks while it ran, before this command connected. If a server has run
/// for longer than `old` and forgot nothing, its first record is marked as old in `Record::word`.
/// So if a record was made after that time and has no mark, the server forgot.
pub(crate) fn forgot_unseen(node: &NodeStatus, old: Duration) -> bool {
    let doubted = matches!(node.state, NodeState::Quarantined { doubt: Doubt::Restarted | Doubt::Forgot, .. });
    let Some(record) = node.record.as_ref().filter(|record| doubted && record.word.is_none()) else { return false };
    let began = node.uptime.and_then(|uptime| uptime.checked_sub(record.age));
    !has_restarted_unseen(node) && began.is_some_and(|ran| ran > old + ROUNDED)
}

/// Whether the node's record was made before the server restarted. The next client takes over the
/// record, and then waits for max_ttl.
pub(crate) fn has_restarted_unseen(node: &NodeStatus) -> bool {
    let process = node.record.as_ref().map(|record| &*record.process);
    let other = |run: &str| process.is_some_and(|process| !process.starts_with(run));
    matches!(node.state, NodeState::Quarantined { .. }) && node.run.as_deref().is_some_and(other)
}
