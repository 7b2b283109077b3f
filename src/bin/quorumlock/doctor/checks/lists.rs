//! Checks which list of nodes clients have, and whether each node's name leads to one server.

use quorumlock::{NodeState, NodeStatus};

use super::super::finding::{Finding, Level};
use super::super::seen::{Node, Seen};
use crate::lists::{Lists, Whose};
use crate::raw_connection::login::sentence;
use crate::status::is_unused;

pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let lists = Lists::of_nodes(&seen.list, &seen.nodes);
    let all_unused = seen.each().all(|node| is_unused(node.status) && node.forgot.is_none());
    let each = seen.each().filter_map(|node| Some(of_node(&lists, node, all_unused)?.of(node.label())));
    each.chain(agreed(&lists, seen)).collect()
}

fn of_node(lists: &Lists<'_>, node: Node<'_>, all_unused: bool) -> Option<Finding> {
    let other = lists.at(node.index).filter(|(_, whose)| *whose != Whose::Own);
    match (&node.status.state, other) {
        (NodeState::Twins { why }, _) => Some(two_servers(why)),
        // `state.rs` reports this state.
        (NodeState::Unclear, _) => None,
        _ if lists.servers(node.index).len() > 1 => Some(two_servers("clients meet two servers behind its name")),
        (_, Some((_, whose))) => Some(another(&lists.conflict(whose).unwrap_or_default(), whose)),
        // If a rival list (with this list's name) is in force on one node, clients of this list
        // count no node's votes. If the node with the rival list is known, only that node gets a
        // finding.
        (NodeState::OtherList { why }, None) if lists.with(Whose::Rival).is_empty() => {
            Some(another(&format!("another list is in force: {why}"), Whose::Rival))
        }
        // `state.rs` reports a node that forgot locks.
        _ if is_unused(node.status) && node.forgot.is_some() => None,
        _ if is_unused(node.status) && !node.is_limited() => Some(unused(all_unused)),
        _ => None,
    }
}

fn two_servers(why: &str) -> Finding {
    Finding::new(Level::Warning, "two-servers", format!("It has no vote: {why}."))
        .why("Two servers behind one name may both grant a lock, so no vote of this node counts.")
        .mend("Wait for max_ttl, then stop the wrong server, or correct the address by which some clients reach it.")
}

fn another(conflict: &str, whose: Whose) -> Finding {
    let finding = Finding::new(Level::Warning, "other-list", sentence(conflict));
    match whose {
        Whose::Foreign => finding
            .why("The node has no vote for clients of this list. The lists have different names.")
            .mend("`quorumlock members` shows both lists."),
        _ => finding
            .why("Both lists have the same name, so one is wrong. A client whose list is not in force gets no lock.")
            .mend("Compare both lists in `quorumlock members` with your configuration: this shell's list may be the wrong one. Then stop the clients of the wrong list, which `quorumlock clients` shows."),
    }
}

/// The finding about a server without a record. `all` is true if all servers answer, none has a
/// record, and none shows that it forgot locks. `quorumlock init` helps only in this case.
fn unused(all: bool) -> Finding {
    Finding::new(
        Level::Hint,
        "unused",
        "It has no record: no client has used it since it started empty or lost its data.",
    )
    .why(
        "It votes max_ttl after its first client has used it. But it votes at once if it has run for longer than \
             1.25 max_ttl, and was never flushed, never evicted keys and never was a replica.",
    )
    .mend(match all {
        true => "If all servers are new and never held a lock, run `quorumlock init`.",
        false => "Start a client. `quorumlock init` does nothing here: it needs a new server on every node.",
    })
}

/// The finding if no other list is in force on a node that answers. If another list is in force, or
/// too few nodes answer, the nodes' own findings say so.
fn agreed(lists: &Lists<'_>, seen: &Seen) -> Option<Finding> {
    let is_told = |node: &&NodeStatus| node.run.is_some() && node.unreadable.is_none();
    let (told, all) = (seen.nodes.iter().filter(is_told).count(), seen.nodes.len());
    let own = lists.with(Whose::Own).len();
    if told <= all / 2 && own == 0 {
        return None;
    }
    let others = lists.with(Whose::Rival).len() + lists.with(Whose::Foreign).len();
    (others == 0).then(|| match own {
        0 => Finding::fine("members", "No list is in force: no client is connected, or the nodes forgot."),
        own => Finding::fine("members", format!("Clients have this list: it is in force on {own} of {all} nodes.")),
    })
}
