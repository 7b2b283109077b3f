//! Whether a server persists data, and whether it has replicas.

use super::super::finding::{Finding, Level};
use super::super::node_check::NodeCheck;
use super::super::seen::Node;
use crate::words::counted;

pub(super) fn findings(node: Node<'_>, check: &NodeCheck) -> Vec<Finding> {
    [persists(node, check)].into_iter().chain(replicas(check, node.replicas)).collect()
}

fn persists(node: Node<'_>, check: &NodeCheck) -> Finding {
    let kept = if check.field("aof_enabled") == Some("1") {
        "It has an append-only file"
    } else {
        "It has no append-only file"
    };
    let what = match node.times.max_ttl.is_zero() {
        true => format!("{kept}."),
        false => format!(
            "{kept}. After each restart, it does not vote until all locks that it may have forgotten have expired."
        ),
    };
    Finding::fine("persistence", what)
}

/// The finding about replicas. Does not count the `known` replicas, which are nodes of the list:
/// `state.rs` reports these.
fn replicas(check: &NodeCheck, known: usize) -> Option<Finding> {
    let count = usize::try_from(check.number("connected_slaves")?).unwrap_or(usize::MAX);
    let count = count.checked_sub(known).filter(|count| *count > 0)?;
    let what = format!("It has {}.", counted(count, "replica"));
    Some(
        Finding::new(Level::Warning, "has-replicas", what)
            .why("A replica that becomes the master may lack locks, and the old master may still vote.")
            .mend("Detach the replicas: the quorum replaces replication."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_counted() {
        let found = |count, known| {
            let finding = replicas(&NodeCheck::told(&format!("connected_slaves:{count}\r\n")), known);
            finding.map(|finding| finding.what)
        };
        assert_eq!(found(0, 0), None);
        assert_eq!(found(2, 0).as_deref(), Some("It has 2 replicas."));
        assert_eq!(found(2, 1).as_deref(), Some("It has 1 replica."));
        assert_eq!(found(1, 1), None, "`state.rs` reports this replica");
    }
}
