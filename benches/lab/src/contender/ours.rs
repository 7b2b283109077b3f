//! This repository's lock, with its defaults, over either transport.

use std::time::{Duration, Instant};

use quorumlock::{LockGuard, NodeState, Quorum, QuorumBuilder, Transport};
use tokio::time::sleep;

use super::{Result, Took};

/// The library's default ttl. All contenders with a ttl get this ttl.
pub const TTL: Duration = Duration::from_secs(30);
/// How long to wait for a lock that nobody else wants.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long to wait until all nodes vote. That takes about ten milliseconds; under a profiler, seconds.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Ours(pub Quorum);

impl Ours {
    pub async fn connect(ports: &[u16], transport: Transport) -> Result<Self> {
        Ok(Self(list(ports).transport(transport).connect().await?))
    }

    pub async fn pair(&self, name: &str) -> Result<Took> {
        let begun = Instant::now();
        let guard = self.0.lock(name).acquire(TIMEOUT).await?;
        let acquired = Instant::now();
        guard.release().await?;
        Ok(Took { acquire: acquired - begun, release: acquired.elapsed() })
    }

    pub async fn wanted(&self, name: &str) -> Result<LockGuard> {
        Ok(self.0.lock(name).acquire(TIMEOUT).await?)
    }

    pub async fn close(self) {
        self.0.shutdown(Duration::from_secs(1)).await;
    }
}

/// A builder with the default `max_ttl`, as services use it. The nodes have names, so clients that
/// reach the same servers through different relays have the same list.
fn list(ports: &[u16]) -> QuorumBuilder {
    let node = |(at, port): (usize, &u16)| format!("redis://127.0.0.1:{port}?name=node-{}", at + 1);
    Quorum::builder().nodes(ports.iter().enumerate().map(node)).ttl(TTL)
}

/// Lets new servers vote at once, as `quorumlock init` does.
///
/// # Errors
/// If a server has served a client, or does not answer.
pub async fn init(ports: &[u16]) -> Result<()> {
    let quorum = list(ports).onlooker().open()?;
    quorum.init().await?;
    quorum.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

/// Builds quorums, for measurements of this library alone.
pub struct Quorums;

impl Quorums {
    /// A builder for these servers, without the restart guard. The servers are new, so the guard
    /// would only make clients wait.
    pub fn builder(ports: &[u16]) -> QuorumBuilder {
        let nodes = ports.iter().map(|port| format!("redis://127.0.0.1:{port}"));
        Quorum::builder().nodes(nodes).max_ttl(Duration::ZERO).ttl(TTL)
    }
}

/// Waits until all nodes vote.
///
/// # Errors
/// If that takes longer than a minute.
pub async fn all_vote(quorum: &Quorum) -> Result<()> {
    let began = Instant::now();
    while quorum.nodes().iter().any(|node| node.state != NodeState::Up) {
        if began.elapsed() > PATIENCE {
            return Err("not all nodes vote".into());
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
