//! Waiting for a quorum of nodes, before a lock can be asked for.

use std::time::Duration;

use quorumlock::{Doubt, Error, NodeState, NodeStatus, Quorum, QuorumBuilder};
use tokio::time::sleep;

use crate::duration::exact;
use crate::failure::{Failure, UNAVAILABLE, refuses_login};
use crate::output;
use crate::password::PasswordFile;
use crate::settings::Settings;
use crate::status::told;

/// What a first client waits for a silent node, and what a connection takes.
const SILENT: Duration = Duration::from_secs(6);
/// The same where a server has just started.
const STARTED: Duration = Duration::from_secs(11);
/// How often it is looked whether all nodes refuse the login.
const LOOK: Duration = Duration::from_millis(20);
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
    let waiting = format!("waiting for the file with the password, for {} at most", exact(patience));
    let read = || settings.clone().with_password_of(secret)?.builder();
    let reading = async {
        let (mut builder, mut left) = (read(), patience);
        while builder.is_err() && secret.is_some_and(PasswordFile::may_change) && !left.is_zero() {
            let pause = LOOK.min(left);
            sleep(pause).await;
            (builder, left) = (read(), left - pause);
        }
        builder.map(|builder| (builder, left))
    };
    output::telling(reading, async { waiting }).await
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
