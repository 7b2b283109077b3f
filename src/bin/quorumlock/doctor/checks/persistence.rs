//! Whether a server persists data, and whether it has replicas.

use super::super::finding::{Finding, Level};
use super::super::node_check::NodeCheck;
use super::super::seen::Node;
use crate::words::counted;

pub(super) fn findings(node: Node<'_>, check: &NodeCheck) -> Vec<Finding> {
    [persists(node, check)].into_iter().chain(replicas(check)).collect()
}

fn persists(node: Node<'_>, check: &NodeCheck) -> Finding {
    let kept = if check.field("aof_enabled") == Some("1") {
        "It has an append-only file"
    } else {
        "It has no append-only file"
    };
    let what = match node.times.max_ttl.is_zero() {
        true => format!("{kept}."),
        false => format!("{kept}; the restart guard covers locks that a restart forgets."),
    };
    Finding::fine("persistence", what)
}

fn replicas(check: &NodeCheck) -> Option<Finding> {
    let count = check.number("connected_slaves").filter(|count| *count > 0)?;
    let what = format!("It has {}.", counted(usize::try_from(count).unwrap_or(usize::MAX), "replica"));
    Some(
        Finding::new(Level::Warning, "has-replicas", what)
            .why("A replica that takes over does not have all locks, and the old master may still vote.")
            .mend("Detach them: the quorum replaces replication."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_counted() {
        assert_eq!(replicas(&NodeCheck::told("connected_slaves:0\r\n")), None);
        let found = replicas(&NodeCheck::told("connected_slaves:2\r\n"));
        assert!(found.is_some_and(|finding| finding.what == "It has 2 replicas."));
    }
}
