//! `quorumlock status --all`: every name that is held.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use quorumlock::{HeldNames, Inspected, Quorum};
use serde_json::{Value, json};

use super::holders::{cut, describe, left, named, shortened_to, shown, waiting};
use super::{a_quorum_votes, own_list};
use crate::duration::show;
use crate::failure::{Outcome, UNAVAILABLE};
use crate::lists::Lists;
use crate::output::{self, dash, milliseconds, red, yellow};
use crate::settings::Settings;
use crate::words::counted;

/// How often to report progress.
const PROGRESS: Duration = Duration::from_secs(2);
/// How many characters of a note fit into its column.
const NOTE: usize = 32;

/// Shows the names that are held, up to `limit` of them. Returns 69 if names may be missing: too
/// few nodes were read, or too few vote.
pub(super) async fn all(quorum: &Quorum, settings: &Settings, limit: usize, as_json: bool) -> Outcome {
    let mut names = quorum.held_names();
    let mut last = Instant::now();
    let (held, whole) = gather(&mut names, limit, |names, held| progress(&mut last, names, held)).await?;
    let (other_list, lacks) = (other_list(quorum, settings), lacks(quorum, &names));
    if as_json {
        let mut object = told(&names, &held, whole);
        object["complete"] = json!(lacks.is_none());
        object["other_list"] = json!(other_list);
        output::say(&object.to_string()).await?;
    } else {
        let lines = other_list.as_deref().map(red).into_iter().chain(lines(&names, &held, whole, lacks));
        output::say(&lines.collect::<Vec<_>>().join("\n")).await?;
    }
    quorum.shutdown(Duration::ZERO).await;
    Ok(if lacks.is_none() { ExitCode::SUCCESS } else { ExitCode::from(UNAVAILABLE) })
}

/// Why held names may be missing from the list; `None` if no name can be missing.
fn lacks(quorum: &Quorum, names: &HeldNames) -> Option<&'static str> {
    if !names.is_complete() {
        return Some("no quorum of nodes has listed its names");
    }
    // Nodes that do not vote may have forgotten names.
    (!a_quorum_votes(quorum)).then_some("no quorum of nodes votes")
}

/// A text about another list in force on a node. That list's clients may hold the names shown.
fn other_list(quorum: &Quorum, settings: &Settings) -> Option<String> {
    let nodes = quorum.nodes();
    let list = own_list(settings, &nodes);
    Lists::of_nodes(&list, &nodes).any_conflict()
}

fn progress(last: &mut Instant, names: &HeldNames, held: usize) {
    if last.elapsed() >= PROGRESS {
        *last = Instant::now();
        output::note(&format!("{} keys looked at, {} held so far", names.looked_at(), counted(held, "name")));
    }
}

/// The held names, sorted, up to `limit` of them, and whether these are all names. `each` is called
/// after each page with the number of names so far.
pub(crate) async fn gather(
    names: &mut HeldNames,
    limit: usize,
    mut each: impl FnMut(&HeldNames, usize),
) -> Result<(Vec<(String, Inspected)>, bool), quorumlock::Error> {
    let mut held = Vec::new();
    while let Some(page) = names.next().await? {
        held.extend(page);
        if held.len() > limit {
            held.truncate(limit);
            held.sort_by(|(one, _), (other, _)| one.cmp(other));
            return Ok((held, false));
        }
        each(names, held.len());
    }
    held.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok((held, true))
}

fn lines(names: &HeldNames, held: &[(String, Inspected)], whole: bool, lacks: Option<&str>) -> Vec<String> {
    let rows: Vec<_> = held.iter().map(|(name, inspected)| row(name, inspected)).collect();
    let mut lines = if rows.is_empty() {
        Vec::new()
    } else {
        output::table(&["name", "holder", "for", "left", "waiting", "note"], &rows)
    };
    let unread = names.unread();
    let unread = output::same_once(unread.iter().map(|report| (&*report.node, report.said.clone())));
    lines.extend(unread.iter().map(|(nodes, said)| yellow(&format!("not read: {nodes}: {said}"))));
    let missed = names.missed().len();
    if missed > 0 {
        lines.push(yellow(&format!("not read: holders of {}: too few nodes answered", counted(missed, "more name"))));
    }
    lines.push(match lacks {
        Some(_) => red(&found(held.len(), whole, lacks)),
        None if !whole => yellow(&found(held.len(), whole, lacks)),
        None => found(held.len(), whole, lacks),
    });
    lines
}

/// A sentence on how many names are held. `lacks` says why other names may be missing.
fn found(count: usize, whole: bool, lacks: Option<&str>) -> String {
    let are = if count == 1 { "name is" } else { "names are" };
    match (count, lacks) {
        _ if !whole => format!("more than {count} {are} held; --limit shows more"),
        (0, Some(lacks)) => format!("nobody can tell which names are held: {lacks}"),
        (_, Some(lacks)) => format!("{count} {are} held, and nobody can tell which other names are held: {lacks}"),
        (_, None) => format!("{count} {are} held"),
    }
}

/// A holder that no quorum names is shown with a question mark.
fn row(name: &str, inspected: &Inspected) -> Vec<String> {
    let of_few = || named(inspected).first().map_or_else(dash, |holder| format!("{}?", cut(holder)));
    let told = inspected.description();
    vec![
        shown(name),
        inspected.holder().map_or_else(of_few, cut),
        told.map_or_else(dash, |told| show(told.since)),
        left(inspected).map_or_else(dash, show),
        waiting(inspected).to_string(),
        told.map_or_else(dash, |told| shown(&shortened_to(&told.says, NOTE))),
    ]
}

fn told(names: &HeldNames, held: &[(String, Inspected)], whole: bool) -> Value {
    let unread: Vec<_> =
        names.unread().iter().map(|report| json!({ "node": &*report.node, "why": report.said })).collect();
    let held: Vec<_> = held.iter().map(|(name, inspected)| entry(name, inspected)).collect();
    json!({ "names": held, "whole": whole, "unread": unread, "missed": names.missed() })
}

fn entry(name: &str, inspected: &Inspected) -> Value {
    let mut object = json!({
        "name": name,
        "holder": inspected.holder(),
        "named": named(inspected),
        "revoked": inspected.revoked(),
        "fence": inspected.fence(),
        "remaining_ms": left(inspected).map(milliseconds),
        "waiting": waiting(inspected),
    });
    describe(&mut object, inspected);
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_quorum_is_reported_beside_the_count_of_names() {
        assert_eq!(found(0, true, None), "0 names are held");
        assert_eq!(found(1, true, None), "1 name is held");
        assert_eq!(found(1, false, None), "more than 1 name is held; --limit shows more");
        assert_eq!(found(0, true, Some("why")), "nobody can tell which names are held: why");
        assert_eq!(
            found(2, true, Some("why")),
            "2 names are held, and nobody can tell which other names are held: why"
        );
    }
}
