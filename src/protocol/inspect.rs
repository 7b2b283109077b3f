//! Inspects a name on all nodes, and writes nothing.

use std::sync::Arc;
use std::time::Duration;

use super::answers::answers;
use super::voters::Voters;
use crate::node::{Fault, FaultKind, Inspection, Name, Operation, Outcome, Reply};
use crate::rules::NodeSet;

/// The reply of each node about a name.
#[derive(Clone, Debug)]
pub(crate) struct Survey {
    pub(crate) said: Vec<Result<Inspection, Fault>>,
    /// The nodes whose votes counted both before the request and after the replies. Other nodes may
    /// have forgotten a holder. So a reply of theirs counts only if it names a holder.
    pub(crate) voting: NodeSet,
}

impl Survey {
    /// Asks all nodes, and waits for their replies for `patience` at most.
    pub(crate) async fn of(voters: &Arc<Voters>, name: &Name, patience: Duration) -> Self {
        let before_that = voters.voting();
        let replies = answers(voters, patience, |_| Operation::Inspect([name.clone()].into())).await;
        let said = replies.into_iter().map(entry).collect();
        Self { said, voting: before_that.and(voters.voting()) }
    }

    /// All replies except errors.
    pub(crate) fn heard(&self) -> impl Iterator<Item = &Inspection> {
        self.said.iter().filter_map(|said| said.as_ref().ok())
    }
}

fn entry(reply: Reply) -> Result<Inspection, Fault> {
    match reply? {
        Outcome::Inspected(entries) => {
            entries.into_iter().next().ok_or_else(|| Fault::new(FaultKind::Garbled, "the reply is empty"))
        }
        Outcome::Forgot => Err(Fault::new(
            FaultKind::Rejected,
            "it has no record: no client has used it since it started empty or lost its data",
        )),
        _ => Err(Fault::new(FaultKind::Garbled, "the reply belongs to another operation")),
    }
}
