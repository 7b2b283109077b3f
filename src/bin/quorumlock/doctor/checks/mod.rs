//! The checks. Each check examines one subject, and returns findings.

mod clocks;
mod encryption;
mod lists;
mod memory;
mod persistence;
mod quorum;
mod rights;
mod state;
mod writes;

use super::finding::{Finding, Level, sorted};
use super::seen::{Node, Seen};
use crate::raw_connection::login::{Failed, Kind};
use crate::raw_connection::remedies::mend;

/// The remedy if no other remedy is known.
const AGAIN: &str = "Run the doctor again.";

/// The findings of all checks, the worst first.
pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let verdict = seen.verdict();
    let of_node = |node: Node<'_>| {
        let findings = of_node(node, verdict.unanswered(node.index)).into_iter();
        findings.map(|finding| finding.of(node.label())).collect::<Vec<_>>()
    };
    let nodes: Vec<_> = seen.each().flat_map(of_node).collect();
    sorted(quorum::findings(seen).into_iter().chain(nodes).chain(lists::findings(seen)).collect())
}

/// `unanswered` is the reason why the node did not say who holds a name.
fn of_node(node: Node<'_>, unanswered: Option<&str>) -> Vec<Finding> {
    let mut findings = checked(node);
    // If another finding reports a fault, that fault is probably the reason.
    let is_fit = findings.iter().all(|finding| !matches!(finding.level, Level::Unsafe | Level::Warning));
    findings.extend(unanswered.filter(|_| is_fit).map(uninspected));
    findings
}

fn checked(node: Node<'_>) -> Vec<Finding> {
    let mut findings = state::findings(node);
    findings.extend(encryption::findings(node));
    let check = match node.check {
        Ok(check) => check,
        Err(failed) if node.status.state.is_admitted() => return [findings, vec![unasked(failed)]].concat(),
        Err(_) => return findings,
    };
    findings.extend(rights::findings(node, check));
    findings.extend(writes::finding(check));
    findings.extend(clocks::findings(node, check));
    match &check.info {
        Ok(_) => {
            findings.extend(memory::findings(node, check));
            findings.extend(persistence::findings(node, check));
        }
        Err(why) if node.explains(why) => {}
        Err(why) => findings.push(unknown("info", "memory, persistence and replicas", why, &refused(why, "+info"))),
    }
    findings
}

/// The finding about a node without a fault that does not say who holds a name.
fn uninspected(why: &str) -> Finding {
    Finding::new(
        Level::Warning,
        "inspection",
        format!("It does not say who holds a lock: {}.", why.trim_end_matches('.')),
    )
    .why("A node that does not answer this in time has no vote.")
    .mend(mend(why).unwrap_or("Run the doctor again. If this fails again, give a longer --node-timeout."))
}

fn unasked(failed: &Failed) -> Finding {
    let mend = match failed.kind {
        Kind::Reaching => "Run the doctor again. If the node hangs, give a longer --node-timeout.",
        _ => &*failed.mend,
    };
    unknown("check", "memory, clock and rights", &failed.why, mend)
}

/// The remedy if a server refuses a command that needs this right. `why` is the server's error.
fn refused(why: &str, right: &str) -> String {
    match mend(why) {
        _ if why.starts_with("NOPERM") => format!("Give the user {right}."),
        mend => mend.unwrap_or(AGAIN).to_owned(),
    }
}

/// The finding that a check was not possible.
fn unknown(id: &'static str, what: &str, why: &str, mend: &str) -> Finding {
    Finding::new(Level::Unknown, id, format!("Its {what} could not be checked: {}.", why.trim_end_matches('.')))
        .why("The doctor would not notice a fault there.")
        .mend(mend)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_is_to_be_given_only_where_one_is_missing() {
        for (why, mend) in [
            ("NOPERM this user has no permissions to run the 'info' command", "Give the user +info."),
            ("BUSY Redis is busy running a script.", "End the script that blocks the server: run SCRIPT KILL there."),
            ("the reply is no text", AGAIN),
        ] {
            assert_eq!(refused(why, "+info"), mend);
        }
        assert_eq!(unknown("a", "clock", "BUSY x.", "").what, "Its clock could not be checked: BUSY x.");
    }
}
