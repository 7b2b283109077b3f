//! The port to one node, operations in and votes out, and its adapters.
//!
//! A [`Node`] takes a [`Request`] without blocking and answers it later, exactly once, through the
//! request's [`ReplyTo`]. What was submitted to one node is carried out in the order of submission
//! as long as the connection stays the same; nothing is withdrawn because a caller went away.
//!
//! Public with the feature `unstable` only: any release may change it.

pub mod hint;
pub mod inspection;
pub mod memory;
pub mod operation;
pub mod redis;
pub mod reply;
mod report;
pub mod status;
pub mod trust;
pub mod vote;

use std::fmt;
use std::sync::Arc;

pub use hint::{HandedOver, Hint, Listener};
pub use inspection::{Description, Inspection};
pub use memory::MemoryNode;
pub use operation::{
    Claim, Hello, Intent, Kind, Mode, Name, Note, Operation, Release, Renew, Revoke, Scan, Verb, Waiter, Withdraw,
};
pub use reply::{Fault, FaultKind, Outcome, Queued, Reply, ReplyTo, Sink};
pub use status::{NodeState, NodeStatus};

use crate::rules::book::{Known, Standing};

/// An operation and where its answer goes.
#[derive(Debug)]
pub struct Request {
    /// What is asked. Shared, since all nodes are asked the same.
    pub operation: Arc<Operation>,
    /// Who wants to know.
    pub reply: ReplyTo,
}

/// One independent Redis deployment, or something that behaves like one.
pub trait Node: fmt::Debug + Send + Sync + 'static {
    /// The node's address without user and password; also its label in metrics.
    fn label(&self) -> &Arc<str>;

    /// Sends an operation. Never blocks, and never fails otherwise than through the reply.
    fn submit(&self, request: Request);

    /// Sends several operations, in their order. Where a call carries many, they go into as few
    /// calls as they fit into, and count as one of those that wait.
    fn submit_all(&self, requests: Vec<Request>) {
        requests.into_iter().for_each(|request| self.submit(request));
    }

    /// Whether this node gives hints now.
    fn hints(&self) -> bool {
        false
    }

    /// How far this node's clock is ahead of the host's, in microseconds, as far as that is known.
    fn clock_ahead(&self) -> Option<i128> {
        None
    }

    /// What its record was last, and how the node is; `None` if it cannot be reached, or must not take
    /// part.
    fn known(&self) -> Option<Known> {
        None
    }

    /// Whether it takes hellos: its clients keep a list of nodes in force there.
    fn takes_hello(&self) -> bool {
        false
    }

    /// From now on its votes count so far as this standing says.
    fn judged(&self, standing: Standing) {
        let _ = standing;
    }

    /// Whether its votes on claims count now.
    fn votes(&self) -> bool {
        self.status().state == NodeState::Up
    }

    /// Ends the connection, after what was submitted has been sent. Nothing can be submitted any
    /// more.
    fn close(&self) {}

    /// Gives this node's hints to `listener`, under the number `index`. A node that gives none need
    /// not do anything: clients ask by themselves too, only later.
    fn listen(&self, index: usize, listener: Arc<dyn Listener>) {
        let _ = (index, listener);
    }

    /// Gives its listener the news of a name from now on, or no more. A node that has none need not do
    /// anything: observers look by themselves too, only later.
    fn follow(&self, name: &Name, on: bool) {
        let _ = (name, on);
    }

    /// How the node is.
    fn status(&self) -> NodeStatus;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As little as a node can be.
    #[derive(Debug)]
    struct Plain(Arc<str>);

    impl Node for Plain {
        fn label(&self) -> &Arc<str> {
            &self.0
        }

        fn submit(&self, _: Request) {}

        fn status(&self) -> NodeStatus {
            NodeStatus::new(self.0.clone(), NodeState::Connecting)
        }
    }

    #[test]
    fn plain_node_gives_no_hints_and_no_time_and_takes_no_hello() {
        let plain = Plain("plain".into());
        assert_eq!((plain.hints(), plain.clock_ahead()), (false, None));
        assert!(!plain.takes_hello() && plain.known().is_none() && !plain.votes());
    }
}
