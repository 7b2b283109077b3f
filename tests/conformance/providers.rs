//! Locks over a `LockProvider`, which a program injects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use quorumlock::{DistributedLock, Error, LockProvider, Result};

use crate::common::{PATIENCE, answer, answered, eventually, released};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

/// A program's own provider: it puts names into a scope, and counts calls.
#[derive(Debug)]
struct Scoped {
    scope: &'static str,
    of: Arc<dyn LockProvider>,
    asked: AtomicU32,
}

impl LockProvider for Scoped {
    fn lock(&self, name: &str) -> Box<dyn DistributedLock> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.of.lock(&format!("{}/{name}", self.scope))
    }
}

async fn worked(locks: &dyn LockProvider) -> Result<u64> {
    let lock = locks.lock("it");
    assert!(lock.try_acquire().await?.is_some_and(|guard| guard.is_held()));
    lock.acquire_default().await?.release().await?;
    lock.try_run(PATIENCE, |lease| async move { Ok(lease.token()) }).await
}

async fn read_and_written(locks: &dyn LockProvider) {
    let prices = locks.rw_lock("prices");
    let (one, other) = (prices.read(PATIENCE).await.unwrap(), prices.read_default().await.unwrap());
    assert!(answered(|| prices.try_read()).await.is_some_and(|reader| reader.is_held()));
    assert!(answered(|| prices.try_write()).await.is_none());
    assert!(answer(|| prices.write(Duration::ZERO)).await.unwrap_err().is_timeout());
    let read = prices.run_read(PATIENCE, |lease| async move { lease.token() }).await.unwrap();
    released(one.release()).await;
    released(other.release()).await;
    let written = prices.try_run_write(PATIENCE, |lease| async move { Ok::<_, Error>(lease.token()) }).await.unwrap();
    assert!(read < written);
    let read = prices.try_run_read(PATIENCE, |lease| async move { Ok::<_, Error>(lease.token()) }).await.unwrap();
    assert!(written < read);
    prices.run_write(PATIENCE, |lease| async move { assert!(lease.is_held()) }).await.unwrap();
    let downgraded = answered(async || prices.write(PATIENCE).await?.downgrade().await).await;
    released(downgraded.release()).await;
    released(prices.write_default().await.unwrap().release()).await;
    eventually("it is free", async || answered(|| prices.try_write()).await.is_some()).await;
}

async fn a_provider_hands_out_the_same_locks_as_its_quorum(world: impl World) {
    let client = world.client_with(|builder| builder.wait(PATIENCE)).await;
    let locks: Arc<dyn LockProvider> = Arc::new(client.clone());
    let before = world.answer(async || worked(&locks).await).await.unwrap();
    assert!(before < world.answer(async || worked(&*locks).await).await.unwrap());
    let guard = client.lock("it").acquire(PATIENCE).await.unwrap();
    assert!(locks.lock("it").try_acquire().await.unwrap().is_none());
    let (one, set) = (locks.lock("it"), locks.lock_all(&["other", "it"]));
    assert!(answer(async || one.run(Duration::ZERO, |_| async {}).await).await.unwrap_err().is_timeout());
    assert!(answer(|| set.acquire(Duration::ZERO)).await.unwrap_err().is_timeout());
    drop(guard);
    let semaphore = locks.semaphore("pool", 2);
    let two = semaphore.acquire(2, PATIENCE).await.unwrap();
    assert!(world.answer(async || semaphore.try_acquire(1).await).await.unwrap().is_none());
    released(two.release()).await;
    assert_eq!(semaphore.run(1, PATIENCE, |lease| async move { lease.permits().len() }).await.unwrap(), 1);
    assert_eq!(semaphore.acquire_default(2).await.unwrap().permits().len(), 2);
    read_and_written(&locks).await;
    read_and_written(&*locks).await;
    let prices = locks.rw_lock("prices");
    let writer = client.rw_lock("prices").write(PATIENCE).await.unwrap();
    assert!(answered(|| prices.try_read()).await.is_none() && answered(|| prices.try_write()).await.is_none());
    assert!(answer(|| prices.read(Duration::ZERO)).await.unwrap_err().is_timeout());
    assert!(answer(async || prices.run_write(Duration::ZERO, |_| async {}).await).await.unwrap_err().is_timeout());
    drop(writer);
    let set = locks.lock_all(&["other", "it"]).acquire(PATIENCE).await.unwrap();
    assert_eq!(set.names().collect::<Vec<_>>(), ["it", "other"]);
    for bad in [locks.lock(""), locks.lock_all(&[])] {
        assert!(bad.acquire_default().await.unwrap_err().is_config());
    }
}

async fn a_provider_of_a_programs_own_stands_before_a_quorum(world: impl World) {
    let client = world.client_with(|builder| builder.wait(PATIENCE)).await;
    let scoped = Scoped { scope: "shop", of: Arc::new(client.clone()), asked: AtomicU32::new(0) };
    world.answer(async || worked(&scoped).await).await.unwrap();
    let asked = scoped.asked.load(Ordering::Relaxed);
    let guard = scoped.lock("it").acquire(PATIENCE).await.unwrap();
    assert_eq!((guard.name(), scoped.asked.load(Ordering::Relaxed)), ("shop/it", asked + 1));
    assert!(asked > 0);
    let set = scoped.lock_all(&["a", "b"]);
    for error in [set.acquire(SECOND).await.err(), set.acquire_default().await.err(), set.try_acquire().await.err()] {
        let error = error.expect("it has none");
        assert!(
            error.is_config() && error.to_string().contains("does not implement locks on several names"),
            "{error}"
        );
    }
    let prices = scoped.rw_lock("prices");
    let reads = [prices.read(SECOND).await.err(), prices.read_default().await.err(), prices.try_read().await.err()];
    let writes = [prices.write(SECOND).await.err(), prices.write_default().await.err(), prices.try_write().await.err()];
    for error in reads.into_iter().chain(writes) {
        let error = error.expect("it has none");
        assert!(error.is_config() && error.to_string().contains("does not implement reader-writer locks"), "{error}");
    }
    let pool = scoped.semaphore("pool", 2);
    for error in
        [pool.acquire(1, SECOND).await.err(), pool.acquire_default(1).await.err(), pool.try_acquire(1).await.err()]
    {
        let error = error.expect("it has none");
        assert!(error.is_config() && error.to_string().contains("does not implement semaphores"), "{error}");
    }
}

both! {
    3 nodes:
        a_provider_hands_out_the_same_locks_as_its_quorum,
        a_provider_of_a_programs_own_stands_before_a_quorum;
}
