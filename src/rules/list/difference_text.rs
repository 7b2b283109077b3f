//! Says in words how two lists differ. The library and the command both use this file.

use std::time::Duration;

use super::List;
use crate::words::{counted, exact, left};

/// Of the nodes that one of the lists lacks, the text names at most this many.
const NAMED: usize = 3;

/// One line that says how the list in force on a node differs from the client's list, and what to
/// do. `says` is the text of the list in force. `ends` is for how much longer the list stays in
/// force if no client extends it; `None` if this time is not known.
#[must_use]
pub fn difference(ours: &List, says: &str, ends: Option<Duration>) -> String {
    let Some(theirs) = List::parse(says) else {
        return format!(
            "it is {says:?}, which this version cannot read; one list is wrong, perhaps ours: stop its clients"
        );
    };
    if theirs.name() != ours.name() {
        let (ours, theirs) = (ours.name(), theirs.name());
        return format!("ours is {ours:?}, theirs is {theirs:?}; give one of the lists other servers");
    }
    let differs: Vec<_> = [nodes(ours, &theirs), max_ttl(ours, &theirs), protocol(ours, &theirs)].concat();
    let differs = if differs.is_empty() { vec![format!("theirs is {says:?}")] } else { differs };
    let later = match ends {
        Some(ends) => format!("theirs ends in {}, if none of its clients still runs", left(ends)),
        None => format!("then the others continue within {}", left(theirs.lasts().max(ours.lasts()))),
    };
    format!("{}; one list is wrong, perhaps ours: stop its clients ({later})", differs.join("; "))
}

fn nodes(ours: &List, theirs: &List) -> Vec<String> {
    let differs = match (lacking(theirs, ours), lacking(ours, theirs)) {
        (more, less) if more.is_empty() && less.is_empty() => return Vec::new(),
        (more, less) if less.is_empty() => format!("theirs also has {more}"),
        (more, less) if more.is_empty() => format!("theirs lacks {less}"),
        (more, less) => format!("theirs has {more} in place of {less}"),
    };
    let count = |list: &List| counted(list.nodes().len(), "node");
    match (count(ours), count(theirs)) {
        (ours, theirs) if ours == theirs => vec![format!("ours and theirs have {ours}: {differs}")],
        (ours, theirs) => vec![format!("ours has {ours}, theirs has {theirs}: {differs}")],
    }
}

fn max_ttl(ours: &List, theirs: &List) -> Vec<String> {
    let (ours, theirs) = (ours.max_ttl(), theirs.max_ttl());
    let differs = format!("ours has max_ttl {}, theirs has {}", exact(ours), exact(theirs));
    if ours == theirs { Vec::new() } else { vec![differs] }
}

fn protocol(ours: &List, theirs: &List) -> Vec<String> {
    let (ours, theirs) = (ours.protocol(), theirs.protocol());
    let differs = format!("ours has protocol {ours}, theirs has {theirs}");
    if ours == theirs { Vec::new() } else { vec![differs] }
}

/// The first nodes that `list` has and `other` does not have, for people.
fn lacking(list: &List, other: &List) -> String {
    let nodes: Vec<_> = list.nodes().iter().filter(|node| !other.nodes().contains(node)).collect();
    let named: Vec<_> = nodes.iter().take(NAMED).map(|node| node.escape_debug().to_string()).collect();
    match nodes.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(nodes: &[&str]) -> List {
        List::new("default", nodes, Duration::from_secs(60))
    }

    #[test]
    fn difference_names_each_part_in_which_the_lists_differ() {
        let ours = list(&["a:1", "b:1"]);
        let stop = "; one list is wrong, perhaps ours: stop its clients (then the others continue within 75 s)";
        for (says, differs) in [
            ("default 60000 4 a:1 x:1", "ours and theirs have 2 nodes: theirs has x:1 in place of b:1"),
            ("default 60000 4 a:1 b:1 x:1 y:1", "ours has 2 nodes, theirs has 4 nodes: theirs also has x:1, y:1"),
            ("default 60000 4 a:1", "ours has 2 nodes, theirs has 1 node: theirs lacks b:1"),
            ("default 60000 3 a:1 b:1", "ours has protocol 4, theirs has 3"),
            (
                "default 1500 4 a:1",
                "ours has 2 nodes, theirs has 1 node: theirs lacks b:1; ours has max_ttl 60 s, theirs has 1.5 s",
            ),
        ] {
            assert_eq!(difference(&ours, says, None), format!("{differs}{stop}"));
        }
    }

    #[test]
    fn difference_of_lists_with_other_names_is_their_names() {
        assert_eq!(
            difference(&list(&["a:1"]), "team 1500 3 a:1 b:1", None),
            "ours is \"default\", theirs is \"team\"; give one of the lists other servers"
        );
    }

    #[test]
    fn difference_in_many_nodes_names_the_first_three() {
        let told = difference(&list(&["a:1"]), "default 60000 4 a:1 b:1 c:1 d:1 e:1 f:1", None);
        assert!(told.contains(": theirs also has b:1, c:1, d:1 and 2 more; one list"), "{told}");
    }

    #[test]
    fn list_that_cannot_be_read_is_shown_as_it_is() {
        let told = difference(&list(&["a:1"]), "what\n", None);
        assert!(told.starts_with(r#"it is "what\n", which"#) && told.contains("stop"), "{told}");
    }
}
