//! The checks: each looks at one thing, and makes findings of it.

mod clocks;
mod encryption;
mod memory;
mod persistence;
mod quorum;
mod rights;
mod rosters;
mod state;

use super::finding::{Finding, Level, sorted};
use super::seen::{Node, Seen};

/// What all checks find, the worst first.
pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let nodes = seen.each().flat_map(|node| of_node(node).into_iter().map(move |finding| finding.of(node.label())));
    let members = rosters::members(seen);
    sorted(quorum::findings(seen).into_iter().chain(nodes).chain(members).collect())
}

fn of_node(node: Node<'_>) -> Vec<Finding> {
    let mut findings = state::findings(node);
    findings.extend(encryption::findings(node));
    let exam = match node.exam {
        Ok(exam) => exam,
        Err(failed) if node.status.state.is_admitted() => return [findings, vec![unasked(&failed.why)]].concat(),
        Err(_) => return findings,
    };
    findings.extend(rights::findings(node, exam));
    findings.extend(clocks::findings(node, exam));
    match &exam.info {
        Ok(_) => {
            findings.extend(memory::findings(node, exam));
            findings.extend(persistence::findings(node, exam));
        }
        Err(why) => findings.push(unknown("info", "memory, persistence and replicas", why, "Give the user +info.")),
    }
    findings
}

fn unasked(why: &str) -> Finding {
    unknown("exam", "memory, clock and rights", why, "Run the doctor again, with a longer --node-timeout.")
}

/// What could not be asked.
fn unknown(id: &'static str, what: &str, why: &str, mend: &str) -> Finding {
    Finding::new(Level::Unknown, id, format!("Nothing is known of its {what}: {why}."))
        .why("A fault there stays unseen.")
        .mend(mend)
}
