//! Many leases of one process that stands still for a while: all of their renewals are due at once.

use std::time::Duration;

use futures::stream::{self, StreamExt};
use metrics_exporter_prometheus::PrometheusBuilder;
use quorumlock::{LockGuard, LockOptions, Quorum};

use crate::common::{servers, unguarded};

/// More than may be queued for one node.
const LEASES: usize = 4_600;
const TTL: Duration = Duration::from_secs(30);
/// Long enough for all to be due, and short enough for them to be renewed in time.
const STALL: Duration = Duration::from_secs(10);
/// Enough for a busy machine: what fails is to fail because it found no room.
const ANSWERS: Duration = Duration::from_millis(4_500);

async fn held(quorum: &Quorum) -> Vec<LockGuard> {
    let acquire = async |number| quorum.lock(format!("held/{number}")).acquire(TTL).await.unwrap();
    stream::iter(0..LEASES).map(acquire).buffer_unordered(256).collect().await
}

/// The runtime has one thread, so nothing of this process goes on meanwhile.
fn stand_still() {
    std::thread::sleep(STALL);
}

/// Waits until a lease was extended since `before`, when it had so much left; or was lost, as some are
/// where the machine is too busy to renew all in time.
async fn renewed(guard: &LockGuard, before: Duration) {
    while guard.remaining() <= before && guard.is_held() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Requests that found no room in a node's queue. On a busy machine others may be answered too late.
fn found_no_room(exposition: &str) -> Vec<&str> {
    let overloaded = |line: &&str| line.contains("\"overloaded\"") && !line.ends_with(" 0");
    exposition.lines().filter(overloaded).collect()
}

#[tokio::test]
async fn renewals_that_are_all_due_after_a_stall_find_room() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let (told, _local) = (recorder.handle(), metrics::set_default_local_recorder(&recorder));
    let servers = servers(3).await;
    let options = LockOptions::default().ttl(TTL).round_timeout(ANSWERS);
    let quorum = unguarded(&servers).options(options).node_timeout(ANSWERS).connect().await.unwrap();
    let guards = held(&quorum).await;
    stand_still();
    let left: Vec<_> = guards.iter().map(|guard| guard.remaining()).collect();
    for (guard, left) in guards.iter().zip(left) {
        renewed(guard, left).await;
    }
    assert_eq!(found_no_room(&told.render()), [""; 0]);
}
