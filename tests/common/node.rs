//! One node that tests use directly, without a quorum.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock::host::{Host, System};
use quorumlock::node::operation::{Hello, Intent, OldAtOnce};
use quorumlock::node::redis::RedisNode;
use quorumlock::node::{Hint, Listener, Name, Node, Operation, Reply, ReplyTo, Request, Sink};
use quorumlock::rules::list::List;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::server::Server;
use super::{eventually, transport};

/// Stores a client's hints, and the names for which a node published news.
#[derive(Debug)]
pub struct Recorder {
    client: &'static str,
    hints: Mutex<Vec<Hint>>,
    news: Mutex<Vec<Name>>,
}

impl Recorder {
    pub fn of(client: &'static str) -> Arc<Self> {
        Arc::new(Self { client, hints: Mutex::default(), news: Mutex::default() })
    }

    /// The hints that came since the last call.
    pub fn take(&self) -> Vec<Hint> {
        std::mem::take(&mut self.hints.lock().unwrap())
    }

    /// The names for which news came since the last call.
    pub fn news(&self) -> Vec<Name> {
        std::mem::take(&mut self.news.lock().unwrap())
    }
}

impl Listener for Recorder {
    fn client(&self) -> &str {
        self.client
    }

    fn hint(&self, _: usize, hint: &Hint) {
        self.hints.lock().unwrap().push(hint.clone());
    }

    fn news(&self, _: usize, name: &Name) {
        self.news.lock().unwrap().push(name.clone());
    }

    fn missed(&self, _: usize) {}
}

/// The real adapter to `server`, connected.
pub async fn real(server: &Server) -> RedisNode {
    heard(&server.url(), Recorder::of("nobody")).await
}

/// The real adapter to any address, connected, with a listener for hints. Makes the server's
/// record, and puts no list in force.
pub async fn heard(address: &str, listener: Arc<Recorder>) -> RedisNode {
    let host: Arc<dyn Host> = Arc::new(System::new(Handle::current()));
    let node = RedisNode::alone(address, transport(), host, listener).unwrap();
    eventually("the node is up", async || node.status().state.is_admitted()).await;
    let process = node.known().map_or_else(|| "".into(), |known| known.process);
    // A server may refuse the hello, so ignore its reply.
    let _ = ask(&node, &initial(process, Duration::from_secs(60))).await;
    node
}

/// A hello for a node without a record. This hello makes a record that is old at once and synced.
pub fn initial(process: Arc<str>, max_ttl: Duration) -> Hello {
    Hello {
        intent: Intent::Make,
        new: "00000000000000aa".into(),
        process,
        list: Arc::new(List::new("test", ["node"], max_ttl)),
        old: Some(OldAtOnce::Init),
        knew: None,
        sync: Some(0),
        seen: Vec::new(),
    }
}

struct Inbox(mpsc::UnboundedSender<(usize, Reply)>);

impl Sink for Inbox {
    fn deliver(self: Arc<Self>, number: usize, reply: Reply) {
        let _ = self.0.send((number, reply));
    }
}

/// Submits all operations at once, and returns their replies in the order of the operations.
pub async fn ask_all(node: &dyn Node, operations: &[impl Clone + Into<Operation>]) -> Vec<Reply> {
    let (sender, mut replies) = mpsc::unbounded_channel();
    let inbox = Arc::new(Inbox(sender));
    for (number, operation) in operations.iter().enumerate() {
        let reply = ReplyTo::new(number, inbox.clone());
        node.submit(Request { operation: Arc::new(operation.clone().into()), reply });
    }
    drop(inbox);
    let mut all = Vec::with_capacity(operations.len());
    while let Some(reply) = replies.recv().await {
        all.push(reply);
    }
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, reply)| reply).collect()
}

pub async fn ask(node: &dyn Node, operation: &(impl Clone + Into<Operation>)) -> Reply {
    ask_all(node, std::slice::from_ref(operation)).await.remove(0)
}
