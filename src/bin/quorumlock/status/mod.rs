//! `quorumlock status`: the state of the nodes, and who holds a name.

mod all;
mod holders;
mod idle;
mod permits;
mod seen;
mod states;
pub(crate) mod verdict;
mod vote;
mod waiting;
mod warnings;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use quorumlock::{Error, List, NodeState, NodeStatus, Quorum};
use serde_json::Value;

use crate::cli::Status;
use crate::duration::exact;
use crate::failure::{Outcome, UNAVAILABLE};
use crate::output;
use crate::raw_connection::rights::{Asked, asked};
use crate::settings::Settings;
pub(crate) use all::gather;
pub(crate) use holders::{cut, held_by, in_cell, left, line, named, shown, waiting};
pub(crate) use idle::{has_restarted_unseen, is_idle, is_unused};
pub(crate) use permits::Permits;
use seen::Seen;
pub(crate) use states::{labels, plain, plainly, state, told, why, word};
pub(crate) use verdict::silent;
pub(crate) use vote::Vote;

/// How often to check whether the state of all nodes is known.
const LOOK: Duration = Duration::from_millis(10);
/// The longest wait for nodes that are far away or hang. A node that has not answered by then is
/// treated as hanging.
const FAR: Duration = Duration::from_secs(10);
/// The shortest time that the other nodes get to answer, once a quorum votes.
const AFTERWARDS: Duration = Duration::from_secs(2);
/// The library's default of `node_timeout`.
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// If the user gives no name, the command inspects this name, to see whether nodes answer, and how
/// fast. The holder of this name does not matter.
pub(crate) const PROBE: &str = "quorumlock status";

pub(crate) async fn status(args: Status) -> Outcome {
    let settings = Settings::with_nodes(&args.nodes)?;
    let quorum = settings.onlooker()?.open()?;
    let name = args.name.as_deref().unwrap_or(PROBE);
    match args.wait {
        Some(time) => {
            let votes = waiting::until_a_quorum_votes(&quorum, &settings, name, time);
            output::telling(votes, async { waiting::waits(&quorum, time) }).await?;
        }
        None => output::telling(wait(&quorum, args.nodes.connect_timeout), async { waits(&quorum) }).await,
    }
    if args.all {
        return all::all(&quorum, &settings, args.limit, args.json).await;
    }
    let looked = look(&quorum, &settings, args.name);
    let seen = output::telling(looked, async { waits(&quorum) }).await?;
    let seen = Seen { waited: args.nodes.connect_timeout, ..seen };
    let code = seen.verdict().code();
    if args.json {
        output::say(&seen.json().to_string()).await?;
    } else {
        output::say(&seen.lines().join("\n")).await?;
    }
    if let Some(time) = args.wait.filter(|_| code == UNAVAILABLE) {
        output::note(&format!("no quorum of nodes voted within {}", exact(time)));
    }
    quorum.shutdown(Duration::ZERO).await;
    Ok(ExitCode::from(code))
}

/// The object of `status --json`, but without the checks of rights, which need new connections to
/// the nodes.
pub(crate) async fn json(quorum: &Quorum, settings: &Settings) -> Result<Value, Error> {
    let inspected = quorum.inspect(PROBE).await?;
    let nodes = quorum.nodes();
    let list = own_list(settings, &nodes);
    let (permits, rights) = (Permits::default(), Vec::new());
    Ok(Seen { nodes, inspected, permits, name: None, list, rights, waited: None }.json())
}

/// Asks all nodes for their states, and about the name if there is one.
async fn look(quorum: &Quorum, settings: &Settings, name: Option<String>) -> Result<Seen, Error> {
    let inspected = quorum.inspect(name.as_deref().unwrap_or(PROBE)).await?;
    let permits = match &name {
        Some(name) => Permits::look(quorum, name, &inspected).await?,
        None => Permits::default(),
    };
    let nodes = quorum.nodes();
    let list = own_list(settings, &nodes);
    // Use the states that the output shows. So even a node that was admitted during the inspection
    // is asked for rights.
    let rights = rights(&nodes, settings).await;
    Ok(Seen { nodes, inspected, permits, name, list, rights, waited: None })
}

/// Asks all nodes that vote, are quarantined or have no record. Their replies show which rights for
/// acquiring are missing, whether a node refuses writes, and whether a node forgot locks while it
/// ran. The other requests of `status` do not show this.
pub(crate) async fn rights(nodes: &[NodeStatus], settings: &Settings) -> Vec<Asked> {
    let step = settings.node_timeout.unwrap_or(NODE_TIMEOUT);
    let worth: Vec<_> = nodes.iter().map(|node| node.state.is_admitted() || is_unused(node)).collect();
    asked(settings, step, &worth).await
}

pub(crate) fn own_list(settings: &Settings, nodes: &[NodeStatus]) -> List {
    settings.own_list(nodes.iter().map(|node| &*node.name))
}

pub(crate) fn waits(quorum: &Quorum) -> String {
    let slow = output::explained_once(quorum.nodes().iter().filter(|node| !node.state.is_admitted()).map(told));
    format!(
        "waiting for the nodes; {}",
        if slow.is_empty() { "a node is slow to answer".to_owned() } else { slow.join("; ") }
    )
}

/// Waits until the states of all nodes are known. If no quorum votes, the wait ends after [`FAR`].
/// When a quorum votes, the other nodes get as much time as has passed, but at least two seconds.
/// So a node that is far away has enough time, and a node that hangs delays the command only a
/// little. If the user set a time (`told`), this time is the limit instead.
pub(crate) async fn wait(quorum: &Quorum, told: Option<Duration>) {
    let began = Instant::now();
    let mut end = told.unwrap_or(FAR);
    let mut votes = false;
    while connecting(quorum) && began.elapsed() < end {
        if !votes && told.is_none() && a_quorum_votes(quorum) {
            votes = true;
            end = began.elapsed() + began.elapsed().max(AFTERWARDS);
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn a_quorum_votes(quorum: &Quorum) -> bool {
    let nodes = quorum.nodes();
    let votes = |node: &&NodeStatus| node.state == NodeState::Up || is_idle(node) || is_unused(node);
    2 * nodes.iter().filter(votes).count() > nodes.len()
}

/// Whether the state of some node is still unknown. False if one server is behind two addresses:
/// then clients refuse to start, so waiting does not help.
fn connecting(quorum: &Quorum) -> bool {
    let nodes = quorum.nodes();
    nodes.iter().any(|node| node.state.is_pending() && !is_unused(node))
        && !nodes.iter().any(|node| matches!(node.state, NodeState::Duplicate { .. }))
}
