//! <https://crates.io/crates/rslock>: one round to all nodes, which ends when all have answered.

use std::time::Instant;

use super::{Result, TTL, Took};

pub struct Rslock(rslock::LockManager);

impl Rslock {
    /// rslock connects when it acquires its first lock.
    pub fn open(ports: &[u16]) -> Self {
        let nodes = ports.iter().map(|port| format!("redis://127.0.0.1:{port}")).collect();
        Self(rslock::LockManager::new(nodes))
    }

    pub async fn pair(&self, name: &str) -> Result<Took> {
        let begun = Instant::now();
        let lock = self.0.lock(name, TTL).await?;
        let acquired = Instant::now();
        lock.release().await;
        Ok(Took { acquire: acquired - begun, release: acquired.elapsed() })
    }

    /// rslock tries again after a random pause of up to 200 ms.
    pub async fn wanted(&self, name: &str) -> Result<rslock::LockGuard> {
        Ok(self.0.acquire(name, TTL).await?)
    }
}
