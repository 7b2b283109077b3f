//! The restart guard: a server that may have forgotten does not vote on claims.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use quorumlock::{ErrorKind, LostReason};

use crate::common::fake::{ENROL, Fake, asks_for, well};
use crate::common::proxy::Proxy;
use crate::common::server::Server;
use crate::common::{PATIENCE, eventually, servers};
use crate::{MAX_TTL, guarded, is_quarantined, quarantined, voting};

const NOW: Duration = Duration::ZERO;

fn urls(servers: &[Server]) -> Vec<String> {
    servers.iter().map(Server::url).collect()
}

/// How far into a second the wall clock is.
fn subsecond() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64().fract()
}

/// One server behind a proxy, of which a client knows, and one more that is not known yet. Both
/// have been up for long enough, and have run the script.
async fn two_behind_one() -> (Server, Server, Proxy) {
    let (first, second) = (Server::start().await, Server::start().await);
    let proxy = Proxy::start(first.port()).await;
    let other = voting(guarded([second.url()])).await;
    other.lock("warm").acquire(PATIENCE).await.unwrap().release().await.unwrap();
    (first, second, proxy)
}

#[tokio::test]
async fn a_fresh_server_votes_on_no_claim_until_its_uptime_is_certainly_max_ttl() {
    // Started late in a second, it tells an uptime of one second a little later.
    eventually("a second is nearly over", async || subsecond() > 0.8).await;
    let began = Instant::now();
    let server = Server::start().await;
    eventually("the next second began", async || subsecond() < 0.5).await;
    let quorum = guarded([server.url()]).connect().await.unwrap();
    assert!(quarantined(&quorum, 0));
    assert_eq!(quorum.lock("a").acquire(NOW).await.unwrap_err().kind(), ErrorKind::Unavailable);
    eventually("it votes", async || quorum.lock("a").acquire(NOW).await.is_ok()).await;
    assert!(began.elapsed() >= MAX_TTL, "{:?}", began.elapsed());
}

#[tokio::test]
async fn another_server_behind_the_same_connection_is_seen_before_its_vote_counts() {
    let (_first, second, proxy) = two_behind_one().await;
    let quorum = voting(guarded([proxy.url()])).await;
    quorum.lock("a").acquire(PATIENCE).await.unwrap().release().await.unwrap();
    proxy.retarget(second.port());
    let error = quorum.lock("a").acquire(NOW).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    is_quarantined(&quorum, 0).await;
    eventually("it votes again", async || quorum.lock("a").acquire(NOW).await.is_ok()).await;
}

#[tokio::test]
async fn what_the_other_server_granted_before_it_was_seen_is_released() {
    let (_first, second, proxy) = two_behind_one().await;
    let quorum = voting(guarded([proxy.url()])).await;
    proxy.retarget(second.port());
    quorum.lock("a").acquire(NOW).await.unwrap_err();
    let held = || second.holder("a");
    let began = Instant::now();
    eventually("nothing is held", async || held().is_none()).await;
    assert!(began.elapsed() < MAX_TTL, "it was released, and did not only expire");
}

#[tokio::test]
async fn another_server_that_nobody_asks_anything_is_seen_by_the_probe() {
    let (_first, second, proxy) = two_behind_one().await;
    let quorum = voting(guarded([proxy.url()])).await;
    proxy.retarget(second.port());
    is_quarantined(&quorum, 0).await;
}

/// It would write the run of the server before to the roster of the one that answers now.
#[tokio::test]
async fn an_enrolment_is_not_sent_again_to_who_does_not_know_the_script() {
    let (forgot, looked, sent) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (forgot.clone(), looked.clone(), sent.clone());
    let fake = Fake::start(move |words| {
        let (forgot, looked, sent) = &counts;
        match &*words[0] {
            "EVALSHA" if asks_for(words, ENROL) => {
                forgot.fetch_add(1, Ordering::SeqCst);
                return b"-NOSCRIPT No matching script.\r\n".to_vec();
            }
            "EVAL" if asks_for(words, ENROL) => _ = sent.fetch_add(1, Ordering::SeqCst),
            "INFO" if forgot.load(Ordering::SeqCst) > 0 => _ = looked.fetch_add(1, Ordering::SeqCst),
            _ => {}
        }
        well(words)
    })
    .await;
    let _quorum = guarded([fake.url()]).open().unwrap();
    eventually("it is asked who it is", async || looked.load(Ordering::SeqCst) > 0).await;
    eventually("it is asked again", async || forgot.load(Ordering::SeqCst) > 1).await;
    assert_eq!(sent.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_snapshot_from_before_the_lock_lets_nobody_in_while_it_is_held() {
    let mut servers = servers(3).await;
    let (holder, other) = (voting(guarded(urls(&servers))).await, voting(guarded(urls(&servers))).await);
    for server in &servers[..2] {
        server.command(&["SAVE"]);
    }
    let guard = holder.lock("a").acquire(PATIENCE).await.unwrap();
    for server in &mut servers[..2] {
        server.restart().await;
        assert_eq!(server.holder("a"), None, "the snapshot is from before");
    }
    let second = loop {
        let held = guard.is_held();
        match other.lock("a").acquire(NOW).await {
            Ok(second) => break second,
            // Held before the nodes were asked and after: nobody else may have got it.
            Err(_) => assert!(held || !guard.is_held()),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    assert!(!guard.is_held(), "two hold it");
    assert!(second.token() > guard.token());
}

#[tokio::test]
async fn a_replica_promoted_at_the_same_address_is_quarantined_from_when_it_is_seen() {
    let (master, replica, proxy) = two_behind_one().await;
    let quorum = voting(guarded([proxy.url()])).await;
    replica.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    eventually("the replica is in step", async || replica.command(&["INFO", "replication"]).contains("link_status:up"))
        .await;
    let guard = quorum.lock("a").acquire(PATIENCE).await.unwrap();
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    proxy.retarget(replica.port());
    proxy.reset();
    is_quarantined(&quorum, 0).await;
    // The holder's key came over, so renewals go on; claims are refused though the replica has been
    // up for long.
    assert_eq!(quorum.lock("b").acquire(NOW).await.unwrap_err().kind(), ErrorKind::Unavailable);
    drop(guard);
}

#[tokio::test]
async fn a_master_that_was_a_replica_for_a_moment_is_quarantined() {
    let (server, empty) = (Server::start().await, Server::start().await);
    let quorum = voting(guarded([server.url()])).await;
    let guard = quorum.lock("a").acquire(PATIENCE).await.unwrap();
    server.command(&["REPLICAOF", "127.0.0.1", &empty.port().to_string()]);
    eventually("the memory is the other's", async || server.holder("a").is_none()).await;
    server.command(&["REPLICAOF", "NO", "ONE"]);
    is_quarantined(&quorum, 0).await;
    drop(guard);
}

#[tokio::test]
async fn a_replica_that_joins_a_master_changes_nothing() {
    let (server, replica) = (Server::start().await, Server::start().await);
    let quorum = voting(guarded([server.url()])).await;
    replica.command(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]);
    eventually("the replica is in step", async || replica.command(&["INFO", "replication"]).contains("link_status:up"))
        .await;
    let other = voting(guarded([server.url()])).await;
    for _ in 0..20 {
        assert!(!quarantined(&quorum, 0) && !quarantined(&other, 0));
        quorum.lock("a").acquire(PATIENCE).await.unwrap().release().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_lock_whose_only_node_forgot_it_is_told_lost_at_the_next_renewal() {
    let mut server = Server::start().await;
    // Most of it is left when the server is back.
    let quorum = voting(guarded([server.url()]).ttl(3 * MAX_TTL).max_ttl(3 * MAX_TTL)).await;
    let guard = quorum.lock("a").acquire(PATIENCE).await.unwrap();
    server.restart().await;
    assert_eq!(guard.lost().await, LostReason::Refused, "and not when its time is over");
    // It is being enrolled.
    is_quarantined(&quorum, 0).await;
}
