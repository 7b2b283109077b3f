//! All servers restart, one after the other, while clients contend.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use quorumlock::{NodeState, Quorum};
use tokio_util::sync::CancellationToken;

use crate::common::server::Server;
use crate::common::{PATIENCE, eventually, servers};
use crate::{MAX_TTL, guarded, voting};

/// The state that contenders share: how many are inside, and how many sections there were.
#[derive(Default)]
struct Watch {
    inside: AtomicU32,
    sections: AtomicU64,
    highest: AtomicU64,
}

impl Watch {
    /// Acquires the lock again and again until `stop`. Fails if another contender is inside.
    async fn contend(self: Arc<Self>, quorum: Quorum, stop: CancellationToken) {
        let lock = quorum.lock("a");
        while !stop.is_cancelled() {
            let Ok(guard) = lock.acquire(MAX_TTL).await else { continue };
            assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
            assert!(self.highest.fetch_max(guard.token(), Ordering::SeqCst) < guard.token(), "tokens fell");
            tokio::time::sleep(Duration::from_millis(3)).await;
            self.sections.fetch_add(1, Ordering::SeqCst);
            self.inside.fetch_sub(1, Ordering::SeqCst);
            let _ = guard.release().await;
        }
    }

    fn sections(&self) -> u64 {
        self.sections.load(Ordering::SeqCst)
    }
}

fn record(quorum: &Quorum, node: usize) -> Option<Arc<str>> {
    quorum.nodes().swap_remove(node).record.map(|record| record.id)
}

/// Restarts a server, and waits until a client has seen the restart. The node may vote again by
/// then, since other clients may have seen the restart earlier.
async fn restart(server: &mut Server, quorum: &Quorum, node: usize) {
    let before = record(quorum, node);
    server.restart().await;
    let is_new = || record(quorum, node).is_some_and(|id| before.as_ref() != Some(&id));
    eventually("its new record is seen", async || is_new()).await;
}

async fn votes_again(quorum: &Quorum, node: usize) {
    eventually("it votes again", async || quorum.nodes()[node].state == NodeState::Up).await;
}

async fn contenders(
    servers: &[Server],
    max_ttl: Duration,
) -> (Arc<Watch>, CancellationToken, Vec<tokio::task::JoinHandle<()>>) {
    let (watch, stop) = (Arc::new(Watch::default()), CancellationToken::new());
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let quorum = voting(guarded(servers.iter().map(Server::url)).max_ttl(max_ttl)).await;
        tasks.push(tokio::spawn(watch.clone().contend(quorum, stop.clone())));
    }
    (watch, stop, tasks)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_make_progress_through_a_rolling_restart_and_never_two_hold() {
    let mut servers = servers(3).await;
    let looks = voting(guarded(servers.iter().map(Server::url))).await;
    let (watch, stop, tasks) = contenders(&servers, MAX_TTL).await;
    for (node, server) in servers.iter_mut().enumerate() {
        restart(server, &looks, node).await;
        let before = watch.sections();
        eventually("they go on, since two nodes vote", async || watch.sections() > before).await;
        votes_again(&looks, node).await;
    }
    stop.cancel();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_acquires_while_the_guard_keeps_a_majority_out() {
    let long = MAX_TTL * 2;
    let mut servers = servers(5).await;
    let (watch, stop, tasks) = contenders(&servers, long).await;
    // Three of five nodes restart. When the first of them votes again, a majority votes.
    let restarting = std::time::Instant::now();
    servers[0].restart().await;
    servers[1].restart().await;
    servers[2].restart().await;
    // Sections that began before the third restart may go on. After that, no contender gets the
    // lock.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = watch.sections();
    while restarting.elapsed() < long - Duration::from_millis(100) {
        assert_eq!(watch.sections(), before, "a majority may have forgotten");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    eventually("they go on", async || watch.sections() > before).await;
    stop.cancel();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_keeps_its_lock_through_a_rolling_restart() {
    // Twice as long as in other tests, so that renewals succeed even if the machine stalls.
    let long = MAX_TTL * 2;
    let mut servers = servers(3).await;
    let holder = voting(guarded(servers.iter().map(Server::url)).ttl(long).max_ttl(long)).await;
    let guard = holder.lock("a").acquire(PATIENCE).await.unwrap();
    let (watch, stop, tasks) = contenders(&servers, long).await;
    for (node, server) in servers.iter_mut().enumerate() {
        restart(server, &holder, node).await;
        votes_again(&holder, node).await;
        assert!(guard.is_held(), "renewals heal what restarted");
        assert_eq!(watch.sections(), 0, "two hold it");
    }
    drop(guard);
    eventually("the next gets it", async || watch.sections() > 0).await;
    stop.cancel();
    for task in tasks {
        task.await.unwrap();
    }
}
