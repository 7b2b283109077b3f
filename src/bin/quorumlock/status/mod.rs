//! `quorumlock status`: how the nodes are, and who holds a name.

mod all;
mod holders;
mod permits;
mod seen;
mod states;
pub(crate) mod verdict;
mod waiting;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use quorumlock::{Error, NodeState, NodeStatus, Quorum};

use crate::cli::Status;
use crate::direct::rights::{Asked, asked};
use crate::duration::exact;
use crate::failure::{Outcome, UNAVAILABLE};
use crate::output;
use crate::settings::Settings;
pub(crate) use all::gather;
pub(crate) use holders::{cut, held_by, left, line, named, shown, waiting};
pub(crate) use permits::Permits;
use seen::Seen;
pub(crate) use states::{labels, plain, state, told, why, word};

/// How long to wait for a quorum, unless told otherwise: nodes that are up take milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait for nodes that are far away or hang, until it is known which.
const FAR: Duration = Duration::from_secs(10);
/// The library's default.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(60);
/// The library's default.
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait for rosters to be told by themselves; then they are asked for.
const ROSTERS: Duration = Duration::from_millis(500);
/// Asked about where no name is given, to measure a round trip. Nobody is harmed by who holds it.
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
        None => output::telling(wait(&quorum, settings.connect_timeout), async { waits(&quorum) }).await,
    }
    if args.all {
        return all::all(&quorum, args.limit, args.json).await;
    }
    let looked = look(&quorum, &settings, args.name);
    let seen = output::telling(looked, async { waits(&quorum) }).await?;
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

/// Asks all nodes.
async fn look(quorum: &Quorum, settings: &Settings, name: Option<String>) -> Result<Seen, Error> {
    let inspected = quorum.inspect(name.as_deref().unwrap_or(PROBE)).await?;
    let permits = match &name {
        Some(name) => Permits::look(quorum, name, &inspected).await?,
        None => Permits::default(),
    };
    let max_ttl = settings.max_ttl.unwrap_or(MAX_TTL);
    let nodes = nodes(quorum).await?;
    // Of the nodes as they are shown: one that was admitted meanwhile is asked too.
    let rights = rights(&nodes, settings).await;
    Ok(Seen { nodes, inspected, permits, name, max_ttl, rights })
}

/// What acquiring needs and the users lack, and who refuses writes. To look at nodes takes less.
async fn rights(nodes: &[NodeStatus], settings: &Settings) -> Vec<Asked> {
    let step = settings.node_timeout.unwrap_or(NODE_TIMEOUT);
    let worth: Vec<_> = nodes.iter().map(|node| node.state.is_admitted()).collect();
    asked(settings, step, &worth).await
}

/// The nodes with their rosters. Those that have not told them by themselves are asked.
pub(crate) async fn nodes(quorum: &Quorum) -> Result<Vec<NodeStatus>, Error> {
    let mut nodes = quorum.nodes();
    if nodes.iter().any(|node| node.run.is_some() && node.roster.is_none()) {
        let members = quorum.members().await?;
        let told = members.nodes.into_iter().map(|member| member.roster.ok());
        nodes.iter_mut().zip(told).for_each(|(node, roster)| node.roster = node.roster.take().or(roster));
    }
    Ok(nodes)
}

pub(crate) fn waits(quorum: &Quorum) -> String {
    let slow = output::explained_once(quorum.nodes().iter().filter(|node| !node.state.is_admitted()).map(told));
    format!(
        "waiting for the nodes; {}",
        if slow.is_empty() { "one is slow to answer".to_owned() } else { slow.join("; ") }
    )
}

/// Waits until it is known how the nodes are. What keeps them from being ready is told by each.
pub(crate) async fn wait(quorum: &Quorum, told: Option<Duration>) {
    let _ = quorum.ready(told.unwrap_or(PATIENCE)).await;
    let end = Instant::now() + FAR;
    while told.is_none() && connecting(quorum) && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Rosters are asked for once there is a connection.
    let untold = || quorum.nodes().iter().any(|node| node.state.is_admitted() && node.roster.is_none());
    let end = Instant::now() + ROSTERS;
    while untold() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Whether it is not known yet how some node is.
fn connecting(quorum: &Quorum) -> bool {
    quorum.nodes().iter().any(|node| matches!(node.state, NodeState::Connecting | NodeState::Waiting { .. }))
}
