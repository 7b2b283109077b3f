//! Nodes that vote only after a client has come.

use std::time::Duration;

use quorumlock::{Doubt, NodeState, NodeStatus};

/// How much too long an uptime may be.
pub(super) const ROUNDED: Duration = Duration::from_secs(1);

/// Whether the node can be reached and has no record. Its first client makes one.
pub(crate) fn is_unused(node: &NodeStatus) -> bool {
    let reached = matches!(node.state, NodeState::Up | NodeState::Quarantined { .. } | NodeState::Connecting);
    reached && node.run.is_some() && node.unreadable.is_none() && node.record.is_none()
}

/// Whether its quarantine is over, but it is not synced, since no client is there. The next client
/// syncs it.
pub(crate) fn is_idle(node: &NodeStatus) -> bool {
    matches!(node.state, NodeState::Quarantined { left, doubt: Doubt::Unsynced } if left <= Duration::from_secs(1))
}

/// Whether the server forgot locks while it ran, before this command connected. Its record was made
/// when it had run for longer than `old`. If it had forgotten nothing, that record would have been
/// old at once.
pub(crate) fn forgot_unseen(node: &NodeStatus, old: Duration) -> bool {
    let doubted = matches!(node.state, NodeState::Quarantined { doubt: Doubt::Restarted | Doubt::Forgot, .. });
    let Some(record) = node.record.as_ref().filter(|record| doubted && record.word.is_none()) else { return false };
    let began = node.uptime.and_then(|uptime| uptime.checked_sub(record.age));
    !has_restarted_unseen(node) && began.is_some_and(|ran| ran > old + ROUNDED)
}

/// Whether its record is from before a restart. Its first client takes the record over, and waits
/// for max_ttl.
pub(crate) fn has_restarted_unseen(node: &NodeStatus) -> bool {
    let process = node.record.as_ref().map(|record| &*record.process);
    let other = |run: &str| process.is_some_and(|process| !process.starts_with(run));
    matches!(node.state, NodeState::Quarantined { .. }) && node.run.as_deref().is_some_and(other)
}
