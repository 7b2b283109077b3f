//! What people are told of rosters.

use std::time::Duration;

use super::{PROTOCOL, Roster, Server};
use crate::quorum::tally::Size;

/// Why a server's votes do not count, for people. `mine` are the servers of this client's list.
#[must_use]
pub fn conflict(size: Size, mine: &[Option<Server>], node: &str, roster: &Roster, lasts: Duration) -> String {
    if roster.vouches(size, mine) {
        return replaced(node, roster, mine, lasts);
    }
    let others = unknown(roster, mine);
    let theirs = if roster.protocol != PROTOCOL && roster.nodes > 0 {
        format!("another protocol ({}, here {PROTOCOL})", roster.protocol)
    } else {
        let (known, many) = (others.join(", "), others.len());
        let not = if many > 0 { format!(", {many} of them not in this client's ({known})") } else { String::new() };
        format!("another list: theirs has {} nodes{not}, this one {}", roster.nodes, size.nodes())
    };
    format!(
        "{node} is used by clients of {theirs}; give all the same list, or stop the others and wait {lasts:.0?} after the \
         last has stopped (also where most servers were replaced while no client ran)"
    )
}

/// A quorum of the list is in the roster, and the rest of its room is taken.
fn replaced(node: &str, roster: &Roster, mine: &[Option<Server>], lasts: Duration) -> String {
    let before = unknown(roster, mine).join(", ");
    format!(
        "this server restarted or was replaced while no client of this list ran, or others use another list: the roster of \
         {node} has {before} in its place; nothing needs to be done, its votes count {lasts:.0?} after the last client has \
         stopped that was running before, and the others' count now"
    )
}

/// The runs of a roster that this client does not know.
fn unknown(roster: &Roster, mine: &[Option<Server>]) -> Vec<String> {
    let known = |run: &String| mine.iter().flatten().any(|mine| mine.run == *run || mine.before.contains(run));
    roster.servers.iter().filter(|run| !known(run)).map(|run| short(run)).collect()
}

/// Enough of a run id to find the server by its `INFO`.
fn short(run: &str) -> String {
    run.chars().take(8).chain("..".chars()).collect()
}
