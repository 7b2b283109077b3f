//! What people are told of rosters.

use std::time::Duration;

use super::{Common, Roster, Server};

/// Why a server's votes do not count, for people. `mine` are the servers of this client's list.
#[must_use]
pub fn conflict(common: Common, mine: &[Option<Server>], node: &str, roster: &Roster, lasts: Duration) -> String {
    if roster.vouches(common, mine) {
        return replaced(node, roster, mine, lasts);
    }
    if roster.protocol != common.protocol && roster.nodes > 0 {
        let (theirs, ours) = (roster.protocol, common.protocol);
        return format!(
            "{node} is used by clients of protocol {theirs}, and this one speaks {ours}; both never vote together: \
             stop the clients of one version, and those of the other begin {lasts:.0?} after the last has stopped"
        );
    }
    let ours = common.size.nodes();
    if roster.nodes != ours {
        return format!(
            "{node} is used by clients of another list: theirs has {} nodes, this one {ours} (theirs {}; this one \
             {}; see `quorumlock members show`); give all the same list, or stop the others and wait {lasts:.0?} after \
             the last has stopped",
            roster.nodes,
            named(&roster.servers),
            named(&runs(mine))
        );
    }
    let strangers = unknown(roster, mine);
    format!(
        "{node} is used by clients of {} that this one does not know ({}; this list has {}; see `quorumlock members \
         show`): if these restarted while no client ran, or are down, wait {:.0?}; if they are of another list, give \
         all the same list, or stop the others and wait {lasts:.0?} after the last has stopped",
        servers(strangers.len()),
        strangers.join(", "),
        named(&runs(mine)),
        roster.lasts
    )
}

/// The runs of this client's list, as far as it has met them.
fn runs(mine: &[Option<Server>]) -> Vec<String> {
    mine.iter().flatten().map(|server| server.run.clone()).collect()
}

fn named(runs: &[String]) -> String {
    runs.iter().map(|run| short(run)).collect::<Vec<_>>().join(", ")
}

fn servers(count: usize) -> String {
    format!("{count} server{}", if count == 1 { "" } else { "s" })
}

/// Why no vote of a node counts that was retired so long ago, for people.
#[must_use]
pub fn retired(node: &str, age: Duration) -> String {
    format!(
        "{node} was retired {age:.0?} ago; `quorumlock members reset {node}` takes that back, or take it out of the \
         list"
    )
}

/// A quorum of the list is in the roster, and the rest of its room is taken.
fn replaced(node: &str, roster: &Roster, mine: &[Option<Server>], lasts: Duration) -> String {
    let before = unknown(roster, mine).join(", ");
    format!(
        "this server restarted or was replaced while no client of this list ran, or others use another list: the roster of \
         {node} has {before} in its place; its votes count {lasts:.0?} after the last client has stopped that was running \
         before; nothing needs to be done where the others are a quorum"
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
