//! Waits for a quorum of nodes before the command requests a lock.

use std::time::{Duration, Instant};

use quorumlock::{Error, NodeState, NodeStatus, Quorum, QuorumBuilder};
use tokio::time::sleep;

use crate::duration::exact;
use crate::failure::{Failure, Login, UNAVAILABLE};
use crate::output;
use crate::password::PasswordFile;
use crate::settings::Settings;
use crate::status::told;

/// How often to check the nodes' states, or the password file, while waiting.
const LOOK: Duration = Duration::from_millis(20);
/// Makes a builder with the password of the file `secret`. If the file is missing or its password
/// cannot be used, somebody may be replacing the file. In this case, this function reads the file
/// again and again, for up to `patience`. Also returns the part of `patience` that is left.
pub(crate) async fn with_password(
    settings: &Settings,
    secret: Option<&PasswordFile>,
    patience: Duration,
) -> Result<(QuorumBuilder, Duration), Failure> {
    // `patience` includes the time that reading takes.
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

/// Waits until a quorum of nodes is connected and checked (`NodeState::is_admitted`), for
/// `patience` at most. `option` is the option that sets `patience`: errors name this option if a
/// longer wait may help. If all nodes refuse the login, fails at once, because the nodes would
/// refuse the same login again. If the password `rotates`, keeps waiting, because the next login
/// may have another password.
pub(crate) async fn a_quorum(quorum: &Quorum, patience: Duration, option: &str, rotates: bool) -> Result<(), Failure> {
    let lacking = |node: &NodeStatus| !node.state.is_admitted();
    let what = async { waits_for_nodes(patience, quorum, lacking) };
    let ready = output::telling_once(quorum.ready(patience), || none_votes(quorum, lacking), what);
    tokio::select! {
        biased;
        ready = ready => ready.map_err(|error| no_quorum(error, quorum, option)),
        () = all_refuse(quorum), if !rotates => Err(no_login(&quorum.nodes())),
    }
}

/// Waits until a quorum of nodes votes, so that a single try can succeed. The wait ends at the
/// latest when `patience` has passed since `began`. It ends earlier if too few nodes can vote
/// within this time.
pub(crate) async fn a_vote(quorum: &Quorum, began: Instant, patience: Duration) {
    let votes = async {
        loop {
            let (nodes, left) = (quorum.nodes(), patience.saturating_sub(began.elapsed()));
            let is_most =
                |is: &dyn Fn(&NodeState) -> bool| 2 * nodes.iter().filter(|node| is(&node.state)).count() > nodes.len();
            let may_vote = |state: &NodeState| match state {
                NodeState::Quarantined { left: quarantine, .. } => *quarantine <= left,
                state => state.is_pending() || matches!(state, NodeState::Up | NodeState::Down { .. }),
            };
            if left.is_zero() || is_most(&|state| *state == NodeState::Up) || !is_most(&may_vote) {
                return;
            }
            sleep(LOOK).await;
        }
    };
    let lacking = |node: &NodeStatus| node.state != NodeState::Up;
    let what = async { waits_for_nodes(patience, quorum, lacking) };
    output::telling_once(votes, || none_votes(quorum, lacking), what).await;
}

/// Whether it is certain that no quorum of nodes votes now: `lack` is true for at least half of the
/// nodes. Nodes to which the client is still connecting do not count: they may vote soon.
pub(crate) fn none_votes(quorum: &Quorum, lack: impl Fn(&NodeStatus) -> bool) -> bool {
    let nodes = quorum.nodes();
    let certain = nodes.iter().filter(|node| lack(node) && !node.state.is_pending());
    2 * certain.count() >= nodes.len()
}

async fn all_refuse(quorum: &Quorum) {
    while !quorum.nodes().iter().all(is_refused) {
        sleep(LOOK).await;
    }
}

fn is_refused(node: &NodeStatus) -> bool {
    login(node).is_some()
}

/// Why the node refuses the login, if it does.
fn login(node: &NodeStatus) -> Option<Login> {
    let NodeState::Down { why } = &node.state else { return None };
    Login::refused(why)
}

/// Advice for the user if nodes refuse the login.
fn with_the_right_login(nodes: &[NodeStatus]) -> &'static str {
    let mut refused = nodes.iter().filter_map(login);
    match refused.next() {
        Some(Login::Missing) if refused.all(|login| login == Login::Missing) => {
            "give the password: in the addresses (percent-encoded), in the file of --config, or one for all nodes by \
             --password-file FILE"
        }
        Some(Login::Unwanted) if refused.all(|login| login == Login::Unwanted) => {
            "the servers ask for no password: set a password there (requirepass), or give none here"
        }
        _ => {
            "give the right user and password: in the addresses (percent-encoded), in the file of --config, or the \
             password of all nodes by --password-file FILE"
        }
    }
}

fn no_login(nodes: &[NodeStatus]) -> Failure {
    let said = nodes.iter().map(|node| format!("\n  {}: {}", node.node, node.state));
    let all = if let [_] = nodes { "the node refuses".to_owned() } else { format!("all {} nodes refuse", nodes.len()) };
    Failure::new(UNAVAILABLE, format!("{all} the login{}", said.collect::<String>())).and(with_the_right_login(nodes))
}

/// The note that the command waits for a quorum. The note lists the nodes for which `lacks` is
/// true.
fn waits_for_nodes(patience: Duration, quorum: &Quorum, lacks: impl Fn(&NodeStatus) -> bool) -> String {
    let nodes = quorum.nodes();
    let votes = nodes.iter().filter(|node| node.state == NodeState::Up).count();
    let lacking = output::explained_once(nodes.iter().filter(|node| lacks(node)).map(told)).join("; ");
    let votes = output::voting(votes, nodes.len());
    format!("waiting for a quorum of nodes, for {} at most; {votes}: {lacking}", exact(patience))
}

/// The failure if no quorum was found, with advice. If another list is in force, or two servers
/// have one name, the error itself has the advice.
fn no_quorum(error: Error, quorum: &Quorum, option: &str) -> Failure {
    let nodes = quorum.nodes();
    let refused = nodes.iter().filter(|node| is_refused(node)).count();
    let others = nodes.iter().any(|node| matches!(node.state, NodeState::OtherList { .. } | NodeState::Twins { .. }));
    let longer = error.is_unavailable() && !others;
    let failure = Failure::from(error);
    // A longer wait does not help: the nodes would refuse the login again.
    if 2 * refused >= nodes.len() {
        failure.and(with_the_right_login(&nodes))
    } else if longer {
        failure.and(&format!("{option} waits longer for nodes"))
    } else {
        failure
    }
}
