//! What the rosters of several nodes come to.

use std::collections::BTreeSet;

use super::Roster;
use crate::rules::node_set::NodeSet;

/// Whether nodes have one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Agreement {
    /// No roster has a server: no client is enrolled.
    Nobody,
    /// All have the same.
    One,
    /// Most have the same, and these differ.
    But(NodeSet),
    /// No list is that of most nodes.
    Several,
}

/// What these rosters come to, of the nodes that told theirs.
#[must_use]
pub fn agreement(rosters: &[Option<&Roster>]) -> Agreement {
    let told: Vec<_> = rosters.iter().enumerate().filter_map(|(node, roster)| Some((node, (*roster)?))).collect();
    let common = whole(&told).or_else(|| most(&told));
    let differs =
        |list: &List<'_>| told.iter().filter(|(_, it)| List::of(it) != *list).map(|(node, _)| *node).collect();
    match common {
        _ if told.iter().all(|(_, it)| it.servers.is_empty()) => Agreement::Nobody,
        None => Agreement::Several,
        Some(list) => {
            Some(differs(&list)).filter(|these: &NodeSet| !these.is_empty()).map_or(Agreement::One, Agreement::But)
        }
    }
}

/// What one roster has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct List<'a> {
    nodes: u32,
    protocol: u32,
    servers: BTreeSet<&'a str>,
}

impl<'a> List<'a> {
    fn of(roster: &'a Roster) -> Self {
        let servers = roster.servers.iter().map(String::as_str).collect();
        Self { nodes: roster.nodes, protocol: roster.protocol, servers }
    }
}

/// All of them together, where that is one list.
fn whole<'a>(told: &[(usize, &'a Roster)]) -> Option<List<'a>> {
    let mut lists = told.iter().filter(|(_, it)| !it.servers.is_empty()).map(|(_, it)| List::of(it));
    let mut all = lists.next()?;
    for list in lists {
        if (list.nodes, list.protocol) != (all.nodes, all.protocol) {
            return None;
        }
        all.servers.extend(list.servers);
    }
    (all.servers.len() <= all.nodes as usize).then_some(all)
}

/// What more than half of them have.
fn most<'a>(told: &[(usize, &'a Roster)]) -> Option<List<'a>> {
    let lists: Vec<_> = told.iter().map(|(_, it)| List::of(it)).collect();
    let many = |list: &&List<'_>| lists.iter().filter(|other| other == list).count() * 2 > lists.len();
    lists.iter().find(|list| many(list) && !list.servers.is_empty()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster(text: &str) -> Option<Roster> {
        let servers: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        let (nodes, protocol) = if servers.is_empty() { (0, 0) } else { (3, 2) };
        (text != "?").then(|| Roster { nodes, protocol, servers, ..Roster::default() })
    }

    fn of(texts: &[&str]) -> Agreement {
        let rosters: Vec<_> = texts.iter().map(|text| roster(text)).collect();
        agreement(&rosters.iter().map(Option::as_ref).collect::<Vec<_>>())
    }

    fn but(nodes: &[usize]) -> Agreement {
        Agreement::But(nodes.iter().copied().collect())
    }

    #[test]
    fn one_list_several_or_none() {
        assert_eq!(of(&["a b c", "a b c", "a b c"]), Agreement::One);
        assert_eq!(of(&["a b c", "?", "a b c"]), Agreement::One, "who tells nothing does not differ");
        assert_eq!(of(&["", "", "?"]), Agreement::Nobody);
        assert_eq!(of(&[]), Agreement::Nobody);
        assert_eq!(of(&["a b c", "c d e", "e f g"]), Agreement::Several);
        assert_eq!(of(&["a b c", "c d e"]), Agreement::Several);
    }

    #[test]
    fn who_differs_is_named() {
        assert_eq!(of(&["a b c", "", "a b c"]), but(&[1]));
        assert_eq!(of(&["a b c", "a b", "a b c"]), but(&[1]), "it is one list, and this one lacks a server");
        assert_eq!(of(&["a b c", "a b c", "c d e"]), but(&[2]));
        assert_eq!(of(&["a b c", "", ""]), but(&[1, 2]));
    }

    #[test]
    fn another_length_or_protocol_is_another_list() {
        let five = Roster { nodes: 5, ..roster("a b c").unwrap() };
        let next = Roster { protocol: 3, ..roster("a b c").unwrap() };
        let ours = roster("a b c").unwrap();
        for other in [five, next] {
            assert_eq!(agreement(&[Some(&ours), Some(&other)]), Agreement::Several);
            assert_eq!(agreement(&[Some(&ours), Some(&ours), Some(&other)]), but(&[2]));
        }
    }
}
