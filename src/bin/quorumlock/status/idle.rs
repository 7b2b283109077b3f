//! Nodes that vote as soon as a client has come, and not before.

use std::time::Duration;

use quorumlock::{Doubt, NodeState, NodeStatus};

/// An uptime may be a second too long.
pub(super) const ROUNDED: Duration = Duration::from_secs(1);

/// Whether it can be reached and has no record: its first client makes one.
pub(crate) fn is_unused(node: &NodeStatus) -> bool {
    let reached = matches!(node.state, NodeState::Up | NodeState::Quarantined { .. } | NodeState::Connecting);
    reached && node.run.is_some() && node.unreadable.is_none() && node.record.is_none()
}

/// Whether its quarantine is over, and no client is there to sync it: the next one does.
pub(crate) fn is_idle(node: &NodeStatus) -> bool {
    matches!(node.state, NodeState::Quarantined { left, doubt: Doubt::Unsynced } if left <= Duration::from_secs(1))
}

/// Whether it forgot what it had granted while it ran, before this command looked: its record is young,
/// and a server that had run for so long would have made one that is old at once.
pub(crate) fn forgot_unseen(node: &NodeStatus, old: Duration) -> bool {
    let doubted = matches!(node.state, NodeState::Quarantined { doubt: Doubt::Restarted | Doubt::Forgot, .. });
    let Some(record) = node.record.as_ref().filter(|record| doubted && record.word.is_none()) else { return false };
    let began = node.uptime.and_then(|uptime| uptime.checked_sub(record.age));
    !has_restarted_unseen(node) && began.is_some_and(|ran| ran > old + ROUNDED)
}

/// Whether its record is that of the server before a restart: its first client takes it over, and
/// waits for max_ttl.
pub(crate) fn has_restarted_unseen(node: &NodeStatus) -> bool {
    let process = node.record.as_ref().map(|record| &*record.process);
    let other = |run: &str| process.is_some_and(|process| !process.starts_with(run));
    matches!(node.state, NodeState::Quarantined { .. }) && node.run.as_deref().is_some_and(other)
}
