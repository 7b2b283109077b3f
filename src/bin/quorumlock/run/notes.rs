//! The notes of `run`: what it waits for, and that another client has done the job.

use std::cell::Cell;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use futures::future::join_all;
use quorumlock::{NodeState, NodeStatus, Quorum};
use tokio::time::sleep;

use crate::cli::Run;
use crate::connecting::none_votes;
use crate::duration::{exact, left, show};
use crate::output::{self, CERTAIN};
use crate::status::{held_by, told};
use crate::times::Wait;
use crate::words::listed;

/// If the lock is not acquired after this time, a note says what `run` waits for.
const SILENCE: Duration = Duration::from_secs(2);
/// The pause between two checks whether a quorum votes, before the first note.
const LOOK: Duration = Duration::from_millis(50);

/// Writes notes while `run` waits for a lock. The first note is written after [`SILENCE`], or
/// earlier once it is certain that no quorum votes. Further notes follow when a quorum stops
/// voting, or votes again. `written` becomes true with the first note.
pub(super) async fn while_waiting(args: &Run, wait: Wait, quorum: &Quorum, written: &Cell<bool>) -> Infallible {
    let began = Instant::now();
    // `votes` is whether a quorum votes, as the last note said. `changed` is the time since when
    // `votes` is wrong.
    let (mut is_noted, mut votes, mut changed) = (false, true, None);
    loop {
        // A wait may last for hours, so look less often once the first note is written.
        sleep(if is_noted { CERTAIN } else { LOOK }).await;
        let is_other = if votes { none_votes(quorum, lacks) } else { is_quorum(&quorum.nodes()) };
        changed = is_other.then(|| changed.unwrap_or_else(Instant::now));
        let has_changed = changed.is_some_and(|since: Instant| since.elapsed() >= CERTAIN);
        if !has_changed && (is_noted || began.elapsed() < SILENCE) {
            continue;
        }
        let time = if is_noted { format!("{} more", left(wait.left())) } else { exact(wait.timeout) };
        let (note, voting) = waits(args, &time, quorum).await;
        // The votes may have changed back just now.
        if !is_noted || voting != votes {
            let again = if voting && !votes { "a quorum votes now; " } else { "" };
            output::note(&format!("{again}{note}"));
        }
        (is_noted, votes, changed) = (true, voting, None);
        written.set(true);
    }
}

/// The note that `run` waits for a lock for `time`, with the holder or with the nodes that do not
/// vote. Also returns whether a quorum votes.
async fn waits(args: &Run, time: &str, quorum: &Quorum) -> (String, bool) {
    let nodes = quorum.nodes();
    let permit = if args.permits.is_some() { "a permit of " } else { "" };
    let lock = format!("{permit}{}, for {time} at most", listed(&args.names));
    if !is_quorum(&nodes) {
        let states = output::explained_once(nodes.iter().filter(|node| lacks(node)).map(told)).join("; ");
        let votes = output::voting(nodes.iter().filter(|node| !lacks(node)).count(), nodes.len());
        return (format!("waiting for a quorum of nodes, and then for {lock}; {votes}: {states}"), false);
    }
    let holder = if args.permits.is_none() { held(&args.names, quorum).await } else { None };
    (format!("waiting for {lock}{}", holder.unwrap_or_default()), true)
}

fn lacks(node: &NodeStatus) -> bool {
    node.state != NodeState::Up
}

fn is_quorum(nodes: &[NodeStatus]) -> bool {
    2 * nodes.iter().filter(|node| lacks(node)).count() < nodes.len()
}

/// A text about the holder of the first name that another client holds.
async fn held(names: &[String], quorum: &Quorum) -> Option<String> {
    // Ask about all names at once: each request takes long if a node does not answer.
    let seen = join_all(names.iter().map(|name| quorum.inspect(name))).await;
    let mut seen = names.iter().zip(&seen).filter_map(|(name, seen)| Some((name, seen.as_ref().ok()?)));
    let (name, seen) = seen.find(|(_, seen)| seen.holder().is_some_and(|holder| !quorum.is_mine(holder)))?;
    let which = if names.len() == 1 { "it".to_owned() } else { format!("{name:?}") };
    Some(format!("; {which} is {}", held_by(seen)))
}

/// The note that the job was done in this period, or is being done.
pub(super) async fn done_already(name: &str, quorum: &Quorum) -> String {
    let left = quorum.inspect(name).await.ok().and_then(|seen| {
        let mut lefts: Vec<_> = seen.nodes.iter().filter_map(|(_, said)| said.as_ref().ok()?.remaining).collect();
        lefts.sort_unstable();
        lefts.get(lefts.len() / 2).copied()
    });
    let left = left.map(|left| format!("; the period ends in {}", show(left))).unwrap_or_default();
    format!("{name:?} was done in this period already, or is being done: the command is not run{left}")
}
