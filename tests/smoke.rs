//! Acquires and releases a lock over five real Redis servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{ConnectAll, PATIENCE, released, servers, unguarded};
use quorumlock::Released;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_real_servers_grant_one_lock_at_a_time() {
    let servers = servers(5).await;
    let quorum = unguarded(&servers).ttl(Duration::from_secs(600)).connect_all().await;
    let inside = Arc::new(AtomicU32::new(0));
    let task = |_| {
        let (lock, inside) = (quorum.lock("orders/42"), inside.clone());
        async move {
            // The timeout is shorter than the ttl: no wait can succeed because a lock expires.
            let guard = lock.acquire(3 * PATIENCE).await.unwrap();
            let (left, began) = (guard.remaining(), Instant::now());
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            // A lock that was handed over begins with a short validity, which may end if the
            // machine stalls.
            let ended = released(guard.release()).await;
            assert!(ended == Released::Released || began.elapsed() >= left, "{ended:?}");
        }
    };
    futures::future::join_all((0..100).map(task).map(tokio::spawn)).await.into_iter().for_each(|done| done.unwrap());
    // The last node's reply to a release may still be on its way.
    quorum.quiet().await;
    assert_eq!(quorum.in_use(), (0, 0, 0));
}
