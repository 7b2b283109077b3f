//! Real servers that restart, are replaced, or have their clocks stepped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

mod clock;
#[path = "../common/mod.rs"]
mod common;
mod connecting;
mod credentials;
#[cfg(feature = "__tls")]
mod encrypted;
mod environment;
mod lists;
mod order;
mod refusing;
mod renamed;
mod restart;
mod rights;
mod rolling;
mod sessions;
mod stored;
mod transport;

use std::time::{Duration, Instant};

use common::eventually;
use quorumlock::{ErrorKind, NodeState, Quorum, QuorumBuilder};

/// This is short, so that quarantines are short, and long enough for a machine that stalls.
const MAX_TTL: Duration = Duration::from_secs(3);

/// A builder with a quarantine. Its locks have the longest allowed ttl.
fn guarded<A: Into<String>>(nodes: impl IntoIterator<Item = A>) -> QuorumBuilder {
    common::builder().nodes(nodes).ttl(MAX_TTL).max_ttl(MAX_TTL)
}

/// Connects to nodes and waits until all vote.
async fn voting(builder: QuorumBuilder) -> Quorum {
    let quorum = builder.connect().await.unwrap();
    eventually("all nodes vote", async || quorum.nodes().iter().all(|node| node.state == NodeState::Up)).await;
    quorum
}

fn quarantined(quorum: &Quorum, node: usize) -> bool {
    matches!(quorum.nodes()[node].state, NodeState::Quarantined { .. })
}

async fn is_quarantined(quorum: &Quorum, node: usize) {
    eventually("the node is quarantined", async || quarantined(quorum, node)).await;
}

/// Checks that nobody can acquire this lock in a quarantine that began after `since`. If the test
/// stalled, the quarantine may be over.
async fn grants_nothing(quorum: &Quorum, name: &str, since: Instant, quarantine: Duration) {
    match quorum.lock(name).acquire(Duration::ZERO).await {
        Ok(_) => assert!(since.elapsed() >= quarantine, "granted after {:?}", since.elapsed()),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
    }
}
