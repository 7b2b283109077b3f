//! Settings that make no sense, and settings at their limits.

use std::time::Duration;

use futures::FutureExt;
use quorumlock::{LockOptions, Quorum, Released};

use crate::common::logs::Logs;
use crate::common::{ConnectAll, PATIENCE, answer, answered, released, servers, unguarded};
use crate::{SECOND, builder, refused};

#[tokio::test]
async fn bad_ttl_is_refused_with_the_allowed_range() {
    let quorum = Quorum::in_memory(3).unwrap();
    for (ttl, hint) in [
        (Duration::ZERO, "ttl is 0 s; use at least 100 ms"),
        (Duration::from_millis(1), "ttl is 1 ms; use at least 100 ms"),
        (61 * SECOND, "ttl is 61 s, above max_ttl; use at most 60 s"),
        (25 * 3_600 * SECOND, "ttl is 25 h; use at most 24 h"),
        (Duration::MAX, "use at most 24 h"),
    ] {
        let options = LockOptions::default().ttl(ttl);
        for error in [
            quorum.lock_with("a", &options).unwrap_err(),
            Quorum::builder().ttl(ttl).in_memory(3).unwrap_err(),
            crate::common::builder().node("redis://127.0.0.1:1").ttl(ttl).connect().await.unwrap_err(),
        ] {
            assert!(error.is_config() && error.to_string().contains(hint), "{error}");
        }
    }
}

#[tokio::test]
async fn lock_drift_factor_above_its_quorums_is_refused() {
    let drifting = |factor| LockOptions::default().drift_factor(factor);
    for (own, shared, hint) in [
        (0.05, 0.02, Some("drift_factor is 0.05, above the quorum's drift_factor of 0.02")),
        (0.02, 0.0, Some("above the quorum's drift_factor of 0.01")),
        (0.05, 0.05, None),
        (0.02, 0.05, None),
        (0.01, 0.0, None),
    ] {
        let quorum = Quorum::builder().options(drifting(shared)).in_memory(3).unwrap();
        let error = quorum.lock_with("a", &drifting(own)).err();
        assert_eq!(error.is_some(), hint.is_some(), "{own} with a quorum of {shared}");
        if let (Some(error), Some(hint)) = (error, hint) {
            let said = error.to_string();
            assert!(error.is_config() && said.contains(hint) && said.contains("QuorumBuilder::options"), "{said}");
        }
    }
}

#[tokio::test]
async fn a_timeout_of_zero_makes_one_try() {
    let servers = servers(3).await;
    let quorum = unguarded(&servers).connect_all().await;
    let lock = quorum.lock("zero");
    let guard = answered(|| lock.acquire(Duration::ZERO)).await;
    assert!(answer(|| lock.acquire(Duration::ZERO)).await.unwrap_err().is_timeout());
    assert!(guard.is_held());
}

#[tokio::test]
async fn an_endless_timeout_waits_until_the_lock_is_free() {
    let servers = servers(3).await;
    let (first, second) = (unguarded(&servers).connect_all().await, unguarded(&servers).connect_all().await);
    let guard = first.lock("endless").acquire(Duration::MAX).await.unwrap();
    let (next, mine) = (second.lock("endless"), first.lock("endless"));
    let held_again = async {
        released(guard.release()).await;
        released(next.acquire(Duration::MAX).await.unwrap().release()).await
    };
    let (ours, theirs) = tokio::join!(mine.acquire(Duration::MAX).then(async |guard| drop(guard.unwrap())), held_again);
    assert_eq!((ours, theirs), ((), Released::Released));
}

#[tokio::test]
async fn bad_addresses_are_refused_with_a_hint() {
    for (urls, hint) in [
        (&[][..], "no node is configured"),
        (&["redis://eu", "redis://eu:6379"], "redis://eu:6379 is configured twice"),
        (
            &["redis://eu", "rediss+tls://us"],
            "node 2 of 2: a node's address begins with \"rediss+tls://\", which is unknown",
        ),
        (&["redis-sentinel://eu"], "name independent masters"),
        (&["eu:6379"], "use redis://"),
    ] {
        let urls: Vec<_> = urls.iter().map(ToString::to_string).collect();
        assert!(refused(builder(&urls), hint).await.is_config());
    }
}

#[tokio::test]
async fn memory_quorum_of_zero_or_over_64_nodes_is_refused() {
    for nodes in [0, 65, usize::MAX] {
        assert!(Quorum::in_memory(nodes).unwrap_err().is_config());
    }
}

#[tokio::test]
async fn an_even_number_of_nodes_works_and_is_warned_of() {
    let logs = Logs::capture();
    let mut servers = servers(4).await;
    let quorum = unguarded(&servers).connect_all().await;
    assert!(logs.text().contains("an even number of nodes tolerates no more failures than one node fewer"));
    servers[3].kill();
    assert!(quorum.lock("even").acquire(PATIENCE).await.is_ok());
    servers[2].kill();
    let error = quorum.lock("even").acquire(Duration::ZERO).await.unwrap_err();
    assert!(error.to_string().contains("3 of 4 nodes must agree"), "{error}");
}
