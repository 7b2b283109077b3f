//! Messages about two lists that differ.

use std::time::Duration;

use super::List;

/// How another list, which is in force on a node, differs from a client's, and what to do.
#[must_use]
pub fn difference(mine: &List, says: &str) -> String {
    let Some(theirs) = List::parse(says) else {
        return format!("it is {says:?}, which this version cannot read; stop the clients that have the wrong list");
    };
    let mend = match theirs.name == mine.name {
        true => {
            let later = length(theirs.lasts().max(mine.lasts()));
            format!("stop the clients that have the wrong list: the others go on {later} later at the latest")
        }
        false => "the names differ, so give one of the lists other servers".to_owned(),
    };
    let differs = match (lacking(&theirs, mine), lacking(mine, &theirs)) {
        (more, less) if more.is_empty() && less.is_empty() => String::new(),
        (more, less) if less.is_empty() => format!(": theirs also has {more}"),
        (more, less) if more.is_empty() => format!(": theirs lacks {less}"),
        (more, less) => format!(": theirs has {more} in place of {less}"),
    };
    let (theirs, mine) = (described(&theirs, mine), described(mine, &theirs));
    format!("theirs is {theirs}, and this client's is {mine}{differs}; {mend}")
}

/// Describes a list in a message: its name, number of nodes and max_ttl, but no node names.
fn described(list: &List, other: &List) -> String {
    let protocol = match list.protocol == other.protocol {
        true => String::new(),
        false => format!(" and protocol {}", list.protocol),
    };
    let (nodes, max_ttl) = (list.nodes.len(), length(list.max_ttl));
    format!("{:?} of {nodes} {} with max_ttl {max_ttl}{protocol}", list.name, if nodes == 1 { "node" } else { "nodes" })
}

/// The nodes that `list` has and `other` lacks, as text for people.
fn lacking(list: &List, other: &List) -> String {
    let nodes =
        list.nodes.iter().filter(|node| !other.nodes.contains(node)).map(|node| node.escape_debug().to_string());
    nodes.collect::<Vec<_>>().join(", ")
}

fn length(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{} s", time.as_secs()),
        _ => format!("{} ms", time.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(nodes: &[&str]) -> List {
        List::new("default", nodes, Duration::from_secs(60))
    }

    #[test]
    fn both_lists_are_told_with_the_nodes_that_differ() {
        let mine = list(&["a:1", "b:1"]);
        let stop = "; stop the clients that have the wrong list: the others go on 75 s later at the latest";
        for (theirs, nodes, told) in [
            (list(&["a:1", "x:1"]), "2 nodes", "theirs has x:1 in place of b:1"),
            (list(&["a:1", "b:1", "x:1", "y:1"]), "4 nodes", "theirs also has x:1, y:1"),
            (list(&["a:1"]), "1 node", "theirs lacks b:1"),
        ] {
            let both = format!(
                "theirs is \"default\" of {nodes} with max_ttl 60 s, and this client's is \"default\" of 2 nodes"
            );
            assert_eq!(difference(&mine, theirs.says()), format!("{both} with max_ttl 60 s: {told}{stop}"));
        }
        assert_eq!(
            difference(&mine, "team 1500 3 a:1 b:1"),
            "theirs is \"team\" of 2 nodes with max_ttl 1500 ms and protocol 3, and this client's is \"default\" of 2 \
             nodes with max_ttl 60 s and protocol 4; the names differ, so give one of the lists other servers"
        );
    }

    #[test]
    fn list_that_cannot_be_read_is_shown_as_it_is() {
        let told = difference(&list(&["a:1"]), "what\n");
        assert!(told.starts_with(r#"it is "what\n", which"#) && told.contains("stop"), "{told}");
    }
}
