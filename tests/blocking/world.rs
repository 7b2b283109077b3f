//! Nodes in memory, or real servers, and clients of them.

use std::thread;
use std::time::{Duration, Instant};

use quorumlock::blocking::Quorum;
use quorumlock::{LockOptions, QuorumBuilder};
use tokio::runtime::Runtime;

use crate::common::server::Server;
use crate::common::{self, PATIENCE, unguarded};

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);
pub const HOUR: Duration = Duration::from_secs(3_600);

/// Three nodes.
pub enum World {
    /// Nodes in memory belong to one client. All other clients are clones of this client.
    Memory(Quorum),
    Redis(Vec<Server>),
}

impl World {
    pub fn memory() -> Self {
        let builder = QuorumBuilder::default().max_ttl(Duration::ZERO);
        Self::Memory(Quorum::in_memory_with(builder.ttl(600 * SECOND), 3).unwrap())
    }

    pub fn redis() -> Self {
        Self::Redis(servers(3))
    }

    /// A client whose locks do not end by themselves while a test runs.
    pub fn client(&self) -> Quorum {
        match self {
            Self::Memory(quorum) => quorum.clone(),
            Self::Redis(servers) => Quorum::connect(lasting(servers)).unwrap(),
        }
    }
}

pub fn servers(count: usize) -> Vec<Server> {
    Runtime::new().unwrap().block_on(common::servers(count))
}

/// A builder for clients whose locks do not end by themselves while a test runs, even on a busy
/// machine. Calls that need a quorum have the longest round timeout.
pub fn lasting(servers: &[Server]) -> QuorumBuilder {
    let options = LockOptions::default().ttl(600 * SECOND).round_timeout(5 * SECOND);
    unguarded(servers).options(options).node_timeout(20 * SECOND)
}

pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "never came true: {what}");
        thread::sleep(2 * MS);
    }
}

/// Whether nobody holds `name` or waits for it.
pub fn is_free(quorum: &Quorum, name: &str) -> bool {
    quorum.lock(name).try_acquire().unwrap().is_some()
}

/// Waits until nobody holds `name`.
pub fn freed(quorum: &Quorum, name: &str) {
    quorum.lock(name).acquire(PATIENCE).unwrap().release().unwrap();
}
