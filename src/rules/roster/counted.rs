//! Whose votes a client would count that comes now.

use super::{Answer, Common, Roster, Server, Verdict, conflict, decide, of};
use crate::rules::node_set::NodeSet;
use crate::rules::tally::Size;

/// A node of a list, as far as whoever looks at it knows.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The node's address, for people.
    pub label: &'a str,
    /// Its server's run id, where it can be reached.
    pub run: Option<&'a str>,
    /// Its roster, where it told it.
    pub roster: Option<&'a Roster>,
}

/// What the nodes of a list count for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counted {
    /// Those whose votes count, or will once they are up and their quarantine has ended.
    pub nodes: NodeSet,
    /// Why those do not that can be reached and were not retired, for people.
    pub why: Option<String>,
}

/// Whose votes a client of this build would count that comes now with this list, as rosters have
/// it. None, where those that it might are no quorum.
#[must_use]
pub fn counted<'a>(list: &[Seen<'a>]) -> Counted {
    let common = Common::of(Size::of(u32::try_from(list.len()).unwrap_or(u32::MAX)));
    let servers: Vec<_> = list.iter().map(|seen| seen.run.map(Server::parse)).collect();
    let retired = |seen: &Seen<'_>| seen.roster.is_some_and(|roster| roster.retired.is_some());
    let reached: NodeSet = (0..list.len()).filter(|&node| servers[node].is_some() && !retired(&list[node])).collect();
    let all = of(&servers, reached);
    let answer = |(node, seen): (usize, &Seen<'a>)| {
        let roster = seen.roster?;
        let takes = roster.takes(common, &all);
        Some((node, if takes { Answer::Listed(roster) } else { Answer::Unlisted(roster) }))
    };
    let answers: Vec<_> = list.iter().enumerate().filter_map(answer).collect();
    let why = |node: Option<usize>| {
        let (seen, roster) = node.and_then(|node| Some((&list[node], list[node].roster?)))?;
        Some(conflict(common, &servers, seen.label, roster, roster.binds()))
    };
    let refusing = || answers.iter().find(|(_, answer)| matches!(answer, Answer::Unlisted(_))).map(|(node, _)| *node);
    match decide(common, &servers, reached, &answers) {
        Verdict::Listed(_) => Counted { nodes: reached, why: None },
        Verdict::Fit(nodes) => Counted { nodes, why: why(refusing()) },
        Verdict::Nobody(node) => Counted { nodes: NodeSet::default(), why: why(Some(node)) },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rules::roster::PROTOCOL;

    /// What a roster has: `?` where it was not told, `!` in front where the node was retired.
    fn roster(text: &str) -> Option<Roster> {
        let servers: Vec<_> = text.trim_start_matches('!').split_whitespace().map(str::to_owned).collect();
        let (nodes, protocol) = if servers.is_empty() { (0, 0) } else { (3, PROTOCOL) };
        let retired = text.starts_with('!').then_some(Duration::ZERO);
        (text != "?").then(|| Roster { nodes, protocol, servers, retired, ..Roster::default() })
    }

    /// How many count of the nodes with these servers (`-` where one cannot be reached) and
    /// rosters, and a part of why not more.
    fn of_list(list: &[(&str, &str)]) -> (Vec<usize>, String) {
        let rosters: Vec<_> = list.iter().map(|(_, text)| roster(text)).collect();
        let seen = |(&(run, _), roster)| Seen { label: run, run: (run != "-").then_some(run), roster };
        let list: Vec<_> = list.iter().zip(rosters.iter().map(Option::as_ref)).map(seen).collect();
        let counted = counted(&list);
        (counted.nodes.iter().collect(), counted.why.unwrap_or_default())
    }

    #[test]
    fn all_count_where_rosters_have_them_or_nobody() {
        assert_eq!(of_list(&[("a", ""), ("b", ""), ("c", "")]), (vec![0, 1, 2], String::new()));
        assert_eq!(of_list(&[("a", "a b c"), ("b", "a b c"), ("-", "?")]), (vec![0, 1], String::new()));
        assert_eq!(of_list(&[("a", "a b c"), ("b", "?"), ("c", "a b c")]).0, [0, 1, 2]);
    }

    #[test]
    fn servers_that_restarted_unseen_count_once_the_entries_of_those_before_have_gone() {
        let (counted, why) = of_list(&[("a", "a b c"), ("b", "a b c"), ("new", "")]);
        assert!(counted == [0, 1] && why.contains("c.."), "{why}");
        let (counted, why) = of_list(&[("x", ""), ("y", ""), ("c", "a b c")]);
        assert!(counted.is_empty() && why.contains("a.., b.."), "{why}");
        let (counted, why) = of_list(&[("a", "a b c"), ("new", ""), ("-", "?")]);
        assert!(counted.is_empty() && !why.is_empty(), "{why}");
    }

    #[test]
    fn another_list_counts_for_nothing() {
        assert_eq!(of_list(&[("a", "a b c"), ("d", ""), ("e", "")]).0, [0; 0]);
        let five = [("a", "a b c"), ("b", "a b c"), ("c", "a b c"), ("d", ""), ("e", "")];
        let (counted, why) = of_list(&five);
        assert!(counted.is_empty() && why.contains("3 nodes") && why.contains("this one 5"), "{why}");
    }

    #[test]
    fn a_node_that_was_retired_does_not_count_and_its_roster_does() {
        assert_eq!(of_list(&[("a", "a b c"), ("b", "a b c"), ("c", "!a b c")]), (vec![0, 1], String::new()));
        assert_eq!(of_list(&[("a", "!a x y"), ("b", ""), ("c", "")]).0, [0; 0]);
    }
}
