//! All servers restart, one after the other, while clients contend.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quorumlock::{LockGuard, NodeState, Quorum};
use tokio_util::sync::CancellationToken;

use crate::common::server::{Server, ask};
use crate::common::{PATIENCE, eventually, servers};
use crate::{MAX_TTL, guarded, voting};

/// The state that contenders share: who is inside, and how many sections there were.
#[derive(Default)]
struct Watch {
    /// The token of the contender inside, and how long it surely holds the lock.
    inside: Mutex<Option<(u64, Instant)>>,
    sections: AtomicU64,
    highest: AtomicU64,
}

impl Watch {
    /// Acquires the lock again and again until `stop`. Fails if another contender is inside. If a
    /// thread stalls, a contender may be inside although its lock has expired.
    async fn contend(self: Arc<Self>, quorum: Quorum, stop: CancellationToken) {
        let lock = quorum.lock("a");
        while !stop.is_cancelled() {
            let Ok(guard) = lock.acquire(MAX_TTL).await else { continue };
            self.enter(&guard);
            tokio::time::sleep(Duration::from_millis(3)).await;
            self.leave(guard.token());
            let _ = guard.release().await;
        }
    }

    fn enter(&self, guard: &LockGuard) {
        let mut inside = self.inside.lock().unwrap();
        let highest = self.highest.fetch_max(guard.token(), Ordering::SeqCst);
        let now = Instant::now();
        let until = now + guard.remaining();
        if !guard.is_held() {
            return;
        }
        assert!(highest < guard.token(), "tokens fell");
        assert!(inside.is_none_or(|(_, until)| until <= now), "two inside");
        *inside = Some((guard.token(), until));
    }

    fn leave(&self, token: u64) {
        let mut inside = self.inside.lock().unwrap();
        if inside.take_if(|(inside, _)| *inside == token).is_some() {
            self.sections.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn sections(&self) -> u64 {
        self.sections.load(Ordering::SeqCst)
    }
}

fn record(quorum: &Quorum, node: usize) -> Option<Arc<str>> {
    quorum.nodes().swap_remove(node).record.map(|record| record.id)
}

/// Restarts a server, and waits until a client has seen the restart. When this returns, the node
/// may already vote again, since other clients may have seen the restart earlier.
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
async fn contenders_go_on_one_at_a_time_during_a_rolling_restart() {
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
async fn quarantine_of_a_majority_prevents_every_acquisition() {
    let long = MAX_TTL * 2;
    let mut servers = servers(5).await;
    let (watch, stop, tasks) = contenders(&servers, long).await;
    // Three of five nodes restart. When the first of them votes again, a majority votes.
    let restarting = std::time::Instant::now();
    servers[0].restart().await;
    servers[1].restart().await;
    servers[2].restart().await;
    // Locks that were acquired before the third restart last for a ttl. After that, no contender
    // has the lock.
    tokio::time::sleep(MAX_TTL).await;
    eventually("nobody is inside", async || watch.inside.lock().unwrap().is_none()).await;
    let before = watch.sections();
    loop {
        // Count first: when this thread goes on after a stall, a majority may vote.
        let sections = watch.sections();
        if restarting.elapsed() >= long - Duration::from_millis(100) {
            break;
        }
        assert_eq!(sections, before, "a majority may have forgotten");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    eventually("they go on", async || watch.sections() > before).await;
    stop.cancel();
    for task in tasks {
        task.await.unwrap();
    }
}

/// Measures how long a server takes to answer. The time also contains each stall of this process.
struct Stalls {
    longest: Arc<Mutex<Duration>>,
    over: Arc<AtomicBool>,
}

impl Stalls {
    fn watch(server: &Server) -> Self {
        let (longest, over) = (Arc::<Mutex<Duration>>::default(), Arc::<AtomicBool>::default());
        let (port, seen, ends) = (server.port(), longest.clone(), over.clone());
        std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let began = Instant::now();
                // A server that restarts refuses the connection at once.
                let _ = ask(port, &["PING"], PATIENCE);
                std::thread::sleep(Duration::from_millis(100));
                let mut longest = seen.lock().unwrap();
                *longest = (*longest).max(began.elapsed());
            }
        });
        Self { longest, over }
    }

    fn longest(&self) -> Duration {
        *self.longest.lock().unwrap()
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_keeps_its_lock_through_a_rolling_restart() {
    // This is longer than in other tests, so that renewals succeed even if the machine stalls.
    let long = MAX_TTL * 4;
    let mut servers = servers(3).await;
    let stalls = servers.iter().map(Stalls::watch).collect::<Vec<_>>();
    let holder = voting(guarded(servers.iter().map(Server::url)).ttl(long).max_ttl(long)).await;
    let guard = holder.lock("a").acquire(PATIENCE).await.unwrap();
    let (watch, stop, tasks) = contenders(&servers, long).await;
    for (node, server) in servers.iter_mut().enumerate() {
        restart(server, &holder, node).await;
        votes_again(&holder, node).await;
        let held = guard.is_held();
        if !held && stalls.iter().any(|stalls| stalls.longest() > long / 3) {
            // No renewal could come in time.
            break;
        }
        assert!(held, "renewals heal what restarted");
        assert!(watch.sections() == 0 || !guard.is_held(), "two hold it");
    }
    drop(guard);
    eventually("the next gets it", async || watch.sections() > 0).await;
    stop.cancel();
    for task in tasks {
        task.await.unwrap();
    }
}
