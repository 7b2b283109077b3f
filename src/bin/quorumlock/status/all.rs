//! `quorumlock status --all`: every name that is held.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use quorumlock::{HeldNames, Inspected, Quorum};
use serde_json::{Value, json};

use super::holders::{cut, describe, left, named, shortened_to, shown, waiting};
use crate::duration::show;
use crate::failure::{Outcome, UNAVAILABLE};
use crate::output::{self, dash, milliseconds, yellow};

/// How often it is told how far the nodes have come.
const PROGRESS: Duration = Duration::from_secs(2);
/// How much of a note fits into its column.
const NOTE: usize = 32;

/// Shows the names that are held, up to `limit` of them. 69 where so many nodes cannot be read that
/// some may be missing.
pub(super) async fn all(quorum: &Quorum, limit: usize, as_json: bool) -> Outcome {
    let mut names = quorum.held_names();
    let mut last = Instant::now();
    let (held, whole) = gather(&mut names, limit, |names, held| progress(&mut last, names, held)).await?;
    if as_json {
        output::say(&told(&names, &held, whole).to_string()).await?;
    } else {
        output::say(&lines(&names, &held, whole).join("\n")).await?;
    }
    quorum.shutdown(Duration::ZERO).await;
    Ok(if names.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(UNAVAILABLE) })
}

/// Tells now and then how far it has come.
fn progress(last: &mut Instant, names: &HeldNames, held: usize) {
    if last.elapsed() >= PROGRESS {
        *last = Instant::now();
        output::note(&format!("{} keys looked at, {held} names held so far", names.looked_at()));
    }
}

/// What was found, in the order of the names, and whether that is all. `each` is called after each
/// page with the number of names so far.
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

fn lines(names: &HeldNames, held: &[(String, Inspected)], whole: bool) -> Vec<String> {
    let rows: Vec<_> = held.iter().map(|(name, inspected)| row(name, inspected)).collect();
    let mut lines = if rows.is_empty() {
        Vec::new()
    } else {
        output::table(&["name", "holder", "for", "left", "waiting", "note"], &rows)
    };
    let count = held.len();
    lines.push(match (count, whole) {
        (_, false) => yellow(&format!("more than {count} names are held; --limit shows more")),
        (1, true) => "1 name is held".to_owned(),
        (count, true) => format!("{count} names are held"),
    });
    lines.extend(names.unread().iter().map(|report| yellow(&format!("not read: {}: {}", report.node, report.said))));
    let missed = names.missed().len();
    if missed > 0 {
        lines.push(yellow(&format!("not read: whether {missed} more are held: too few nodes answered")));
    }
    if !names.is_complete() {
        lines.push(yellow("warning: so much was not read that names may be missing"));
    }
    lines
}

/// A holder that no quorum names has a question mark.
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
    json!({ "names": held, "whole": whole, "complete": names.is_complete(), "unread": unread, "missed": names.missed() })
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
