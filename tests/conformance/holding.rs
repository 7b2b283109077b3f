//! Holding a lock: reentering it, releasing it, and working under it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::poll;
use quorumlock::{LostReason, Released};

use crate::common::{PATIENCE, eventually, inspected, released};
use crate::world::{FOREIGNER, World};

const SECOND: Duration = Duration::from_secs(1);

async fn counted(world: &impl World, name: &str, count: u32) {
    for node in world.all() {
        eventually("the node knows the count", async || world.look(node, name).await.count == count).await;
    }
}

async fn reentered_lock_is_counted_and_freed_with_the_last_guard(world: impl World) {
    // Renewals send the count to the nodes. With this ttl, the lock is not lost before such a
    // renewal.
    let client = world.client_with(|builder| builder.ttl(3 * world.ttl())).await;
    let outer = client.lock("reentered").acquire(PATIENCE).await.unwrap();
    counted(&world, "reentered", 1).await;
    assert_eq!((outer.name(), outer.lease().name()), ("reentered", "reentered"));
    let shown = format!("{outer:?}");
    assert!(shown.contains("reentered") && shown.contains(&outer.token().to_string()), "{shown}");
    let inner = outer.reenter().unwrap();
    let innermost = inner.reenter().unwrap();
    assert_eq!((inner.token(), innermost.token()), (outer.token(), outer.token()));
    counted(&world, "reentered", 3).await;
    drop(outer);
    assert_eq!(released(innermost.release()).await, Released::Released);
    counted(&world, "reentered", 1).await;
    assert!(inner.is_held());
    assert!(client.lock("reentered").try_acquire().await.unwrap().is_none());
    assert_eq!(released(inner.release()).await, Released::Released);
    world.freed("reentered").await;
}

async fn a_lost_lock_cannot_be_entered_again(world: impl World) {
    let client = world.client_with(|builder| builder.ttl(world.ttl())).await;
    let guard = client.lock("gone").acquire(PATIENCE).await.unwrap();
    for node in world.all() {
        world.delete(node, "gone").await;
    }
    tokio::time::timeout(PATIENCE, guard.lost()).await.expect("the loss is told");
    assert!(guard.reenter().unwrap_err().is_lost());
    assert!(guard.ensure(Duration::ZERO).unwrap_err().is_lost());
    client.quiet().await;
    world.freed("gone").await;
}

async fn a_dropped_guard_releases(world: impl World) {
    let client = world.client_with(|builder| builder.ttl(600 * SECOND)).await;
    let guard = client.lock("dropped").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("dropped").await;
    assert_eq!(client.in_use(), (1, 2, 1), "its line, the timers of its renewal and of its deadline, and an ear");
    drop(guard);
    world.freed("dropped").await;
    client.quiet().await;
    assert_eq!(client.in_use(), (0, 0, 0));
}

async fn a_release_whose_future_is_dropped_releases(world: impl World) {
    let client = world.client_with(|builder| builder.ttl(600 * SECOND)).await;
    let guard = client.lock("dropped").acquire(PATIENCE).await.unwrap();
    {
        let mut release = Box::pin(guard.release());
        let _ = poll!(&mut release);
    }
    world.freed("dropped").await;
}

async fn a_second_release_is_harmless_to_the_next_holder(world: impl World) {
    let (first, second) = (world.client().await, world.client().await);
    let options = first.options().ttl(world.ttl()).auto_renew(false);
    let guard = first.lock_with("twice", &options).unwrap().acquire(PATIENCE).await.unwrap();
    let reason = tokio::time::timeout(PATIENCE, guard.lost()).await.expect("the loss is told");
    assert_eq!(reason, LostReason::Expired);
    first.quiet().await;
    let next = second.lock("twice").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("twice").await;
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyExpired);
    first.quiet().await;
    assert_eq!(world.holders("twice").await, world.size());
    assert!(next.is_held());
}

async fn a_release_tells_when_the_keys_were_gone_already(world: impl World) {
    let client = world.client().await;
    let guard = client.lock("gone").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("gone").await;
    for node in 0..2 {
        world.delete(node, "gone").await;
        world.take(node, "gone").await;
    }
    let release = world.confirmed(guard.release()).await;
    assert!(release.is_none_or(|release| release == Released::AlreadyExpired), "{release:?}");
    client.quiet().await;
    for node in 0..2 {
        assert_eq!(world.look(node, "gone").await.holder.as_deref(), Some(FOREIGNER));
    }
}

async fn run_releases_after_the_body_and_returns_its_result(world: impl World) {
    let client = world.client().await;
    let lock = client.lock("run");
    let output = lock.run(PATIENCE, |lease| async move { (lease.is_held(), lease.token()) }).await.unwrap();
    assert!(output.0 && output.1 > 0);
    client.quiet().await;
    world.freed("run").await;
}

/// The error type of an application's own functions.
#[derive(Debug)]
enum Failed {
    Lock(quorumlock::Error),
    Work,
}

impl From<quorumlock::Error> for Failed {
    fn from(error: quorumlock::Error) -> Self {
        Self::Lock(error)
    }
}

async fn try_run_returns_body_and_lock_errors_and_always_releases(world: impl World) {
    let client = world.client().await;
    let lock = client.lock("run");
    let token = lock.try_run(PATIENCE, |lease| async move { Ok::<_, Failed>(lease.token()) }).await.unwrap();
    assert!(token > 0);
    let failed = lock.try_run(PATIENCE, |_| async { Err::<(), _>(Failed::Work) }).await;
    assert!(matches!(failed, Err(Failed::Work)), "{failed:?}");
    let guard = lock.acquire(PATIENCE).await.expect("it was released");
    eventually("it is told that it is held", async || {
        let held = lock.try_run(Duration::ZERO, |_| async { Ok::<_, Failed>(()) }).await;
        matches!(&held, Err(Failed::Lock(error)) if error.is_timeout())
    })
    .await;
    drop(guard);
    client.quiet().await;
    world.freed("run").await;
}

/// Sets the flag when this value is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

async fn run_drops_its_body_the_moment_the_lock_is_lost(world: impl World) {
    // With this ttl, the lock is not lost before all nodes hold it.
    let client = world.client_with(|builder| builder.ttl(3 * world.ttl())).await;
    let lock = client.lock("run");
    let dropped = Arc::new(AtomicBool::new(false));
    let body = Dropped(dropped.clone());
    let running = lock.run(PATIENCE, |_| async move {
        let _body = body;
        std::future::pending::<()>().await;
    });
    let taken = async {
        world.held_everywhere("run").await;
        for node in world.all() {
            world.delete(node, "run").await;
            world.take(node, "run").await;
        }
    };
    let running = tokio::time::timeout(PATIENCE, running);
    let (error, ()) = tokio::join!(running, taken);
    let error = error.expect("the loss is told");
    assert!(error.unwrap_err().is_lost());
    assert!(dropped.load(Ordering::SeqCst));
}

async fn inspection_names_the_holder_if_a_quorum_agrees(mut world: impl World) {
    // With this ttl, no renewal restores the holds that are deleted below.
    let client = world.client_with(|builder| builder.ttl(600 * SECOND)).await;
    let agreed = async || inspected(&client, "seen").await.agreed();
    eventually("a quorum says that it is free", async || agreed().await == Some(false)).await;
    let guard = client.lock("seen").acquire(PATIENCE).await.unwrap();
    world.held_everywhere("seen").await;
    let seen = inspected(&client, "seen").await;
    assert_eq!((seen.agreed(), seen.fence()), (Some(true), guard.token()));
    assert_eq!(seen.holder(), world.look(0, "seen").await.holder.as_deref());
    world.kill(2);
    world.delete(1, "seen").await;
    let split = client.inspect("seen").await.unwrap();
    assert_eq!((split.agreed(), split.holder()), (None, None));
    assert!(split.nodes[2].1.is_err());
}

both! {
    3 nodes: reentered_lock_is_counted_and_freed_with_the_last_guard, a_lost_lock_cannot_be_entered_again,
        a_dropped_guard_releases,
        a_release_whose_future_is_dropped_releases, a_second_release_is_harmless_to_the_next_holder,
        a_release_tells_when_the_keys_were_gone_already, run_releases_after_the_body_and_returns_its_result,
        try_run_returns_body_and_lock_errors_and_always_releases,
        run_drops_its_body_the_moment_the_lock_is_lost, inspection_names_the_holder_if_a_quorum_agrees;
}
