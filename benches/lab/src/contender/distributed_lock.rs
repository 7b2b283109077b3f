//! <https://crates.io/crates/distributed-lock-redis>: over fred 9.

use std::time::{Duration, Instant};

use distributed_lock_core::traits::{DistributedLock as _, LockHandle as _, LockProvider as _};
use distributed_lock_redis::{RedisLockHandle, RedisLockProvider};

use super::{Result, TTL, Took};

/// The pause before the next try for a lock that somebody else holds.
const PAUSE: Duration = Duration::from_millis(10);

pub struct DistributedLock(RedisLockProvider);

impl DistributedLock {
    pub async fn connect(ports: &[u16]) -> Result<Self> {
        let nodes: Vec<_> = ports.iter().map(|port| format!("redis://127.0.0.1:{port}")).collect();
        Ok(Self(RedisLockProvider::builder().urls(&nodes).expiry(TTL).build().await?))
    }

    pub async fn pair(&self, name: &str) -> Result<Took> {
        let lock = self.0.create_lock(name);
        let begun = Instant::now();
        let handle = lock.try_acquire().await?.ok_or("a name that nobody wants was not granted")?;
        let acquired = Instant::now();
        handle.release().await?;
        Ok(Took { acquire: acquired - begun, release: acquired.elapsed() })
    }

    /// The crate does not try again by itself, so this function does.
    pub async fn wanted(&self, name: &str) -> Result<RedisLockHandle> {
        let lock = self.0.create_lock(name);
        loop {
            if let Some(handle) = lock.try_acquire().await? {
                return Ok(handle);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
