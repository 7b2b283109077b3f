//! Code that tests share: real servers, and waiting for conditions.
#![allow(
    dead_code,
    unreachable_pub,
    missing_debug_implementations,
    async_fn_in_trait,
    reason = "each test uses its part"
)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

pub mod asked;
pub mod beside;
pub mod certificates;
pub mod clockwork;
pub mod fake;
pub mod logs;
pub mod node;
pub mod port;
pub mod postgres;
pub mod program;
pub mod proxy;
pub mod server;

use std::future::Future;
use std::time::{Duration, Instant};

use quorumlock::{Error, Quorum, QuorumBuilder, Transport};
use server::Server;

/// How long a condition may take before the test fails. Much longer than usual, since machines may
/// stall.
pub const PATIENCE: Duration = Duration::from_secs(50);

/// Waits, so that a caller that begins now comes behind all present waiters. Nodes order waiters by
/// tickets, which clients make from the clocks of nodes. A client's estimate of a node's clock may
/// be wrong by half a round trip.
pub async fn later() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// Waits until `condition` holds, and fails with `what` if it never does.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let began = Instant::now();
    while !condition().await {
        assert!(began.elapsed() < PATIENCE, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Tries to connect until the error contains `says`, and returns this error. On a slow machine,
/// another error may come first. Each try has twice the time of the try before.
pub async fn refused(builder: QuorumBuilder, says: &str) -> Error {
    let mut patience = Duration::from_millis(500);
    loop {
        let error = builder.clone().connect_timeout(patience).connect().await.unwrap_err();
        if error.to_string().contains(says) {
            return error;
        }
        assert!(patience < PATIENCE, "{says}: {error}");
        patience *= 2;
    }
}

/// Starts `count` servers that vote at once, whatever `max_ttl` their clients have.
pub async fn servers(count: usize) -> Vec<Server> {
    let servers = new_servers(count).await;
    servers.iter().for_each(Server::make_old);
    servers
}

/// Starts `count` servers that nobody has used yet.
pub async fn new_servers(count: usize) -> Vec<Server> {
    futures::future::join_all((0..count).map(|_| Server::start())).await
}

/// The transport to test: the default, or the transport that `QUORUMLOCK_TEST_TRANSPORT` names.
pub fn transport() -> Transport {
    let named = std::env::var("QUORUMLOCK_TEST_TRANSPORT");
    named.map_or_else(
        |_| Transport::default(),
        |name| name.parse().expect("QUORUMLOCK_TEST_TRANSPORT names a transport"),
    )
}

/// A builder for quorums over the transport to test.
pub fn builder() -> QuorumBuilder {
    Quorum::builder().transport(transport())
}

/// A builder for a quorum of `servers` without a quarantine: a server that restarts votes at once.
pub fn unguarded(servers: &[Server]) -> QuorumBuilder {
    builder().nodes(servers.iter().map(Server::url)).max_ttl(Duration::ZERO)
}

/// [`QuorumBuilder::connect`] returns when a quorum of nodes is admitted. A test that checks each
/// node must wait for all nodes.
pub trait ConnectAll {
    async fn connect_all(self) -> Quorum;
}

impl ConnectAll for QuorumBuilder {
    async fn connect_all(self) -> Quorum {
        let quorum = self.connect().await.unwrap();
        let admitted = async || quorum.nodes().iter().all(|node| node.state.is_admitted());
        eventually("all nodes are admitted", admitted).await;
        quorum
    }
}
