//! Whether a server persists data, and whether it has replicas.

use super::super::exam::Exam;
use super::super::finding::{Finding, Level};
use super::super::seen::Node;
use crate::words::counted;

pub(super) fn findings(node: Node<'_>, exam: &Exam) -> Vec<Finding> {
    [persists(node, exam)].into_iter().chain(replicas(exam)).collect()
}

fn persists(node: Node<'_>, exam: &Exam) -> Finding {
    let kept = if exam.field("aof_enabled") == Some("1") {
        "It has an append-only file"
    } else {
        "It has no append-only file"
    };
    let what = match node.times.max_ttl.is_zero() {
        true => format!("{kept}."),
        false => format!("{kept}; the restart guard covers what a restart forgets."),
    };
    Finding::fine("persistence", what)
}

fn replicas(exam: &Exam) -> Option<Finding> {
    let count = exam.number("connected_slaves").filter(|count| *count > 0)?;
    let what = format!("It has {}.", counted(usize::try_from(count).unwrap_or(usize::MAX), "replica"));
    Some(
        Finding::new(Level::Warning, "has-replicas", what)
            .why("A replica that takes over has not all locks, and the old master may still vote.")
            .mend("Detach them: the quorum replaces replication."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_counted() {
        assert_eq!(replicas(&Exam::told("connected_slaves:0\r\n")), None);
        let found = replicas(&Exam::told("connected_slaves:2\r\n"));
        assert!(found.is_some_and(|finding| finding.what == "It has 2 replicas."));
    }
}
