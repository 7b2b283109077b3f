//! Nodes that answer and push anything, and a client that uses them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use quorumlock::host::{Host, TokioTime};
use quorumlock::node::redis::transport::Dialer;
use quorumlock::{NodeState, Quorum};
use tokio::runtime::{Builder, Handle};

use super::server::{NODES, Way, deal};

const WAIT: Duration = Duration::from_secs(2);
/// A bound on the time of a whole case, by the paused clock.
const LONGEST: Duration = Duration::from_secs(3_600);

/// Checks that nothing panics or hangs, and that no lock is held if no majority of nodes can have
/// granted it.
pub(crate) fn any(bytes: &[u8]) {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        tokio::select! {
            biased;
            () = used(bytes) => {}
            () = tokio::time::sleep(LONGEST) => panic!("an operation hangs"),
        }
    });
}

async fn used(bytes: &[u8]) {
    let (&what, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let servers = deal(rest, NODES);
    let dialers = servers.iter().map(|server| Arc::new(Way(server.clone())) as Arc<dyn Dialer>).collect();
    let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
    let quorum = Quorum::builder().ttl(WAIT * 2).over_dialers(host, dialers, |_, node| Arc::new(node)).unwrap();
    drop(quorum.ready(WAIT).await);
    let held = held(&quorum, what).await;
    let granted = servers.iter().filter(|server| server.may_have_granted()).count();
    assert!(!held || granted > NODES / 2, "held with {granted} grants");
    for node in quorum.nodes() {
        let panicked = matches!(&node.state, NodeState::Down { why } if why.contains("panicked"));
        assert!(!panicked, "{node:?}");
    }
    quorum.shutdown(WAIT).await;
}

/// Tries one operation. Returns whether the lock was held in the end.
async fn held(quorum: &Quorum, what: u8) -> bool {
    match what % 8 {
        0 => kept(quorum.lock("a").acquire(WAIT)).await,
        1 => kept(quorum.lock_all(["a", "b", "c"]).acquire(WAIT)).await,
        2 => kept(quorum.rw_lock("a").read(WAIT)).await,
        3 => kept(quorum.semaphore("a", 3).acquire(2, WAIT)).await,
        4 => kept(quorum.election("a").campaign(WAIT)).await,
        5 => matches!(quorum.once("a", WAIT * 8).claim().await, Ok(Some(_))),
        6 => looked(quorum).await,
        _ => revoked(quorum).await,
    }
}

/// Holds the lock for so long that it is renewed.
async fn kept<T>(acquiring: impl Future<Output = quorumlock::Result<T>>) -> bool {
    let Ok(guard) = acquiring.await else { return false };
    tokio::time::sleep(WAIT * 3).await;
    drop(guard);
    true
}

async fn looked(quorum: &Quorum) -> bool {
    drop((quorum.inspect("a").await, quorum.members().await));
    false
}

async fn revoked(quorum: &Quorum) -> bool {
    drop((quorum.revoke("a").await, quorum.force_release("b").await));
    false
}
