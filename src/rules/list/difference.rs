//! What people are told of two lists that are not the same.

use std::time::Duration;

use super::List;

/// Says in what another list that is in force on a node differs from a client's, and what to do.
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
        (more, less) if less.is_empty() => format!("it also has {more}"),
        (more, less) if more.is_empty() => format!("it lacks {less}"),
        (more, less) => format!("it has {more} where this client's list has {less}"),
    };
    format!("{differs}; {mend}")
}

/// What a list has, for people, and the other does not have.
fn lacking(list: &List, other: &List) -> String {
    let name = (list.name != other.name).then(|| format!("the name {:?}", list.name));
    let max_ttl = (list.max_ttl != other.max_ttl).then(|| format!("max_ttl {}", length(list.max_ttl)));
    let protocol = (list.protocol != other.protocol).then(|| format!("protocol {}", list.protocol));
    let nodes =
        list.nodes.iter().filter(|node| !other.nodes.contains(node)).map(|node| node.escape_debug().to_string());
    name.into_iter().chain(nodes).chain(max_ttl).chain(protocol).collect::<Vec<_>>().join(", ")
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
    fn what_differs_in_two_lists_is_told_and_nothing_else() {
        let mine = list(&["a:1", "b:1"]);
        let stop = "; stop the clients that have the wrong list: the others go on 75 s later at the latest";
        for (theirs, told) in [
            (list(&["a:1", "x:1"]), "it has x:1 where this client's list has b:1"),
            (list(&["a:1", "b:1", "x:1", "y:1"]), "it also has x:1, y:1"),
            (list(&["a:1"]), "it lacks b:1"),
        ] {
            assert_eq!(difference(&mine, theirs.says()), format!("{told}{stop}"));
        }
        assert_eq!(
            difference(&mine, "team 1500 3 a:1 b:1"),
            "it has the name \"team\", max_ttl 1500 ms, protocol 3 where this client's list has the name \"default\", \
             max_ttl 60 s, protocol 4; the names differ, so give one of the lists other servers"
        );
    }

    #[test]
    fn list_that_cannot_be_read_is_shown_as_it_is() {
        let told = difference(&list(&["a:1"]), "what\n");
        assert!(told.starts_with(r#"it is "what\n", which"#) && told.contains("stop"), "{told}");
    }
}
