//! Who holds a name and who waits for it, as text.

use std::collections::BTreeSet;
use std::time::Duration;

use quorumlock::{Inspected, Inspection};
use serde_json::{Value, json};

use crate::duration::show;
use crate::output::milliseconds;

/// The most characters of a holder's note that are shown. Notes may be long.
const SAID: usize = 256;

/// The holder's note, and for how long the holder has held the name.
pub(super) fn says(inspected: &Inspected) -> Option<String> {
    let told = inspected.description()?;
    let since = show(told.since);
    Some(match &*told.says {
        "" => format!("it has been held for {since}"),
        says => format!("its holder says \"{}\", and has held it for {since}", shown(&shortened_to(says, SAID))),
    })
}

/// Adds to the JSON `object` the holder's note, the time for which the holder has held the name,
/// and the token.
pub(super) fn describe(object: &mut Value, inspected: &Inspected) {
    let told = inspected.description();
    object["says"] = json!(told.map(|told| &*told.says));
    object["held_for_ms"] = json!(told.map(|told| milliseconds(told.since)));
    object["token"] = json!(told.map(|told| told.token));
}

/// The number of waiters in the longest queue of any node. If several callers of one client wait
/// for a lock, they count as one (readers are counted one by one).
pub(crate) fn waiting(inspected: &Inspected) -> u32 {
    said(inspected).map(|said| said.waiting).max().unwrap_or(0)
}

pub(super) fn said(inspected: &Inspected) -> impl Iterator<Item = &Inspection> {
    inspected.nodes.iter().filter_map(|(_, said)| said.as_ref().ok())
}

/// The longest time for which a node still holds the name.
pub(crate) fn left(inspected: &Inspected) -> Option<Duration> {
    said(inspected).filter_map(|said| said.remaining).max()
}

/// How many waiters there are, as text; `None` if there are none.
pub(crate) fn line(inspected: &Inspected) -> Option<String> {
    let waiting = waiting(inspected);
    (waiting > 0).then(|| format!("{waiting} {} in the queue", if waiting == 1 { "waits" } else { "wait" }))
}

pub(super) fn shortened_to(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}

/// The most characters of an owner in a table.
const OWNER: usize = 18;

/// Shortens a long owner to its host, its pid and its number, as in `web-1/4711..12`. This leaves
/// out the random part between pid and number. So owners of two clients in one process may look the
/// same.
pub(crate) fn cut(holder: &str) -> String {
    cut_to(holder, OWNER)
}

/// Shortens a long owner to `most` characters: 18, or one less.
fn cut_to(holder: &str, most: usize) -> String {
    let characters: Vec<_> = holder.chars().collect();
    if characters.len() <= most {
        return holder.to_owned();
    }
    let mut parts = holder.rsplitn(4, '/');
    if let (Some(number), Some(_), Some(pid), Some(host)) = (parts.next(), parts.next(), parts.next(), parts.next()) {
        let end = format!("/{pid}..{number}");
        let room = most.saturating_sub(end.len());
        if host.chars().count() <= room {
            return format!("{host}{end}");
        } else if room > 2 {
            return format!("{}..{end}", host.chars().take(room - 2).collect::<String>());
        }
    }
    let end = &characters[characters.len() + 8 - most..];
    characters[..6].iter().chain(&['.', '.']).chain(end).collect()
}

/// The holder that one node names, for a table. `?` behind the holder means that the node does not
/// vote, and that no quorum names this holder. (This holder may be a waiter to which only this node
/// has handed the name over.)
pub(crate) fn in_cell(inspected: &Inspected, holder: &str, votes: bool) -> String {
    let is_known = votes || inspected.readers().is_some() || inspected.holder() == Some(holder);
    if is_known { cut(holder) } else { format!("{}?", cut_to(holder, OWNER - 1)) }
}

/// A name in a form that is safe on a terminal: a name may contain control characters.
pub(crate) fn shown(name: &str) -> String {
    name.escape_debug().to_string()
}

/// The end of a sentence if no quorum agrees on the holder. It lists the holders that nodes name.
pub(super) fn known(inspected: &Inspected) -> String {
    let holders: Vec<_> = named(inspected).into_iter().collect();
    let nodes = said(inspected).filter(|said| said.holder.is_some()).count();
    match (holders.join(" and "), nodes) {
        (_, 0) => String::new(),
        (holder, 1) => format!("; one node names the holder {holder}"),
        (holders, _) => format!("; nodes name the holder {holders}"),
    }
}

/// All holders that any node names.
pub(crate) fn named(inspected: &Inspected) -> BTreeSet<&str> {
    said(inspected).filter_map(|said| said.holder.as_deref()).collect()
}

/// The end of a sentence about a name that is free on a quorum. It lists the holders that other
/// nodes name. Such a holder's claim failed or has not ended yet, or its release has not reached
/// these nodes yet.
pub(super) fn left_over(inspected: &Inspected) -> String {
    let few: Vec<_> = named(inspected).into_iter().collect();
    if few.is_empty() { String::new() } else { format!(" on a quorum of nodes, and others name {}", few.join(" and ")) }
}

/// The holder as text. If readers hold the name, the text has the number of readers and one reader.
pub(super) fn with_readers(inspected: &Inspected, holder: &str) -> String {
    match inspected.readers() {
        None => holder.to_owned(),
        Some(1) => format!("1 reader, {holder}"),
        Some(readers) => format!("{readers} readers, one of which is {holder}"),
    }
}

/// Who holds a name, as a part of a sentence.
pub(crate) fn held_by(inspected: &Inspected) -> String {
    let holder = inspected.holder().map(|holder| with_readers(inspected, holder));
    match (holder, inspected.agreed()) {
        (Some(holder), _) if inspected.revoked() => {
            format!("held by {holder} for now: the lock was revoked, and is not renewed any more")
        }
        (Some(holder), _) if inspected.is_gate() => {
            format!("the gate of a semaphore, which {holder} holds while it waits for permits")
        }
        (Some(holder), _) => match says(inspected) {
            Some(says) => format!("held by {holder}: {says}"),
            None => format!("held by {holder}"),
        },
        (None, Some(_)) => format!("free{}", left_over(inspected)),
        (None, None) if !inspected.is_conclusive() => {
            format!("perhaps held: no quorum of nodes votes, so nobody can tell{}", known(inspected))
        }
        (None, None) => "no quorum of nodes names a holder, and no quorum says that the name is free".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use quorumlock::Quorum;

    use super::*;

    #[tokio::test]
    async fn holder_that_only_a_node_without_a_vote_names_is_in_doubt() {
        let mut inspected = Quorum::in_memory(3).unwrap().inspect("job").await.unwrap();
        let held = || Ok(Inspection::held("a".to_owned(), 1, None, 7));
        inspected.nodes[0].1 = held();
        assert_eq!([true, false].map(|votes| in_cell(&inspected, "a", votes)), ["a", "a?"]);
        for owner in [
            "machine-c9.internal/4711/0c9d6f0e/s12",
            "host/4194304/0c9d6f0e/123456789",
            "x\u{e4}\u{e4}x".repeat(9).as_str(),
        ] {
            let cell = in_cell(&inspected, owner, false);
            assert!(
                cell.chars().count() <= OWNER && cell.ends_with('?'),
                "a column of `watch` has no more room: {cell}"
            );
        }
        inspected.nodes[1].1 = held();
        assert_eq!([true, false].map(|votes| in_cell(&inspected, "a", votes)), ["a", "a"]);
    }

    #[test]
    fn an_owner_in_short_keeps_its_host_its_pid_and_its_number() {
        for (owner, short) in [
            ("vm/20912/0c9d6f0e-1111-4222-8333-b5c0/12", "vm/20912..12"),
            ("machine-c9.internal/4711/0c9d6f0e/s12", "machin../4711..s12"),
            ("web-1/4711/0/12", "web-1/4711/0/12"),
            ("something else that holds it", "someth..t holds it"),
            ("host/4194304/0c9d6f0e/123456789", "host/4../123456789"),
        ] {
            let cut = cut(owner);
            assert!(cut.chars().count() <= OWNER, "{cut}");
            assert_eq!(cut, short);
        }
    }
}
