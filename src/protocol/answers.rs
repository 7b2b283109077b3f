//! Sends an operation to each node, or to one node, and waits for the replies.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::oneshot;

use super::voters::Voters;
use crate::host::{before, sleep_until};
use crate::node::{Fault, FaultKind, Node, Operation, Reply, Sink};
use crate::rules::NodeSet;

/// Pause between two checks of whether the first connections were made.
const GLANCE: Duration = Duration::from_millis(20);

/// Waits until the first connection to each node has succeeded or failed, for `patience` at most.
pub(crate) async fn met(voters: &Voters, patience: Duration) {
    let comes = |node: &Arc<dyn Node>| node.known().is_some_and(|known| known.connecting);
    let end = voters.host.now() + patience;
    while voters.nodes.iter().any(comes) && voters.host.now() < end {
        sleep_until(&voters.host, voters.host.now() + GLANCE).await;
    }
}

/// The reply of each node to its operation; a timeout fault if no reply comes within `patience`.
pub(crate) async fn answers(
    voters: &Arc<Voters>,
    patience: Duration,
    operation: impl Fn(usize) -> Operation,
) -> Vec<Reply> {
    join_all((0..voters.nodes.len()).map(|node| answer(voters, node, operation(node), patience))).await
}

/// Sends the operation to one node, and waits for its reply like [`answers`].
pub(super) async fn answer(voters: &Arc<Voters>, node: usize, operation: Operation, patience: Duration) -> Reply {
    let (sender, answered) = oneshot::channel();
    let until = voters.host.now() + patience;
    voters.ask(NodeSet::of(node), &Arc::new(operation), &Arc::new(One(Mutex::new(Some(sender)))));
    let silent = || Err(Fault::new(FaultKind::Timeout, "no answer in time"));
    before(&voters.host, until, answered).await.and_then(Result::ok).unwrap_or_else(silent)
}

/// A sink for one reply.
struct One(Mutex<Option<oneshot::Sender<Reply>>>);

impl Sink for One {
    fn deliver(self: Arc<Self>, _: usize, reply: Reply) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // The receiver may be gone.
            let _ = sender.send(reply);
        }
    }
}
