//! The notes of `run` about other clients: that they hold the lock, or have done the job.

use std::time::Duration;

use futures::future::join_all;
use quorumlock::{NodeState, Quorum};

use crate::cli::Run;
use crate::duration::{exact, show};
use crate::output;
use crate::status::{held_by, told};
use crate::words::listed;

/// The note that `run` waits for a lock, with the holder or with the nodes that do not vote.
pub(super) async fn waits(args: &Run, timeout: Duration, quorum: &Quorum) -> String {
    let nodes = quorum.nodes();
    let votes = nodes.iter().filter(|node| node.state == NodeState::Up).count();
    let what = if args.permits.is_some() { "a permit of " } else { "" };
    let waiting = format!("waiting for {what}{}, for {} at most", listed(&args.names), exact(timeout));
    if votes <= nodes.len() / 2 {
        let lacking = nodes.iter().filter(|node| node.state != NodeState::Up).map(told);
        let states = output::explained_once(lacking).join("; ");
        return format!("{waiting}; {}, which is no quorum: {states}", output::voting(votes, nodes.len()));
    }
    match args.permits {
        Some(_) => waiting,
        None => waiting + &held(&args.names, quorum).await.unwrap_or_default(),
    }
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
