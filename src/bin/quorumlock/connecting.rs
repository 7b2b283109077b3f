//! Waiting for a quorum of nodes, before a lock can be asked for.

use std::time::{Duration, Instant};

use quorumlock::{Doubt, Error, NodeState, NodeStatus, Quorum, QuorumBuilder};
use tokio::time::sleep;

use crate::duration::{exact, left};
use crate::failure::{Failure, UNAVAILABLE, refuses_login};
use crate::output;
use crate::password::PasswordFile;
use crate::settings::Settings;
use crate::status::told;
use crate::times::Wait;
use crate::words::listed;

/// What a first client waits for a silent node, and what a connection takes.
const SILENT: Duration = Duration::from_secs(6);
/// The same where a server has just started.
const STARTED: Duration = Duration::from_secs(11);
/// How often it is looked whether all nodes refuse the login.
const LOOK: Duration = Duration::from_millis(20);
/// How often it is looked whether a quorum can vote in time.
const GLANCE: Duration = Duration::from_millis(100);
/// What to do where nodes refuse the login.
const LOGIN: &str = "give the right user and password: in the addresses (percent-encoded), in the file of --config, or \
     the password of all nodes by --password-file FILE";

/// A builder with the password of that file, and what is left of `patience`. A file that is missing,
/// or that has no password yet, may be in the middle of a rotation, and is read again.
pub(crate) async fn with_password(
    settings: &Settings,
    secret: Option<&PasswordFile>,
    patience: Duration,
) -> Result<(QuorumBuilder, Duration), Failure> {
    // What reading and a busy machine take counts too.
    let began = Instant::now();
    let left = || patience.saturating_sub(began.elapsed());
    let read = || settings.clone().with_password_of(secret)?.builder();
    let reading = async {
        let (mut builder, mut rest) = (read(), patience);
        while builder.is_err() && secret.is_some_and(PasswordFile::may_change) && !rest.is_zero() {
            sleep(LOOK.min(rest)).await;
            (builder, rest) = (read(), left());
        }
        builder.map(|builder| (builder, rest))
    };
    let waiting = async {
        let why = secret.and_then(|secret| secret.line().err()).unwrap_or_default();
        format!("waiting for the file with the password, for {} at most; {why}", exact(patience))
    };
    output::telling(reading, waiting).await
}

/// Waits until a quorum of nodes is there, for `patience` at most, which `option` sets. If all of
/// them refuse the login it ends at once, since they would again, unless the password `rotates`.
pub(crate) async fn a_quorum(quorum: &Quorum, patience: Duration, option: &str, rotates: bool) -> Result<(), Failure> {
    let ready = output::telling(quorum.ready(patience), async { waits_for_nodes(patience, quorum) });
    tokio::select! {
        biased;
        ready = ready => ready.map_err(|error| no_quorum(error, quorum, patience, option)),
        () = all_refuse(quorum), if !rotates => Err(no_login(&quorum.nodes())),
    }
}

/// Resolves once it is clear that no quorum votes while the lock is waited for.
pub(crate) async fn no_vote_in_time(quorum: &Quorum, names: &[String], wait: Wait) -> Failure {
    loop {
        let nodes = quorum.nodes();
        let votes = votes_in(&nodes);
        if votes > wait.left() {
            return too_late(&nodes, names, left(votes), wait.timeout);
        }
        sleep(GLANCE).await;
    }
}

fn too_late(nodes: &[NodeStatus], names: &[String], votes: String, timeout: Duration) -> Failure {
    let (names, timeout) = (listed(names), exact(timeout));
    let states = nodes.iter().map(|node| format!("\n  {}: {}", node.node, node.state));
    let states: String = output::explained_once(states).concat();
    let message =
        format!("cannot acquire {names}: no quorum of nodes votes within {votes}, and --timeout is {timeout}");
    Failure::new(UNAVAILABLE, message + &states).and(&format!("--timeout above {votes} waits long enough"))
}

/// In what time a quorum votes at the earliest: where quarantines keep it from that, when so many
/// have ended. All other nodes may vote at any moment.
fn votes_in(nodes: &[NodeStatus]) -> Duration {
    let waits = |node: &NodeStatus| match node.state {
        // Another client of the list may vouch for it before.
        NodeState::Quarantined { doubt: Doubt::Newcomer, .. } => Duration::ZERO,
        NodeState::Quarantined { left, .. } => left,
        _ => Duration::ZERO,
    };
    let mut waits: Vec<_> = nodes.iter().map(waits).collect();
    waits.sort_unstable();
    waits.get(nodes.len() / 2).copied().unwrap_or_default()
}

async fn all_refuse(quorum: &Quorum) {
    while !quorum.nodes().iter().all(is_refused) {
        sleep(LOOK).await;
    }
}

fn is_refused(node: &NodeStatus) -> bool {
    matches!(&node.state, NodeState::Down { why } if refuses_login(why))
}

fn no_login(nodes: &[NodeStatus]) -> Failure {
    let said = nodes.iter().map(|node| format!("\n  {}: {}", node.node, node.state));
    let all = if let [_] = nodes { "the node refuses".to_owned() } else { format!("all {} nodes refuse", nodes.len()) };
    Failure::new(UNAVAILABLE, format!("{all} the login{}", said.collect::<String>())).and(LOGIN)
}

/// Which nodes a quorum lacks.
fn waits_for_nodes(patience: Duration, quorum: &Quorum) -> String {
    let nodes = quorum.nodes();
    let lacking = output::explained_once(nodes.iter().filter(|node| !node.state.is_admitted()).map(told)).join("; ");
    format!("waiting for a quorum of nodes, for {} at most; {lacking}", exact(patience))
}

/// Why it could not begin, and what waits longer. Who is unlisted says itself what to wait for.
fn no_quorum(error: Error, quorum: &Quorum, patience: Duration, option: &str) -> Failure {
    let nodes = quorum.nodes();
    let count = |is: fn(&NodeState) -> bool| nodes.iter().filter(|node| is(&node.state)).count();
    let refused = nodes.iter().filter(|node| is_refused(node)).count();
    let waiting = count(|state| matches!(state, NodeState::Waiting { .. }));
    let waits = waiting > 0 && 2 * (waiting + count(NodeState::is_admitted)) > nodes.len();
    let young = count(|state| matches!(state, NodeState::Quarantined { doubt: Doubt::Newcomer, .. })) > 0;
    let longer = error.is_unavailable() && count(|state| matches!(state, NodeState::Unlisted { .. })) == 0;
    let failure = Failure::from(error);
    // It does not end by itself.
    if 2 * refused >= nodes.len() {
        failure.and(LOGIN)
    } else if young && patience < STARTED {
        failure.and(&long_enough(option, STARTED))
    } else if waits && patience < SILENT {
        failure.and(&long_enough(option, SILENT))
    } else if waits || longer {
        failure.and(&format!("{option} waits longer for nodes"))
    } else {
        failure
    }
}

fn long_enough(option: &str, time: Duration) -> String {
    format!("{option} above {} waits long enough for that; each try waits anew", exact(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_votes_when_enough_quarantines_have_ended() {
        let votes = |states: &[NodeState]| {
            votes_in(&states.iter().map(|state| NodeStatus::new("a".into(), state.clone())).collect::<Vec<_>>())
        };
        let for_seconds = |seconds, doubt| NodeState::Quarantined { left: Duration::from_secs(seconds), doubt };
        let (short, long) = (for_seconds(20, Doubt::Restarted), for_seconds(50, Doubt::ClockStepped));
        let down = NodeState::Down { why: "gone".to_owned() };
        assert_eq!(votes(&[short.clone(), NodeState::Up, long.clone()]), Duration::from_secs(20));
        assert_eq!(votes(&[long.clone(), short.clone(), long.clone()]), Duration::from_secs(50));
        assert_eq!(votes(&[down, NodeState::Connecting, long.clone()]), Duration::ZERO, "both may come back");
        assert_eq!(votes(&[for_seconds(9, Doubt::Newcomer), NodeState::Up, long]), Duration::ZERO);
    }
}
