//! The interface to one node, and the implementations of this interface.
//!
//! A [`Node`] accepts requests without blocking, and answers each [`Request`] exactly once, through
//! the request's [`ReplyTo`]. While its connection lasts, a node carries out requests in the order
//! in which they were submitted. A request stays submitted even if its caller goes away.
//!
//! This module is public only with the feature `unstable`, because any release may change it.

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
    Claim, Hello, Intent, Kind, Mode, Name, Note, Operation, Predecessor, Release, Renew, Revoke, Scan, Verb, Waiter,
};
pub use reply::{Fault, FaultKind, Outcome, Queued, Reply, ReplyTo, Sink};
pub use status::{NodeState, NodeStatus};

use crate::rules::known_nodes::{Known, MembershipState};

/// An operation, and the receiver of its reply.
#[derive(Debug)]
pub struct Request {
    /// The operation, which is shared because all nodes get the same one.
    pub operation: Arc<Operation>,
    /// The receiver of the reply.
    pub reply: ReplyTo,
}

/// One independent Redis or Valkey master, or a substitute for it, such as [`MemoryNode`].
pub trait Node: fmt::Debug + Send + Sync + 'static {
    /// The node's address without user and password. It is also the node's label in metrics.
    fn label(&self) -> &Arc<str>;

    /// Submits an operation, without blocking. The reply reports any failure.
    fn submit(&self, request: Request);

    /// Submits several operations, in their order. A node that batches operations puts them into as
    /// few calls as possible, and counts them as one operation in its queue.
    fn submit_all(&self, requests: Vec<Request>) {
        requests.into_iter().for_each(|request| self.submit(request));
    }

    /// Whether this node can send hints to this client now.
    fn hints(&self) -> bool {
        false
    }

    /// By how many microseconds this node's clock is ahead of the host's monotonic clock; `None` if
    /// unknown.
    fn clock_ahead(&self) -> Option<i128> {
        None
    }

    /// The node's last known record and state; `None` if the node is unreachable or must not take
    /// part.
    fn known(&self) -> Option<Known> {
        None
    }

    /// Whether the node accepts [`Hello`]. If so, clients keep their list in force on the node.
    fn takes_hello(&self) -> bool {
        false
    }

    /// Sets whether this node's votes count from now on. The records of all nodes decide this.
    fn judged(&self, _standing: MembershipState) {}

    /// Whether this node's votes on claims count now.
    fn votes(&self) -> bool {
        self.status().state == NodeState::Up
    }

    /// Whether the node is connected, carried out the last hello, and is not out of memory.
    fn is_usable(&self) -> bool {
        false
    }

    /// Sends all submitted operations, and then ends the connection. Operations that are submitted
    /// after this call fail.
    fn close(&self) {}

    /// Sends this node's hints to `listener`, with `index` as the node's number. A node without
    /// hints may ignore this call: waiters also ask again without a hint.
    fn listen(&self, _index: usize, _listener: Arc<dyn Listener>) {}

    /// Starts or stops sending news of a name to the listener. A node without news may ignore this
    /// call: observers also inspect the name without news.
    fn follow(&self, _name: &Name, _on: bool) {}

    /// The node's state, and facts about its server.
    fn status(&self) -> NodeStatus;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node with the required methods only.
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
