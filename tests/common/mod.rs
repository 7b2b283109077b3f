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

use quorumlock::{Error, Inspected, Quorum, QuorumBuilder, QuorumLock, Released, Transport};
use server::Server;

/// How long a condition may take before the test fails. This is much longer than conditions usually
/// take, because machines may stall: beside builds and other tests, two seconds of CPU time have
/// taken 42 s.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Waits so long that later callers queue behind all callers that began before this wait. Nodes
/// order waiters by arrivals, which clients make from the clocks of nodes. A client's estimate of a
/// node's clock may be wrong by half a round trip.
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
/// another error may come first. Each try has twice the time of the previous try.
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

/// A little less than the shortest round timeout of tests. If a release fails sooner, the reason is
/// not its timeout.
const ROUND: Duration = Duration::from_millis(900);

/// The result of a release. Machines may stall. So if no quorum confirmed the release within a
/// whole round timeout, the result counts as `Released`: the release goes on in the background.
pub async fn released(ending: impl Future<Output = quorumlock::Result<Released>>) -> Released {
    let began = Instant::now();
    match ending.await {
        Err(error) if error.is_unavailable() && began.elapsed() > ROUND => Released::Released,
        ended => ended.unwrap(),
    }
}

/// The result of a call that must succeed and goes on in the background, such as `proclaim`. `None`
/// if no quorum confirmed the call within the whole round timeout.
pub async fn confirmed<T>(call: impl Future<Output = quorumlock::Result<T>>) -> Option<T> {
    let began = Instant::now();
    match call.await {
        Err(error) if error.is_unavailable() && began.elapsed() > ROUND => None,
        ended => Some(ended.unwrap()),
    }
}

/// The result of a call for which a quorum must answer. If no quorum answered within the whole
/// round timeout, calls again: machines may stall.
pub async fn answer<T, F: Future<Output = quorumlock::Result<T>>>(
    mut call: impl FnMut() -> F,
) -> quorumlock::Result<T> {
    let first = Instant::now();
    loop {
        let began = Instant::now();
        match call().await {
            Err(error) if error.is_unavailable() && began.elapsed() > ROUND && first.elapsed() < PATIENCE => {}
            answer => return answer,
        }
    }
}

/// As `answer`, for a call that must succeed.
pub async fn answered<T, F: Future<Output = quorumlock::Result<T>>>(call: impl FnMut() -> F) -> T {
    answer(call).await.unwrap()
}

/// Whether `try_acquire` finds that somebody holds the lock. Tries again if too few nodes answered.
pub async fn is_taken(lock: &QuorumLock) -> bool {
    let began = Instant::now();
    loop {
        match lock.try_acquire().await {
            Err(error) if error.is_unavailable() && began.elapsed() < PATIENCE => {}
            tried => return tried.unwrap().is_none(),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Inspects a name. Tries again until each node has answered.
pub async fn inspected(quorum: &Quorum, name: &str) -> Inspected {
    let began = Instant::now();
    loop {
        let seen = quorum.inspect(name).await;
        match seen {
            Ok(seen) if seen.nodes.iter().all(|(_, said)| said.is_ok()) => return seen,
            seen => assert!(began.elapsed() < PATIENCE, "never answered by each node: {seen:?}"),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
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

/// A builder for quorums over the transport to test. Its clients have much time to connect, because
/// machines may stall.
pub fn builder() -> QuorumBuilder {
    Quorum::builder().transport(transport()).connect_timeout(PATIENCE)
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
