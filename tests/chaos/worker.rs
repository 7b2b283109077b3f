//! A worker process. Its tasks contend for a few names, work while they hold a lock, and report
//! which locks they believe that they hold.

use std::time::Duration;

use quorumlock::{LockGuard, LostReason, Quorum};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustix::process::{Signal, getpid, kill_process};
use tokio::io::AsyncReadExt;

use crate::storage::Writer;
use crate::told::{Event, clock, tell};
use crate::{MAX_TTL, NAMES, TTL};

/// How many tasks a process has.
const TASKS: usize = 4;

/// The command line of a worker.
pub struct Orders {
    pub seed: u64,
    pub storage: u16,
    pub nodes: Vec<String>,
}

impl Orders {
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--worker".to_owned(), self.seed.to_string(), self.storage.to_string()];
        arguments.extend(self.nodes.iter().cloned());
        arguments
    }

    pub fn parse(arguments: &[String]) -> Self {
        let [seed, storage, nodes @ ..] = arguments else { panic!("a worker needs a seed, a storage and nodes") };
        Self { seed: seed.parse().unwrap(), storage: storage.parse().unwrap(), nodes: nodes.to_vec() }
    }
}

/// Runs until standard input ends.
pub async fn run(orders: Orders) {
    let builder = || crate::common::builder().nodes(&orders.nodes).ttl(TTL).max_ttl(MAX_TTL).node_timeout(TTL / 4);
    let quorum = builder().open().expect("settings make sense");
    for task in 0..TASKS {
        let seed = orders.seed.wrapping_mul(31).wrapping_add(task as u64);
        let (quorum, storage) = (quorum.clone(), Writer::connect(orders.storage).await);
        tokio::spawn(Worker { task, quorum, storage, random: SmallRng::seed_from_u64(seed) }.run());
    }
    tokio::spawn(tell_usage());
    let _ = tokio::io::stdin().read(&mut [0]).await;
    quorum.shutdown(TTL / 2).await;
    // The shutdown tells tasks that their locks are lost. Give the tasks time to report this.
    tokio::time::sleep(Duration::from_millis(50)).await;
}

async fn tell_usage() {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let resident: u64 = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks() as u64;
        tell(0, &Event::Uses { memory: resident * 4, tasks });
    }
}

struct Worker {
    task: usize,
    quorum: Quorum,
    storage: Writer,
    random: SmallRng,
}

impl Worker {
    async fn run(mut self) {
        loop {
            let name = self.random.gen_range(0..NAMES.len());
            match self.acquire(name).await {
                Some(guard) => self.section(name, guard).await,
                None => {
                    tell(self.task, &Event::Missed);
                    tokio::time::sleep(Duration::from_millis(self.random.gen_range(1..20))).await;
                }
            }
        }
    }

    /// Acquires by a random method: a try, a call that is cancelled soon, or a call that waits.
    async fn acquire(&mut self, name: usize) -> Option<LockGuard> {
        let options = self.quorum.options().ttl(TTL).auto_renew(self.random.gen_bool(0.5));
        let lock = self.quorum.lock_with(NAMES[name], &options).expect("the options make sense");
        match self.random.gen_range(0..100) {
            0..15 => lock.try_acquire().await.ok().flatten(),
            15..30 => {
                let patience = Duration::from_micros(self.random.gen_range(50..20_000));
                tokio::select! {
                    guard = lock.acquire(5 * TTL) => guard.ok(),
                    () = tokio::time::sleep(patience) => None,
                }
            }
            _ => lock.acquire(2 * TTL).await.ok(),
        }
    }

    async fn section(&mut self, name: usize, guard: LockGuard) {
        let at = clock();
        if !guard.is_held() {
            return;
        }
        let token = guard.token();
        tell(self.task, &Event::Believed { name, token, at, deadline: deadline(&guard) });
        self.write(name, token, &guard).await;
        if !self.work(&guard).await {
            return;
        }
        if self.random.gen_ratio(1, 300) {
            // Stop between the check and the write: only fencing tokens protect the storage here.
            tell(self.task, &Event::Stopping);
            kill_process(getpid(), Signal::STOP).expect("a process may stop itself");
        }
        self.write(name, token, &guard).await;
        if guard.is_held() {
            tell(self.task, &Event::Released { at: clock() });
        }
        if self.random.gen_bool(0.9) {
            let _ = guard.release().await;
        }
    }

    /// Holds the lock for a while, and checks it now and then. Returns whether the lock was held to
    /// the end.
    async fn work(&mut self, guard: &LockGuard) -> bool {
        let millis = match self.random.gen_range(0..1_000) {
            0..800 => self.random.gen_range(0..4),
            800..970 => self.random.gen_range(4..100),
            _ => self.random.gen_range(100..3 * TTL.as_millis() as u64),
        };
        let ends = clock() + millis * 1_000_000;
        while clock() < ends {
            let nap = Duration::from_nanos(ends.saturating_sub(clock())).min(Duration::from_millis(10));
            tokio::select! {
                reason = guard.lost() => {
                    tell(self.task, &Event::Told { expired: reason == LostReason::Expired, at: clock() });
                    return false;
                }
                () = tokio::time::sleep(nap) => {}
            }
            self.look(guard);
        }
        true
    }

    async fn write(&mut self, name: usize, token: u64, guard: &LockGuard) {
        self.storage.write(name, token).await;
        self.look(guard);
    }

    fn look(&self, guard: &LockGuard) {
        let at = clock();
        if guard.is_held() {
            tell(self.task, &Event::Still { at, deadline: deadline(guard) });
        }
    }
}

/// When the lock ends unless it is renewed. This is slightly early, since the clock is read first.
fn deadline(guard: &LockGuard) -> u64 {
    clock() + u64::try_from(guard.remaining().as_nanos()).unwrap_or(u64::MAX / 2)
}
