//! Tickets: a lock that one client acquires, and another client resumes or releases.

use std::pin::pin;
use std::time::Duration;

use quorumlock::Released;

use crate::common::{PATIENCE, eventually, released};
use crate::readers::wait_for;
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

both! {
    3 nodes:
    ticket_is_resumed_once_and_before_all_waiters,
    a_ticket_is_released_by_any_client,
    a_ticket_that_was_revoked_is_not_resumed;
    memory 3 nodes:
    a_ticket_is_too_late_when_another_has_held_the_lock;
}

async fn ticket_is_resumed_once_and_before_all_waiters(world: impl World) {
    let (one, other) = (world.client().await, world.client().await);
    let guard = one.lock("a").acquire(PATIENCE).await.unwrap();
    let (token, lease) = (guard.token(), guard.lease());
    let waiting = other.lock("a");
    let mut waits = pin!(waiting.acquire(600 * SECOND));
    tokio::select! {
        _ = &mut waits => panic!("it is held"),
        () = eventually("somebody waits", async || wait_for(&one, 1).await) => {}
    }
    let ticket = guard.into_ticket().await.unwrap();
    assert!(!lease.is_held());
    drop(one);
    let resumed = tokio::select! {
        biased;
        _ = &mut waits => panic!("it is kept for the ticket"),
        resumed = other.resume(&ticket) => resumed.unwrap(),
    };
    assert!(resumed.token() > token && resumed.is_held());
    let again = other.resume(&ticket).await.unwrap_err();
    assert!(again.is_lost(), "{again}");
    assert_eq!(other.release(&ticket).await.unwrap(), Released::AlreadyExpired);
    assert!(resumed.is_held());
    released(resumed.release()).await;
    assert!(waits.await.unwrap().token() > token);
}

async fn a_ticket_is_released_by_any_client(world: impl World) {
    let (one, other) = (world.client().await, world.client().await);
    let ticket = one.lock("a").acquire(PATIENCE).await.unwrap().into_ticket().await.unwrap();
    assert!(other.lock("a").try_acquire().await.unwrap().is_none());
    assert_eq!(other.release(&ticket.to_string().parse().unwrap()).await.unwrap(), Released::Released);
    assert!(other.lock("a").try_acquire().await.unwrap().is_some());
}

async fn a_ticket_that_was_revoked_is_not_resumed(world: impl World) {
    let client = world.client().await;
    let ticket = client.lock("a").acquire(PATIENCE).await.unwrap().into_ticket().await.unwrap();
    client.revoke("a").await.unwrap();
    let error = client.resume(&ticket).await.unwrap_err();
    assert!(error.is_lost(), "{error}");
}

async fn a_ticket_is_too_late_when_another_has_held_the_lock(world: impl World) {
    let (one, other) = (world.client().await, world.client().await);
    let options = one.options().ttl(300 * MS).auto_renew(false);
    let ticket = one.lock_with("a", &options).unwrap().acquire(PATIENCE).await.unwrap().into_ticket().await.unwrap();
    let guard = other.lock_with("a", &options).unwrap().acquire(PATIENCE).await.unwrap();
    guard.lost().await;
    std::mem::forget(guard);
    tokio::time::sleep(300 * MS).await;
    let error = one.resume(&ticket).await.unwrap_err();
    assert!(error.is_lost(), "{error}");
}
