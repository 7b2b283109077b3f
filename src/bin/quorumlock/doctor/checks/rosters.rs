//! What the nodes' records say of the clients: their list, protocol and max_ttl.

use quorumlock::{Agreement, Counted, NodeStatus, Roster};

use super::super::finding::{Finding, Level};
use super::super::seen::{Node, Seen};
use crate::direct::mends::mend;
use crate::duration::{exact, left};

pub(super) fn members(seen: &Seen) -> Vec<Finding> {
    let counted = Counted::of(&seen.nodes);
    let reached = seen.each().filter(|node| node.status.run.is_some());
    let kept = reached.filter_map(|node| {
        let why = counted.why.as_deref().filter(|_| !counted.nodes.contains(node.index));
        Some(uncounted(node, why)?.of(node.label()))
    });
    let agreed = (counted.why.is_none()).then(|| agreed(&seen.nodes));
    kept.chain(agreed).chain(longer(seen)).collect()
}

/// Why a server that was reached has no vote for a client with this list.
fn uncounted(node: Node<'_>, why: Option<&str>) -> Option<Finding> {
    match (node.status.latest(), why) {
        (Some(Roster { retired: Some(age), .. }), _) => Some(
            Finding::new(Level::Warning, "retired", format!("It was retired {} ago.", left(*age)))
                .why("No client counts its vote.")
                .mend(format!("Take it out of the list, or run `quorumlock members reset {}`.", node.label())),
        ),
        // The missing right is a finding of its own.
        (None, _) if node.is_limited() => None,
        (None, _) => Some(
            Finding::new(Level::Warning, "roster", "It does not tell its roster.")
                .why("Nobody knows whether clients count its vote.")
                .mend(
                    node.unasked().and_then(mend).unwrap_or("Give the user the keys, and look who else wrote there."),
                ),
        ),
        (_, Some(why)) => Some(strangers(why)),
        (_, None) => None,
    }
}

fn strangers(why: &str) -> Finding {
    let id = if why.contains("of protocol") { "protocol" } else { "other-list" };
    Finding::new(Level::Warning, id, format!("Clients with this list do not count its vote: {why}."))
        .why("Clients whose lists or protocols differ must never vote together.")
        .mend("Give all clients one list and one version; docs/members.md says how.")
}

fn agreed(nodes: &[NodeStatus]) -> Finding {
    let told = nodes.iter().filter_map(NodeStatus::latest).count();
    let rosters: Vec<_> = nodes.iter().filter_map(NodeStatus::latest).filter(|roster| roster.nodes > 0).collect();
    let longest = rosters.iter().map(|roster| roster.max_ttl).max().unwrap_or_default();
    match (Agreement::of(nodes), rosters.first()) {
        // On those that did not tell, clients may be enrolled.
        (_, None) if told <= nodes.len() / 2 => untold(told, nodes.len()),
        (_, None) | (Agreement::Nobody, _) => Finding::fine("members", "No client is enrolled."),
        (Agreement::One, Some(roster)) => Finding::fine("members", clients(roster, longest)),
        (_, Some(roster)) => Finding::new(
            Level::Hint,
            "members",
            format!("Some rosters differ; the first: {}", clients(roster, longest)),
        )
        .why("Clients find differing lists out, and those that came later acquire nothing.")
        .mend("Look at `quorumlock members show`, unless a node has just been replaced."),
    }
}

fn untold(told: usize, all: usize) -> Finding {
    let what = format!("Nobody knows which clients use the nodes: {told} of {all} nodes told it.");
    Finding::new(Level::Unknown, "members", what)
        .why("Clients with other lists or other settings stay unseen.")
        .mend("Mend what keeps the nodes from answering, as the other findings say, and run the doctor again.")
}

fn clients(roster: &Roster, longest: std::time::Duration) -> String {
    let Roster { nodes, protocol, .. } = roster;
    format!("Clients have one list of {nodes} nodes, protocol {protocol}, and max_ttl {}.", exact(longest))
}

/// Whether clients have a longer `max_ttl` than this one.
fn longer(seen: &Seen) -> Option<Finding> {
    let what = seen.verdict().longer()?;
    Some(
        Finding::new(Level::Warning, "max-ttl", format!("The {what}."))
            .why("A restarted node must not vote for the longest ttl of any client.")
            .mend("Give all clients one max_ttl."),
    )
}
