//! What nodes say of themselves, and what one of them is told by hand.

use std::sync::Arc;
use std::time::Duration;

use super::round::{Count, Round};
use super::voters::Voters;
use crate::host::{before, sleep_until};
use crate::node::{Fault, FaultKind, Operation, Outcome, Reply};
use crate::rules::NodeSet;
use crate::rules::roster::{Enrolment, PROTOCOL, Roster};

/// How often nodes are looked at while they are being connected to.
const GLANCE: Duration = Duration::from_millis(20);

/// Waits until each of these nodes was connected to, or was tried once; no longer than until
/// `patience` is over.
pub(crate) async fn met(voters: &Voters, nodes: NodeSet, patience: Duration) {
    let comes = |node: usize| {
        let node = &voters.nodes[node];
        // Who only looks knows how a node is once it has looked there.
        let unknown = node.member().is_none() || voters.members.onlooker;
        unknown && node.status().state.is_connecting()
    };
    let end = voters.host.now() + patience;
    while nodes.iter().any(comes) && voters.host.now() < end {
        sleep_until(&voters.host, voters.host.now() + GLANCE).await;
    }
}

/// What each node says of its roster, and of what it knows: its highest ballot, and whether it
/// never forgot.
pub(crate) async fn census(voters: &Arc<Voters>, patience: Duration) -> Vec<(Said<Roster>, Said<Known>)> {
    let (nodes, protocol) = (voters.size.nodes(), PROTOCOL);
    let look = Operation::Enrol(Enrolment { nodes, protocol, ..Enrolment::default() });
    let everyone = voters.everyone();
    let (rosters, records) =
        tokio::join!(ask(voters, everyone, look, patience), ask(voters, everyone, Operation::Record, patience));
    rosters.into_iter().map(roster).zip(records.into_iter().map(record)).collect()
}

/// A node's highest ballot, and whether it never forgot or was taught since.
pub(crate) type Known = (u64, bool);

/// What a node said, if it did.
pub(crate) type Said<T> = Result<T, Fault>;

/// Tells one node something. What it answered.
pub(crate) async fn tell(voters: &Arc<Voters>, node: usize, operation: Operation, patience: Duration) -> Reply {
    ask(voters, NodeSet::of(node), operation, patience).await.swap_remove(node)
}

async fn ask(voters: &Arc<Voters>, whom: NodeSet, operation: Operation, patience: Duration) -> Vec<Reply> {
    let round = Round::new(voters.nodes.len(), 0, Open(whom));
    let end = voters.host.now() + patience;
    voters.ask(whom, &Arc::new(operation), &round);
    let _ = before(&voters.host, end, round.verdict()).await;
    let said = |reply: &Option<Reply>| reply.clone().unwrap_or_else(|| Err(silent()));
    round.replies(|replies| replies.iter().map(said).collect())
}

fn silent() -> Fault {
    Fault::new(FaultKind::Timeout, "no answer in time")
}

fn another() -> Fault {
    Fault::new(FaultKind::Garbled, "the reply is to another question")
}

pub(crate) fn roster(reply: Reply) -> Said<Roster> {
    match reply? {
        Outcome::Listed(roster) | Outcome::Unlisted(roster) => Ok(roster),
        Outcome::Retired(roster) | Outcome::Reset(roster) => Ok(roster),
        _ => Err(another()),
    }
}

fn record(reply: Reply) -> Said<Known> {
    match reply? {
        Outcome::Record { high, taught, .. } => Ok((high, taught)),
        _ => Err(another()),
    }
}

/// Who has not answered.
struct Open(NodeSet);

impl Count for Open {
    type Verdict = ();

    fn count(&mut self, node: usize, _: &Reply, _: u64) {
        self.0.remove(node);
    }

    fn verdict(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}
