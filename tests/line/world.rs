//! Clients at chosen distances from shared memory nodes.

use std::sync::Arc;
use std::time::Duration;

use crate::fault::{Faults, FaultyNode};
use quorumlock::host::{Host, TokioTime};
use quorumlock::node::{MemoryNode, Node};
use quorumlock::{LockOptions, Quorum};
use tokio::runtime::Handle;

pub const MS: Duration = Duration::from_millis(1);
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Clients over shared nodes.
pub struct World {
    pub clients: Vec<(Quorum, Vec<Faults>)>,
}

impl World {
    /// `clients` clients, each as far from node number i as `round_trips[i]` says.
    pub fn new(clients: usize, round_trips: &[Duration], options: &LockOptions) -> Self {
        Self::of(&vec![round_trips.to_vec(); clients], options)
    }

    /// A client for each line of `round_trips`: client c is as far from node i as line c says.
    pub fn of(round_trips: &[Vec<Duration>], options: &LockOptions) -> Self {
        let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
        let label = |node| format!("memory://{node}");
        let shared: Vec<Arc<MemoryNode>> =
            (0..round_trips[0].len()).map(|node| Arc::new(MemoryNode::new(&label(node), host.clone()))).collect();
        let client = |round_trips: &Vec<Duration>| {
            let (mut nodes, mut faults) = (Vec::<Arc<dyn Node>>::new(), Vec::new());
            for (node, round_trip) in shared.iter().zip(round_trips) {
                let (node, fault) = FaultyNode::new(node.clone(), host.clone());
                fault.delay(*round_trip / 2, *round_trip / 2);
                nodes.push(node);
                faults.push(fault);
            }
            (Quorum::builder().options(options.clone()).over(host.clone(), nodes).unwrap(), faults)
        };
        Self { clients: round_trips.iter().map(client).collect() }
    }

    pub fn calls(&self) -> u64 {
        self.clients.iter().flat_map(|(_, faults)| faults.iter().map(Faults::calls)).sum()
    }
}

pub fn millis<const N: usize>(trips: [u32; N]) -> [Duration; N] {
    trips.map(|ms| MS * ms)
}
