//! Which list is in force on which node, and which servers are behind the nodes' names.

use std::sync::Arc;

use super::quorum::Quorum;
use crate::error::Result;
use crate::node::operation::{Hello, Intent};
use crate::node::{Fault, FaultKind, Operation, Outcome, Reply};
use crate::protocol::{Voters, answers, met};
use crate::rules::list::Record;

/// The record of one node, and the run id of its server. See [`Quorum::members`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeMembers {
    /// The node's address, without user and password.
    pub node: Arc<str>,
    /// The node's name in the list.
    pub name: Arc<str>,
    /// The run id of the node's server; `None` if there is no connection.
    pub run: Option<String>,
    /// The node's record; `None` if the node has none. An error says why the node did not answer.
    pub record: Result<Option<Record>, String>,
}

/// The records of all nodes. See [`Quorum::members`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Members {
    /// The nodes, in the order of configuration.
    pub nodes: Vec<NodeMembers>,
}

impl Quorum {
    /// Asks all nodes for their records. A record shows which list is in force on the node, and for
    /// how much longer. The record also shows which servers clients see behind each node's name.
    /// This call writes nothing.
    ///
    /// Waits for connections up to `connect_timeout`, and for replies up to the round timeout.
    ///
    /// # Errors
    /// `Config` outside of a Tokio runtime, `Closed` after a shutdown. A node that does not answer
    /// is no error: the result reports it.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// let members = quorumlock::Quorum::in_memory(3)?.members().await?;
    /// assert!(members.nodes.iter().all(|node| node.record.is_ok()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn members(&self) -> Result<Members> {
        self.0.usable()?;
        let voters = self.all_met().await;
        let replies = answers(voters, self.0.rules.round_timeout, |_| look(voters)).await;
        let of = |(node, reply): (usize, Reply)| NodeMembers {
            node: voters.nodes[node].label().clone(),
            name: voters.membership.names[node].clone(),
            run: voters.nodes[node].status().run,
            record: record(reply).map_err(|fault| fault.to_string()),
        };
        Ok(Members { nodes: replies.into_iter().enumerate().map(of).collect() })
    }

    /// Waits until the first connection to each node has succeeded or failed, for `connect_timeout`
    /// at most.
    pub(super) async fn all_met(&self) -> &Arc<Voters> {
        let voters = &self.0.leases.voters;
        met(voters, self.0.settings.connect_timeout).await;
        voters
    }
}

/// A `hello` that reads the record, and writes nothing.
pub(super) fn look(voters: &Voters) -> Operation {
    let list = voters.membership.list.clone();
    let (new, process, seen) = ("".into(), "".into(), Vec::new());
    Operation::Hello(Hello { intent: Intent::Look, new, process, list, old: None, knew: None, sync: None, seen })
}

pub(super) fn record(reply: Reply) -> Result<Option<Record>, Fault> {
    match reply? {
        Outcome::Hello(record) => Ok(record),
        _ => Err(Fault::new(FaultKind::Garbled, "the reply belongs to another operation")),
    }
}
