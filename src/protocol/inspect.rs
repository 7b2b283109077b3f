//! Inspecting a name on all nodes, without writing.

use std::sync::Arc;
use std::time::Duration;

use super::round::{Count, Round};
use super::voters::Voters;
use crate::host::before;
use crate::node::{Fault, FaultKind, Inspection, Name, Operation, Outcome, Reply};
use crate::rules::NodeSet;

/// Counts replies of any kind.
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

/// The reply of each node about a name.
#[derive(Clone, Debug)]
pub(crate) struct Survey {
    pub(crate) said: Vec<Result<Inspection, Fault>>,
    /// The nodes that voted before and after they were asked. Any other node may have forgotten the
    /// holder: it counts if it names a holder, and not if it names none.
    pub(crate) voting: NodeSet,
}

impl Survey {
    /// Asks all nodes, and waits for their replies for `patience`.
    pub(crate) async fn of(voters: &Arc<Voters>, name: &Name, patience: Duration) -> Self {
        let question = Operation::Inspect([name.clone()].into());
        let nodes = voters.nodes.len();
        let round = Round::new(nodes, 0, Answers { open: nodes });
        let until = voters.host.now() + patience;
        let before_that = voters.voting();
        voters.ask(voters.everyone(), &Arc::new(question), &round);
        let _ = before(&voters.host, until, round.verdict()).await;
        let said = round.replies(|replies| replies.iter().map(entry).collect());
        Self { said, voting: before_that.and(voters.voting()) }
    }

    /// The replies that are no errors.
    pub(crate) fn heard(&self) -> impl Iterator<Item = &Inspection> {
        self.said.iter().filter_map(|said| said.as_ref().ok())
    }
}

fn entry(reply: &Option<Reply>) -> Result<Inspection, Fault> {
    match reply {
        Some(Ok(Outcome::Inspected(entries))) => {
            entries.first().cloned().ok_or_else(|| Fault::new(FaultKind::Garbled, "the reply is empty"))
        }
        Some(Ok(Outcome::Forgot)) => {
            Err(Fault::new(FaultKind::Rejected, "it has no record: no client has come since it began, or forgot"))
        }
        Some(Ok(_)) => Err(Fault::new(FaultKind::Garbled, "the reply is to another question")),
        Some(Err(fault)) => Err(fault.clone()),
        None => Err(Fault::new(FaultKind::Timeout, "no answer in time")),
    }
}
