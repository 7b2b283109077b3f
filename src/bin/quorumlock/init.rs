//! `quorumlock init`: the operator declares that servers are new, so that they vote at once.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use quorumlock::{Members, NodeMembers, NodeState, NodeStatus, Quorum};
use serde_json::json;
use tokio::time::sleep;

use crate::cli::Init;
use crate::duration::left;
use crate::failure::{Failure, Outcome, UNAVAILABLE};
use crate::lists::Lists;
use crate::output;
use crate::raw_connection::rights::Asked;
use crate::settings::Settings;
use crate::status::{has_restarted_unseen, is_idle, rights, silent, waits};
use crate::words::counted;

/// How long to wait until connections are closed.
const FAREWELL: Duration = Duration::from_millis(500);
/// How long to wait for the nodes if no option sets this time.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often to check whether all nodes answer.
const LOOK: Duration = Duration::from_millis(20);
const QUESTION: &str = "Are these servers new, and not restarted or flushed, so that nobody can hold a lock there?";

pub(crate) async fn init(args: Init) -> Outcome {
    let settings = Settings::with_nodes(&args.nodes)?;
    let quorum = settings.onlooker()?.open()?;
    output::telling(all_answer(&quorum, &settings), async { waits(&quorum) }).await;
    let (mut members, nodes) = (quorum.members().await?, quorum.nodes());
    silent(&mut members, &nodes, Some(settings.connect_timeout.unwrap_or(PATIENCE)));
    let own = settings.own_list(members.nodes.iter().map(|node| &*node.name));
    if let Some(conflict) = Lists::of_members(&own, &members).any_conflict() {
        return Err(Failure::new(UNAVAILABLE, conflict).and("nothing was done"));
    }
    if members.nodes.iter().all(|node| matches!(node.record, Ok(Some(_)))) {
        return said(&args, &quorum, Done::Before).await;
    }
    let names: Vec<_> = members.nodes.iter().map(|node| &*node.name).collect();
    let what = format!("{} will vote at once", names.join(", "));
    // `Quorum::init` checks the records again, and also looks for keys.
    let asked = output::telling(rights(&nodes, &settings), async { waits(&quorum) }).await;
    can_be_new(&members, &asked, own.max_ttl())?;
    if !args.yes && !output::confirmed(&what, QUESTION).await? {
        return said(&args, &quorum, Done::Refused(output::refused(&what))).await;
    }
    quorum.init().await?;
    said(&args, &quorum, Done::Now).await
}

/// The result: the servers were declared new, were used before, or the user did not confirm.
enum Done {
    Now,
    Before,
    Refused(String),
}

async fn said(args: &Init, quorum: &Quorum, done: Done) -> Outcome {
    let status = quorum.nodes();
    let (nodes, voters) = (status.len(), status.iter().filter(|node| votes(node)).count());
    let (is_done, why) = match &done {
        Done::Now => (true, None),
        Done::Before => (false, None),
        Done::Refused(why) => (false, Some(why)),
    };
    if args.json {
        let votes = if is_done { nodes } else { voters };
        output::say(&json!({ "nodes": nodes, "done": is_done, "votes": votes, "refused": why }).to_string()).await?;
    } else if is_done {
        let vote = if nodes == 1 { "votes" } else { "vote" };
        output::say(&format!("{} {vote} as of now", counted(nodes, "node"))).await?;
    } else if why.is_none() {
        output::say(&before(&status, voters)).await?;
    }
    if why.is_some() {
        output::note("nothing was done");
    }
    quorum.shutdown(FAREWELL).await;
    Ok(match done {
        Done::Refused(_) => ExitCode::FAILURE,
        Done::Before if 2 * voters <= nodes => ExitCode::from(UNAVAILABLE),
        Done::Before | Done::Now => ExitCode::SUCCESS,
    })
}

/// Fails unless every node answered, has no record, and shows no sign that it forgot locks. `asked`
/// has the nodes' replies about such signs.
fn can_be_new(members: &Members, asked: &[Asked], max_ttl: Duration) -> Result<(), Failure> {
    let why = |(node, asked): (&NodeMembers, &Asked)| match (&node.record, asked) {
        (Err(why), _) => Some(why.clone()),
        (Ok(Some(_)), _) => {
            Some("it has a record: clients have used this node, or a client has connected just now".to_owned())
        }
        // With a `max_ttl` of zero, nodes vote at once anyway, even if they forgot locks.
        (Ok(None), _) if max_ttl.is_zero() => None,
        (Ok(None), Err(why)) => Some(format!("it is unknown whether it is new: {why}")),
        (Ok(None), Ok(lacks)) => {
            let emptied = lacks.as_ref()?.emptied?;
            Some(format!("it is not new: {emptied}, so it may have forgotten locks"))
        }
    };
    let why = |node: (&NodeMembers, _)| Some(format!("\n  {}: {}", node.0.node, why(node)?));
    let unfit: String = members.nodes.iter().zip(asked).filter_map(why).collect();
    if unfit.is_empty() {
        return Ok(());
    }
    let failure = Failure::new(UNAVAILABLE, format!("nothing was written: all nodes must answer, and be new{unfit}"));
    Err(match members.nodes.iter().all(|node| node.record.is_ok()) {
        true => failure.and("without `init`, each node votes at the latest max_ttl after a client has used it"),
        false => failure,
    })
}

fn votes(node: &NodeStatus) -> bool {
    node.state == NodeState::Up || is_idle(node)
}

/// The text if nothing was done, because all nodes have a record.
fn before(nodes: &[NodeStatus], voters: usize) -> String {
    let counted = output::voting(voters, nodes.len());
    if 2 * voters > nodes.len() {
        return format!("nothing was done: all nodes have been used before, and {counted}");
    }
    let mut waits: Vec<_> = nodes.iter().filter_map(wait).collect();
    waits.sort_unstable();
    let when = match waits.get(nodes.len() / 2) {
        Some(wait) if !nodes.iter().any(has_restarted_unseen) => format!("a quorum votes in {}", left(*wait)),
        _ => "`quorumlock status` says when a quorum votes".to_owned(),
    };
    format!("nothing was done, because a client came before: {counted}; {when}")
}

/// How long it takes until a node votes, if that is known.
fn wait(node: &NodeStatus) -> Option<Duration> {
    match node.state {
        _ if votes(node) => Some(Duration::ZERO),
        NodeState::Quarantined { left, .. } => Some(left),
        _ => None,
    }
}

/// How often to start servers.
const TRIES: u32 = 3;

/// Starts servers by `start`, and lets them vote at once, as `quorumlock init` does. If this fails,
/// starts others: a client that still looks for a former server at one of these ports may have used
/// a server first. If `settings` returns `None`, `start` has started no servers.
pub(crate) async fn of_our_own<T>(
    start: impl Fn() -> Result<T, Failure>,
    settings: impl Fn(&T) -> Option<&Settings>,
) -> Result<T, Failure> {
    let mut left = TRIES;
    loop {
        left -= 1;
        let started = start()?;
        let Some(settings) = settings(&started) else { return Ok(started) };
        match declared_new(settings).await {
            Err(_) if left > 0 => {}
            done => return done.map(|()| started),
        }
    }
}

async fn declared_new(settings: &Settings) -> Result<(), Failure> {
    let quorum = settings.onlooker()?.open()?;
    all_answer(&quorum, settings).await;
    quorum.init().await?;
    quorum.shutdown(FAREWELL).await;
    Ok(())
}

/// Waits until all nodes are connected. The wait ends early if a node can never be used.
async fn all_answer(quorum: &Quorum, settings: &Settings) {
    let (began, patience) = (Instant::now(), settings.connect_timeout.unwrap_or(PATIENCE));
    let in_vain =
        |node: &NodeStatus| matches!(node.state, NodeState::Replica | NodeState::Cluster | NodeState::Duplicate { .. });
    while began.elapsed() < patience {
        let nodes = quorum.nodes();
        if nodes.iter().all(|node| node.run.is_some()) || nodes.iter().any(in_vain) {
            return;
        }
        sleep(LOOK).await;
    }
}
