//! Compares the records that the nodes store: the lists in force, and the ids of servers.

use std::collections::BTreeSet;
use std::time::Duration;

use quorumlock::{InForce, List, Members, NodeStatus, Record, Sighting};

use crate::duration::exact;
use crate::words::{counted, harmless};

// The library and the command share this text.
#[allow(unreachable_pub, reason = "for the library")]
#[path = "../../rules/list/difference_text.rs"]
mod difference_text;

use difference_text::difference;

/// The kind of the list that is in force on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The list of nodes in this command's settings.
    Own,
    /// Another list with the same name. One of the two lists is wrong.
    Rival,
    /// A list with another name. This node belongs to other clients.
    Foreign,
}

/// The list of nodes in this command's settings, and the nodes' records.
pub(crate) struct Lists<'a> {
    own: &'a List,
    /// Each node's name, and its record.
    nodes: Vec<(&'a str, Option<&'a Record>)>,
}

impl<'a> Lists<'a> {
    /// Uses the last records of the nodes that can be reached.
    pub(crate) fn of_nodes(own: &'a List, nodes: &'a [NodeStatus]) -> Self {
        let record = |node: &'a NodeStatus| node.record.as_ref().filter(|_| node.run.is_some());
        Self { own, nodes: nodes.iter().map(|node| (&*node.name, record(node))).collect() }
    }

    pub(crate) fn of_members(own: &'a List, members: &'a Members) -> Self {
        let record = |record: &'a Result<Option<Record>, String>| record.as_ref().ok().and_then(Option::as_ref);
        Self { own, nodes: members.nodes.iter().map(|node| (&*node.name, record(&node.record))).collect() }
    }

    /// The list that is in force on a node.
    pub(crate) fn at(&self, node: usize) -> Option<(&'a InForce, Whose)> {
        let in_force = self.nodes[node].1?.in_force.as_ref()?;
        let whose = match in_force.says.split(' ').next() {
            _ if in_force.hash == *self.own.hash() => Whose::Own,
            Some(name) if name == self.own.name() => Whose::Rival,
            _ => Whose::Foreign,
        };
        Some((in_force, whose))
    }

    /// The nodes on which a list of this kind is in force.
    pub(crate) fn with(&self, whose: Whose) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&node| self.at(node).is_some_and(|(_, of)| of == whose)).collect()
    }

    /// Returns `conflict` for lists with the same name, or else for lists with another name.
    pub(crate) fn any_conflict(&self) -> Option<String> {
        self.conflict(Whose::Rival).or_else(|| self.conflict(Whose::Foreign))
    }

    /// A text about lists of this kind; `None` if there is no such list. The text names the first
    /// such node, and counts the others. It says how that node's list differs from `own`, what to
    /// do, and when the last of these lists ends.
    pub(crate) fn conflict(&self, whose: Whose) -> Option<String> {
        let at = self.with(whose);
        let (first, others) = at.split_first()?;
        let (theirs, _) = self.at(*first)?;
        let name = self.nodes[*first].0;
        let more =
            if others.is_empty() { String::new() } else { format!(" and {}", counted(others.len(), "more node")) };
        let ends = at.iter().filter_map(|node| Some(self.at(*node)?.0.left)).max();
        Some(format!("another list is in force on {name}{more}: {}", difference(self.own, &theirs.says, ends)))
    }

    /// The ids of the servers that clients of this list reached by a node's name, including the
    /// node's own id. An id counts only if its last report is clearly younger than the node's
    /// present record: an older report may be about a former server.
    pub(crate) fn servers(&self, node: usize) -> BTreeSet<&'a str> {
        let (name, own) = self.nodes[node];
        let records = self.with(Whose::Own).into_iter().filter_map(|node| self.nodes[node].1);
        // The two ages may come from hellos (clients' periodic messages) at different times. So add
        // two periods of hellos.
        let before = self.own.overlap() + self.own.every() * 2;
        let is_later = |seen: &&'a Sighting| *seen.node == *name && own.is_none_or(|own| seen.age + before < own.age);
        let met = records.flat_map(|record| &record.seen).filter(is_later).map(|seen| &*seen.id);
        met.chain(own.map(|record| &*record.id)).collect()
    }

    /// The nodes whose name leads to more than one server.
    pub(crate) fn shared_names(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&node| self.servers(node).len() > 1).collect()
    }
}

/// Describes a list for people, from its text in a record.
pub(crate) fn described(says: &str) -> String {
    let mut words = says.split(' ');
    let (Some(name), Some(ms), Some(protocol)) = (words.next(), words.next(), words.next()) else {
        return harmless(says);
    };
    let nodes: Vec<_> = words.collect();
    let max_ttl = ms.parse().map_or_else(|_| ms.to_owned(), |ms| exact(Duration::from_millis(ms)));
    let (count, nodes) = (counted(nodes.len(), "node"), nodes.join(", "));
    harmless(&format!("\"{name}\" of {count}, max_ttl {max_ttl}, protocol {protocol}: {nodes}"))
}

#[cfg(test)]
mod tests {
    use quorumlock::NodeState;

    use super::*;

    #[test]
    fn another_list_is_told_with_the_time_that_it_still_lasts() {
        let own = List::new("default", ["a:1"], Duration::from_secs(60));
        let node = |seconds| {
            let mut node = NodeStatus::new("redis://a:1".into(), NodeState::Up);
            let (left, says) = (Duration::from_secs(seconds), "default 60000 4 b:1".into());
            let in_force = Some(InForce { hash: "theirs".into(), says, left, age: Duration::ZERO });
            node.run = Some("run".to_owned());
            node.record = Some(Record {
                id: "id".into(),
                process: "run".into(),
                age: Duration::ZERO,
                high: 0,
                floor: 0,
                synced: true,
                word: None,
                in_force,
                seen: Vec::new(),
            });
            node
        };
        let nodes = [node(43), node(31)];
        let told = Lists::of_nodes(&own, &nodes).conflict(Whose::Rival).unwrap();
        let ends = "b:1 in place of a:1; one list is wrong, perhaps ours: stop its clients (theirs ends in 43 s, if none \
                    of its clients still runs)";
        assert!(told.ends_with(ends), "{told}");
    }

    #[test]
    fn lists_are_described_with_all_that_may_differ() {
        let told = described("default 60000 4 a:6379 b:6379 c:6379");
        assert_eq!(told, "\"default\" of 3 nodes, max_ttl 60 s, protocol 4: a:6379, b:6379, c:6379");
        assert_eq!(described("jobs 0 4 a:6379"), "\"jobs\" of 1 node, max_ttl 0 s, protocol 4: a:6379");
        assert_eq!(described("gar\u{1b}bled"), "gar\\u{1b}bled");
    }
}
