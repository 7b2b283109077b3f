//! Checks of all nodes together.

use std::collections::BTreeSet;
use std::time::Duration;

use quorumlock::{NodeState, NodeStatus};

use super::super::finding::{Finding, Level};
use super::super::seen::Seen;
use crate::duration::{exact, left};
use crate::status::Vote;
use crate::words::counted;

/// A quarantine of at most this length may end before clients have sent the node the highest
/// tokens.
const SYNCING: Duration = Duration::from_secs(10);

pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let all = [votes(seen), size(seen.nodes.len()), guard(seen.times.max_ttl)].into_iter();
    all.chain(hosts(seen)).chain(versions(seen)).collect()
}

fn votes(seen: &Seen) -> Finding {
    let verdict = seen.verdict();
    let what = format!("{}.", verdict.sentence());
    match (verdict.can_acquire(), verdict.opens().filter(|vote| !vote.is_now())) {
        (true, _) if verdict.is_bare() && verdict.spare().is_some() => Finding::new(Level::Hint, "quorum-soon", what)
            .why("If another node fails before one more node votes, nobody can acquire a lock.")
            .mend(match verdict.spare() {
                Some(Vote::In(wait)) => format!("Wait for {}.", left(wait)),
                Some(Vote::AfterAClient(wait)) => format!("Let a client run for {}.", left(wait)),
                _ => String::new(),
            }),
        (true, _) if verdict.is_bare() && verdict.slow() > 0 => Finding::new(Level::Hint, "quorum-soon", what)
            .why("The nodes that have not answered yet may have a vote.")
            .mend("Wait for a minute, and run the doctor again, with a longer --connect-timeout."),
        (true, _) if verdict.is_bare() => Finding::new(Level::Warning, "bare-quorum", what)
            .why("Nobody can acquire a lock once another node fails.")
            .mend("Mend the nodes that have no vote, as the other findings say."),
        (true, _) => Finding::fine("quorum", what),
        (false, Some(vote)) => Finding::new(Level::Warning, "no-quorum", what)
            .why("Nobody can acquire a lock before a quorum of nodes votes.")
            .mend(match vote {
                _ if verdict.is_new() => {
                    "Start a client, and wait. If the servers are new and never held a lock, run `quorumlock init`."
                        .to_owned()
                }
                Vote::AfterAClient(wait) => format!("Let a client run for {}.", left(wait)),
                _ => "Wait until the quarantines have ended.".to_owned(),
            }),
        (false, None) if is_shut_out(seen) => Finding::new(Level::Unsafe, "no-quorum", what)
            .why("Another list is in force. Its clients acquire locks, and clients with this list acquire none.")
            .mend("The nodes need no repair. Correct this list, or end the other list, as the other findings say."),
        (false, None) => Finding::new(Level::Unsafe, "no-quorum", what)
            .why("Nobody can acquire a lock, or tell who holds one.")
            .mend("Mend the nodes that have no vote, as the other findings say."),
    }
}

/// Whether this list would have a quorum if no other list were in force.
fn is_shut_out(seen: &Seen) -> bool {
    let waits = |node: &&NodeStatus| matches!(node.state, NodeState::Up | NodeState::OtherList { .. });
    let others = seen.nodes.iter().any(|node| matches!(node.state, NodeState::OtherList { .. }));
    others && seen.nodes.iter().filter(waits).count() > seen.nodes.len() / 2
}

fn size(nodes: usize) -> Finding {
    let spare = (nodes - 1) / 2;
    let what = format!("{}: locks work if at most {spare} of them fail.", counted(nodes, "node"));
    match nodes {
        1 | 2 => Finding::new(Level::Warning, "quorum-size", what)
            .why("If one node fails, nobody can acquire a lock.")
            .mend("Use three or five nodes."),
        even if even.is_multiple_of(2) => Finding::new(Level::Hint, "even-number", what)
            .why("With one node fewer, locks survive the same number of failures.")
            .mend(format!("Use {} or {} nodes.", even - 1, even + 1)),
        _ => Finding::fine("quorum-size", what),
    }
}

/// The finding about failure domains. Lists of one or two nodes get no such finding: they have no
/// quorum if any node fails.
fn hosts(seen: &Seen) -> Option<Finding> {
    if seen.nodes.len() <= 2 {
        return None;
    }
    let (count, fail) = (seen.domains.count(), seen.domains.to_fail());
    let what = match (count, fail) {
        (1, _) => "All nodes are in one failure domain.".to_owned(),
        (_, 1) => format!("The nodes are in {count} failure domains. If the largest fails, no quorum is left."),
        _ => format!("The nodes are in {count} failure domains. If the {fail} largest fail, no quorum is left."),
    };
    Some(match (count, fail) {
        (1, _) => alone("one-host", what),
        (_, 1) => alone("majority-on-one-host", what),
        _ => Finding::fine("failure-domains", what),
    })
}

fn alone(id: &'static str, what: String) -> Finding {
    Finding::new(Level::Warning, id, what)
        .why("If that domain fails, nobody can acquire a lock.")
        .mend("Spread the nodes so that no host or site has half of them. --domains sets the domain of each node.")
}

fn guard(max_ttl: Duration) -> Finding {
    if max_ttl.is_zero() {
        return Finding::new(Level::Unsafe, "restart-guard", "max_ttl is 0, so a restarted node votes at once.")
            .why("A node that restarts and forgets a lock may grant it to a second holder.")
            .mend("Set max_ttl to the longest ttl of any client; the default is 60 s.");
    }
    let what = format!("A restarted node does not vote for max_ttl ({}).", exact(max_ttl));
    if max_ttl > SYNCING {
        return Finding::fine("restart-guard", what);
    }
    Finding::new(Level::Hint, "short-max-ttl", what)
        .why("A node may vote again before clients have sent it the highest tokens. Later tokens may then be lower.")
        .mend("Set max_ttl well above 10 s.")
}

fn versions(seen: &Seen) -> Option<Finding> {
    let versions: BTreeSet<_> = seen.nodes.iter().filter_map(|node| node.version.as_deref()).collect();
    let all = versions.iter().copied().collect::<Vec<_>>().join(", ");
    match versions.len() {
        0 => None,
        1 => Some(Finding::fine("version", format!("All servers that answer have version {all}."))),
        _ => Some(
            Finding::new(Level::Hint, "versions", format!("The servers have versions {all}."))
                .why("Different versions are safe. A fault of one version then affects fewer nodes.")
                .mend("Change nothing, or update one server at a time."),
        ),
    }
}
