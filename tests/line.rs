//! The waiting line: several clients contend over the same memory nodes, at chosen distances, on a clock that only moves when all wait.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use quorumlock::host::{Host, TokioTime};
use quorumlock::node::fault::{Faults, FaultyNode};
use quorumlock::node::{MemoryNode, Node, Verb};
use quorumlock::{LockOptions, Quorum};
use tokio::runtime::Handle;

const MS: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(600);

/// Clients over shared nodes.
struct World {
    clients: Vec<(Quorum, Vec<Faults>)>,
}

impl World {
    /// `clients` clients, each as far from node number i as `round_trips[i]` says.
    fn new(clients: usize, round_trips: &[Duration], options: &LockOptions) -> Self {
        let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
        let label = |node| format!("memory://{node}");
        let shared: Vec<Arc<MemoryNode>> =
            (0..round_trips.len()).map(|node| Arc::new(MemoryNode::new(&label(node), host.clone()))).collect();
        let client = |_| {
            let (mut nodes, mut faults) = (Vec::<Arc<dyn Node>>::new(), Vec::new());
            for (node, round_trip) in shared.iter().zip(round_trips) {
                let (node, fault) = FaultyNode::new(node.clone(), host.clone());
                fault.delay(*round_trip / 2, *round_trip / 2);
                nodes.push(node);
                faults.push(fault);
            }
            (Quorum::builder().options(options.clone()).over(host.clone(), nodes).unwrap(), faults)
        };
        Self { clients: (0..clients).map(client).collect() }
    }

    fn commands(&self) -> u64 {
        let asked = |faults: &Faults| Verb::ALL.iter().map(|verb| faults.asked(*verb)).sum::<u64>();
        self.clients.iter().flat_map(|(_, faults)| faults.iter().map(asked)).sum()
    }
}

/// What a time of contention came to.
#[derive(Debug)]
struct Contention {
    sections: Vec<u32>,
    per_second: f64,
    commands: f64,
}

impl Contention {
    fn spread(&self) -> f64 {
        f64::from(*self.sections.iter().max().unwrap()) / f64::from(*self.sections.iter().min().unwrap())
    }
}

/// `workers` workers over all clients, one after the other in a section of `hold`, for `seconds`.
async fn contend(world: &World, workers: usize, hold: Duration, seconds: u64) -> Contention {
    let inside = Arc::new(AtomicU32::new(0));
    let last = Arc::new(AtomicU64::new(0));
    let began = tokio::time::Instant::now();
    let end = began + Duration::from_secs(seconds);
    let work = |worker: usize| {
        let lock = world.clients[worker % world.clients.len()].0.lock("one");
        let (inside, last) = (inside.clone(), last.clone());
        async move {
            let mut sections = 0;
            while tokio::time::Instant::now() < end {
                let guard = lock.acquire(PATIENCE).await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
                assert!(last.swap(guard.token(), Ordering::SeqCst) < guard.token(), "tokens grow");
                tokio::time::sleep(hold).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(guard);
                sections += 1;
            }
            sections
        }
    };
    let before = world.commands();
    let sections: Vec<u32> = futures::future::join_all((0..workers).map(work)).await;
    let commands = world.commands() - before;
    let total = sections.iter().sum::<u32>();
    Contention {
        per_second: f64::from(total) / began.elapsed().as_secs_f64(),
        commands: commands as f64 / f64::from(total),
        sections,
    }
}

#[tokio::test(start_paused = true)]
async fn explore() {
    for (name, trips, passes, workers, clients) in [
        ("equal 10", [10; 5], 8, 16, 4),
        ("equal 10 strict", [10; 5], 0, 16, 4),
        ("equal 10 strict, 64", [10; 5], 0, 64, 4),
        ("equal 10, 64 in 16", [10; 5], 8, 64, 16),
        ("equal 10 one process", [10; 5], 8, 16, 1),
        ("equal 10 one process strict", [10; 5], 0, 16, 1),
        ("far", [2, 12, 40, 80, 160], 8, 16, 4),
        ("far 64", [2, 12, 40, 80, 160], 8, 64, 4),
        ("far 64 strict", [2, 12, 40, 80, 160], 0, 64, 4),
        ("far 64 strict 64", [2, 12, 40, 80, 160], 0, 64, 64),
        ("near", [0; 5], 8, 16, 4),
    ] {
        let trips: Vec<_> = trips.iter().map(|&ms| MS * ms).collect();
        let world = World::new(clients, &trips, &LockOptions::default().max_passes(passes));
        let c = contend(&world, workers, 5 * MS, 30).await;
        println!("{name}: {:.1}/s spread {:.2} commands {:.1} least {}", c.per_second, c.spread(), c.commands, c.sections.iter().min().unwrap());
    }
}
