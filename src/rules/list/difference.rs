//! What people are told of two lists that are not the same.

use std::sync::Arc;
use std::time::Duration;

use super::List;

/// Says that another list is in force on a node: both lists, the difference in brackets, and what to
/// do.
#[must_use]
pub fn difference(mine: &List, node: &str, says: &str) -> String {
    let Some(theirs) = List::parse(says) else {
        return format!(
            "another list is in force on {node}: {says:?}, which this version cannot read; this client's is {}; stop \
             the clients that have the wrong list",
            described(mine, mine)
        );
    };
    let mend = match theirs.name == mine.name {
        true => {
            let later = length(theirs.lasts().max(mine.lasts()));
            format!("stop the clients that have the wrong list: the others go on {later} later at the latest")
        }
        false => "the names differ, so give one of the lists other servers".to_owned(),
    };
    let (theirs, mine) = (described(&theirs, mine), described(mine, &theirs));
    format!("another list is in force on {node}: theirs is {theirs}; this client's is {mine}; {mend}")
}

/// A list for people. What `other` does not have like that is in brackets.
fn described(list: &List, other: &List) -> String {
    let marked = |text: String, same: bool| if same { text } else { format!("[{text}]") };
    let node = |node: &Arc<str>| marked(node.escape_debug().to_string(), other.nodes.contains(node));
    let nodes: Vec<_> = list.nodes.iter().map(node).collect();
    let name = marked(format!("{:?}", list.name), list.name == other.name);
    let max_ttl = marked(format!("max_ttl {}", length(list.max_ttl)), list.max_ttl == other.max_ttl);
    let protocol = match list.protocol == other.protocol {
        true => String::new(),
        false => format!(" and [protocol {}]", list.protocol),
    };
    format!("{name} of {} with {max_ttl}{protocol}", nodes.join(", "))
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
    fn difference_of_two_lists_is_in_brackets() {
        let (mine, theirs) = (list(&["a:1", "b:1"]), list(&["a:1", "x:1"]));
        let told = difference(&mine, "a:1", theirs.says());
        assert_eq!(
            told,
            "another list is in force on a:1: theirs is \"default\" of a:1, [x:1] with max_ttl 60 s; this client's is \
             \"default\" of a:1, [b:1] with max_ttl 60 s; stop the clients that have the wrong list: the others go on \
             75 s later at the latest"
        );
        let told = difference(&mine, "a:1", "team 1500 3 a:1 b:1");
        assert!(told.contains("theirs is [\"team\"] of a:1, b:1 with [max_ttl 1500 ms] and [protocol 3];"), "{told}");
        assert!(told.contains("is [\"default\"] of a:1, b:1 with [max_ttl 60 s] and [protocol 4];"), "{told}");
        assert!(told.ends_with("give one of the lists other servers"), "{told}");
    }

    #[test]
    fn list_that_cannot_be_read_is_shown_as_it_is() {
        let told = difference(&list(&["a:1"]), "a:1", "what\n");
        assert!(told.contains(r#"is in force on a:1: "what\n", which"#) && told.contains("stop"), "{told}");
    }
}
