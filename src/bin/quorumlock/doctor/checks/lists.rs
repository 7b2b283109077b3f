//! Which list of nodes clients have, and which servers are behind its names.

use quorumlock::{NodeState, NodeStatus};

use super::super::finding::{Finding, Level};
use super::super::seen::{Node, Seen};
use crate::lists::{Lists, Whose, described};
use crate::status::is_unused;

pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let lists = Lists::of_nodes(&seen.list, &seen.nodes);
    let each = seen.each().filter_map(|node| Some(of_node(&lists, node)?.of(node.label())));
    each.chain(agreed(&lists, seen)).collect()
}

fn of_node(lists: &Lists<'_>, node: Node<'_>) -> Option<Finding> {
    let other = lists.at(node.index).filter(|(_, whose)| *whose != Whose::Own);
    match (&node.status.state, other) {
        (NodeState::Twins { why }, _) => Some(two_servers(why)),
        _ if lists.servers(node.index).len() > 1 => Some(two_servers("clients meet two servers behind its name")),
        (_, Some((theirs, whose))) => Some(another(&described(&theirs.says), whose)),
        // What shuts out this list at one node does so at all; it is told of that one.
        (NodeState::OtherList { why }, None) if lists.with(Whose::Rival).is_empty() => Some(another(why, Whose::Rival)),
        _ if is_unused(node.status) && !node.is_limited() => Some(unused()),
        _ => None,
    }
}

fn two_servers(why: &str) -> Finding {
    Finding::new(Level::Warning, "two-servers", format!("It has no vote: {why}."))
        .why("Two servers with one name may both grant a lock, so no vote of that name counts.")
        .mend("Stop one of the two, or correct the address that leads some clients to another server.")
}

fn another(theirs: &str, whose: Whose) -> Finding {
    let finding = Finding::new(Level::Warning, "other-list", format!("Clients of another list use it: {theirs}."));
    match whose {
        Whose::Foreign => finding
            .why("It has no vote for clients of this list. The lists have different names.")
            .mend("Give one of the lists other servers."),
        _ => finding
            .why("Both lists have one name, so one is wrong. It shuts out the right one while its clients run.")
            .mend("Stop the clients that have the wrong list, at once; docs/members.md says how to change a list."),
    }
}

fn unused() -> Finding {
    Finding::new(Level::Hint, "unused", "It has no record: no client has come since it began, or forgot.")
        .why("It votes when its first client has waited for max_ttl, or at once if it has run for a quarter longer than that, and was never \
              flushed, evicted keys or was a replica.")
        .mend("If the servers are new, say `quorumlock init`.")
}

/// What clients have in common; nothing if some have another list, which is told of each node.
fn agreed(lists: &Lists<'_>, seen: &Seen) -> Option<Finding> {
    let is_told = |node: &&NodeStatus| node.run.is_some() && node.unreadable.is_none();
    let (told, all) = (seen.nodes.iter().filter(is_told).count(), seen.nodes.len());
    let own = lists.with(Whose::Own).len();
    if told <= all / 2 && own == 0 {
        return Some(untold(told, all));
    }
    let others = lists.with(Whose::Rival).len() + lists.with(Whose::Foreign).len();
    (others == 0).then(|| match own {
        0 => Finding::fine("members", "No list is in force: no client is connected."),
        own => Finding::fine("members", format!("Clients have this list: it is in force on {own} of {all} nodes.")),
    })
}

fn untold(told: usize, all: usize) -> Finding {
    let what = format!("Nobody knows which clients use the nodes: {told} of {all} nodes told it.");
    Finding::new(Level::Unknown, "members", what)
        .why("Clients with other lists stay unseen.")
        .mend("Mend what keeps the nodes from answering, as the other findings say, and run the doctor again.")
}
