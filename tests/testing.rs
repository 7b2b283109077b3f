//! `quorumlock::testing`, on which users' own tests rely.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

mod common;

use std::pin::pin;
use std::time::Duration;

use futures::FutureExt;
use quorumlock::{LostReason, Owner, Quorum, testing};

use common::{ConnectAll, PATIENCE, servers, unguarded};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_foreign_holder_keeps_the_lock_until_it_is_dropped() {
    let quorum = Quorum::in_memory(3).unwrap();
    let lock = quorum.lock("it");
    let other = testing::hold(&quorum, "it").await.unwrap();
    assert!(format!("{other:?}").contains("\"it\""));
    assert!(lock.try_acquire().await.unwrap().is_none());
    // Wait for much longer than the ttl.
    assert!(lock.acquire(600 * SECOND).await.unwrap_err().is_timeout());
    let mut waits = pin!(lock.acquire(600 * SECOND));
    assert!((&mut waits).now_or_never().is_none());
    let token = other.token();
    drop(other);
    assert!(waits.await.unwrap().token() > token);
}

#[tokio::test(start_paused = true)]
async fn foreign_holder_excludes_callers_under_the_same_key_format() {
    let quorum = Quorum::builder().key_format("acme/{name}").max_ttl(SECOND).ttl(SECOND).in_memory(5).unwrap();
    let guard = quorum.lock("it").acquire_default().await.unwrap();
    let error = testing::hold(&quorum, "it").await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    let release = async {
        tokio::time::sleep(SECOND).await;
        guard.release().await.unwrap();
    };
    let (other, ()) = tokio::join!(testing::hold(&quorum, "it"), release);
    assert!(quorum.lock("it").try_acquire().await.unwrap().is_none());
    assert!(!testing::lose(&quorum, "it").unwrap(), "it is not this quorum's");
    assert!(quorum.lock("it").try_acquire().await.unwrap().is_none());
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn lose_revokes_the_lock_of_its_holder_at_once() {
    let quorum = Quorum::in_memory(3).unwrap();
    assert!(!testing::lose(&quorum, "it").unwrap());
    let guard = quorum.lock("it").acquire_default().await.unwrap();
    let other = quorum.lock("other").acquire_default().await.unwrap();
    let cancelled = guard.cancellation();
    assert!(testing::lose(&quorum.clone(), "it").unwrap());
    assert!(!guard.is_held() && cancelled.is_cancelled() && other.is_held());
    assert_eq!(guard.lost().now_or_never(), Some(LostReason::Revoked));
    assert!(!testing::lose(&quorum, "it").unwrap(), "it is lost already");
    assert!(quorum.lock("it").try_acquire().await.unwrap().is_none(), "its guard keeps others out");
    let token = guard.token();
    drop(guard);
    assert!(quorum.lock("it").acquire_default().await.unwrap().token() > token);
}

#[tokio::test(start_paused = true)]
async fn loss_of_one_name_ends_the_set_and_all_guards_of_its_owner() {
    let (quorum, owner) = (Quorum::in_memory(3).unwrap(), Owner::new());
    let set = quorum.lock_all(["a", "b"]).owned_by(&owner);
    let (first, second) = (set.acquire_default().await.unwrap(), set.acquire_default().await.unwrap());
    assert!(testing::lose(&quorum, "b").unwrap());
    assert!(!first.is_held() && !second.is_held());
    drop((first, second));
    assert!(quorum.lock("a").acquire_default().await.unwrap().is_held());
}

#[tokio::test]
async fn hold_and_lose_refuse_real_nodes_and_empty_names() {
    let servers = servers(1).await;
    let quorum = unguarded(&servers).connect_all().await;
    let guard = quorum.lock("it").acquire(PATIENCE).await.unwrap();
    for error in [testing::hold(&quorum, "other").await.unwrap_err(), testing::lose(&quorum, "it").unwrap_err()] {
        assert!(
            error.is_config() && error.to_string().contains("needs a quorum in memory (Quorum::in_memory)"),
            "{error}"
        );
    }
    assert!(guard.is_held());
    let quorum = Quorum::in_memory(3).unwrap();
    for error in [testing::hold(&quorum, "").await.unwrap_err(), testing::lose(&quorum, "").unwrap_err()] {
        assert!(error.is_config() && error.to_string().contains("name is empty"), "{error}");
    }
    quorum.shutdown(PATIENCE).await;
    assert!(testing::hold(&quorum, "it").await.unwrap_err().is_closed());
}
