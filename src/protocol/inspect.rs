//! Looking at a name on all nodes, without writing.

use std::sync::Arc;
use std::time::Duration;

use super::round::{Count, Round};
use super::voters::Voters;
use crate::host::before;
use crate::node::{Fault, FaultKind, Inspection, Name, NodeState, NodeStatus, Operation, Outcome, Reply};
use crate::rules::NodeSet;
use crate::rules::roster::Counted;

/// Counts answers, whatever they are.
struct Answers {
    open: usize,
}

impl Count for Answers {
    type Verdict = ();

    fn count(&mut self, _: usize, _: &Reply, _: u64) {
        self.open -= 1;
    }

    fn verdict(&self) -> Option<()> {
        (self.open == 0).then_some(())
    }
}

/// What each node says of a name.
#[derive(Clone, Debug)]
pub(crate) struct Survey {
    pub(crate) said: Vec<Result<Inspection, Fault>>,
    /// The nodes that voted before and after they were asked. Any other may have forgotten who
    /// holds the name, or clients do not count its votes: what it knows counts, and that it knows
    /// nothing does not.
    pub(crate) voting: NodeSet,
}

impl Survey {
    /// Asks all nodes, and waits for their answers for `patience`.
    pub(crate) async fn of(voters: &Arc<Voters>, name: &Name, patience: Duration) -> Self {
        let question = Operation::Inspect([name.clone()].into());
        let nodes = voters.nodes.len();
        let round = Round::new(nodes, 0, Answers { open: nodes });
        let until = voters.host.now() + patience;
        let before_that = voting(voters);
        voters.ask(voters.everyone(), &Arc::new(question), &round);
        let _ = before(&voters.host, until, round.verdict()).await;
        let said = round.replies(|replies| replies.iter().map(entry).collect());
        Self { said, voting: before_that.and(voting(voters)) }
    }

    /// The answers.
    pub(crate) fn heard(&self) -> impl Iterator<Item = &Inspection> {
        self.said.iter().filter_map(|said| said.as_ref().ok())
    }
}

/// The nodes that vote now, with this list.
pub(super) fn voting(voters: &Voters) -> NodeSet {
    let nodes = statuses(voters);
    let up: NodeSet = (0..nodes.len()).filter(|&node| nodes[node].state == NodeState::Up).collect();
    up.and(listed_of(voters, &nodes))
}

/// Those whose votes clients count with this list, as far as rosters were told.
pub(super) fn listed(voters: &Voters) -> NodeSet {
    listed_of(voters, &statuses(voters))
}

fn statuses(voters: &Voters) -> Vec<NodeStatus> {
    voters.nodes.iter().map(|node| node.status()).collect()
}

fn listed_of(voters: &Voters, nodes: &[NodeStatus]) -> NodeSet {
    // In memory, nodes have no rosters.
    if nodes.iter().all(|node| node.run.is_none()) {
        return voters.everyone();
    }
    if voters.nodes.iter().any(|node| node.enrols()) {
        return (0..nodes.len()).filter(|&node| nodes[node].listed == Some(true)).collect();
    }
    // Who only looks knows nothing of the votes of a server that has not told its roster.
    let told = |node: &NodeStatus| !voters.members.onlooker || node.roster.is_some();
    let told: NodeSet = (0..nodes.len()).filter(|&node| told(&nodes[node])).collect();
    Counted::of(nodes).nodes.and(told)
}

/// Why clients count too few votes with this list, as far as rosters were told. (What a client that
/// enrols its servers met is in its nodes' states.)
pub(crate) fn kept_out(voters: &Voters) -> Option<String> {
    let Counted { nodes, why } = Counted::of(&statuses(voters));
    why.filter(|_| nodes.len() < voters.size.quorum() && !voters.nodes.iter().any(|node| node.enrols()))
}

fn entry(reply: &Option<Reply>) -> Result<Inspection, Fault> {
    match reply {
        Some(Ok(Outcome::Inspected(entries))) => {
            entries.first().cloned().ok_or_else(|| Fault::new(FaultKind::Garbled, "the reply is empty"))
        }
        Some(Ok(_)) => Err(Fault::new(FaultKind::Garbled, "the reply is to another question")),
        Some(Err(fault)) => Err(fault.clone()),
        None => Err(Fault::new(FaultKind::Timeout, "no answer in time")),
    }
}
