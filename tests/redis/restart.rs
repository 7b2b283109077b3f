//! The quarantine: a server that may have forgotten does not vote on claims.

use std::time::{Duration, Instant};

use quorumlock::{Doubt, ErrorKind, LockOptions, LostReason, NodeState, NodeStatus, Quorum, QuorumBuilder};

use crate::common::logs::Logs;
use crate::common::proxy::Proxy;
use crate::common::server::Server;
use crate::common::{ConnectAll, PATIENCE, answered, eventually, new_servers, released, servers};
use crate::{MAX_TTL, grants_nothing, guarded, is_quarantined, quarantined, voting};

const NOW: Duration = Duration::ZERO;
const MINUTE: Duration = Duration::from_secs(60);

/// Quarantines last twice as long as leases, so that tests see them even if the machine stalls.
fn careful(url: String) -> QuorumBuilder {
    guarded([url]).max_ttl(2 * MAX_TTL)
}

/// A client of a server that votes at once. The client's locks last longer than a test, even
/// without renewals.
async fn lasting(server: &Server) -> Quorum {
    voting(guarded([server.url()]).ttl(MINUTE).max_ttl(MINUTE)).await
}

fn urls(servers: &[Server]) -> Vec<String> {
    servers.iter().map(Server::url).collect()
}

/// A server that votes at once, whatever `max_ttl` is.
async fn old(options: &[&str]) -> Server {
    let server = Server::with(options).await;
    server.make_old();
    server
}

async fn is_doubted(quorum: &Quorum, why: Doubt) {
    eventually(
        "it is quarantined for that",
        async || matches!(quorum.nodes()[0].state, NodeState::Quarantined { doubt, .. } if doubt == why),
    )
    .await;
}

/// Checks that the server grants no lock until its quarantine is over, which began after `since`.
async fn votes_only_later(quorum: &Quorum, since: Instant) {
    grants_nothing(quorum, "b", since, 2 * MAX_TTL).await;
    eventually("it votes again", async || quorum.lock("b").acquire(NOW).await.is_ok()).await;
}

#[tokio::test]
async fn new_server_does_not_vote_until_its_record_is_max_ttl_old() {
    let (server, began) = (Server::start().await, Instant::now());
    let quorum = careful(server.url()).connect().await.unwrap();
    assert!(quarantined(&quorum, 0) || began.elapsed() >= 2 * MAX_TTL);
    grants_nothing(&quorum, "a", began, 2 * MAX_TTL).await;
    eventually("it votes", async || quorum.lock("a").acquire(NOW).await.is_ok()).await;
    assert!(began.elapsed() >= 2 * MAX_TTL, "{:?}", began.elapsed());
}

fn uptime(server: &Server) -> u64 {
    let info = server.command(&["INFO", "server"]);
    let uptime = info.lines().find_map(|line| line.trim().strip_prefix("uptime_in_seconds:"));
    uptime.unwrap().parse().unwrap()
}

/// A server that nobody has used, and that has run for longer than `max_ttl`.
async fn long_running() -> Server {
    let server = Server::start().await;
    eventually("it has run for long enough", async || uptime(&server) > MAX_TTL.as_secs() + 1).await;
    server
}

#[tokio::test]
async fn server_up_for_longer_than_max_ttl_votes_at_once() {
    let server = long_running().await;
    let quorum = guarded([server.url()]).connect().await.unwrap();
    assert!(quorum.lock("a").acquire(PATIENCE).await.is_ok());
    assert_eq!((server.record("word"), server.record("synced")), ("first".to_owned(), "1".to_owned()));
}

#[tokio::test]
async fn a_server_that_was_flushed_or_was_a_replica_does_not() {
    let (flushed, promoted, other) = tokio::join!(long_running(), long_running(), Server::start());
    flushed.command(&["FLUSHALL"]);
    promoted.command(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    eventually("it is a replica", async || promoted.command(&["INFO", "replication"]).contains("link_status:up")).await;
    promoted.command(&["REPLICAOF", "NO", "ONE"]);
    for server in [flushed, promoted] {
        let quorum = guarded([server.url()]).connect().await.unwrap();
        is_doubted(&quorum, Doubt::Restarted).await;
        assert_eq!(server.record("word"), "");
    }
}

#[tokio::test]
async fn servers_that_are_said_to_be_new_vote_at_once() {
    let servers = new_servers(3).await;
    // A quarantine would last longer than `acquire` waits. All nodes must answer `init` in time.
    let options = LockOptions::default().ttl(MINUTE).round_timeout(Duration::from_secs(5));
    let patient = || guarded(urls(&servers)).max_ttl(10 * MINUTE).options(options.clone());
    let looks = patient().onlooker().open().unwrap();
    eventually("all are connected", async || looks.nodes().iter().all(|node| node.run.is_some())).await;
    looks.init().await.unwrap();
    let quorum = patient().connect().await.unwrap();
    assert!(quorum.lock("a").acquire(PATIENCE).await.is_ok());
    assert!(servers.iter().all(|server| server.record("word") == "init"));
    eventually("it is told that they have a record", async || {
        let error = looks.init().await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        error.to_string().contains("it has a record")
    })
    .await;
}

/// The client holds a lock that the restarted servers have forgotten.
#[tokio::test]
async fn a_client_that_knew_the_servers_takes_the_operators_word_back() {
    let mut servers = servers(3).await;
    let quorum = voting(guarded(urls(&servers))).await;
    let guard = quorum.lock("a").acquire(PATIENCE).await.unwrap();
    for server in &mut servers {
        server.kill();
    }
    for server in &mut servers {
        server.restart().await;
    }
    // This `init` may fail: the connected client may already have made the records.
    let _ = guarded(urls(&servers)).onlooker().open().unwrap().init().await;
    eventually("no record is old", async || servers.iter().all(|server| !server.record("id").is_empty())).await;
    eventually("and none is by a word", async || servers.iter().all(|server| server.record("word").is_empty())).await;
    drop(guard);
}

#[tokio::test]
async fn server_that_restarted_with_its_data_is_quarantined_too() {
    for options in [&["--appendonly", "yes"][..], &[]] {
        let mut server = old(options).await;
        let quorum = voting(careful(server.url())).await;
        let (before, since) = (server.record("id"), Instant::now());
        server.restart().await;
        is_quarantined(&quorum, 0).await;
        eventually("it has a new id", async || ![String::new(), before.clone()].contains(&server.record("id"))).await;
        votes_only_later(&quorum, since).await;
    }
}

#[tokio::test]
async fn a_server_that_is_emptied_while_it_runs_is_found_out() {
    for emptied in [&["FLUSHALL"][..], &["DEL", "quorumlock:node"]] {
        let server = old(&[]).await;
        let (holder, other) = (voting(careful(server.url())).await, voting(careful(server.url())).await);
        let guard = holder.lock("a").acquire(PATIENCE).await.unwrap();
        let since = Instant::now();
        server.command(&["DEL", "quorumlock:{a}"]);
        server.command(emptied);
        assert_eq!(other.lock("a").acquire(NOW).await.unwrap_err().kind(), ErrorKind::Unavailable, "{emptied:?}");
        is_doubted(&other, Doubt::Forgot).await;
        let logs = Logs::capture();
        drop(guard);
        votes_only_later(&other, since).await;
        eventually("the log says so", async || logs.text().contains("the quarantine is over")).await;
    }
}

/// Point 2 of "What is not promised".
#[tokio::test]
async fn server_that_forgets_a_lock_but_no_record_grants_it_twice() {
    let server = old(&[]).await;
    let (holder, other) = (lasting(&server).await, lasting(&server).await);
    let guard = holder.lock_with("a", &holder.options().auto_renew(false)).unwrap().acquire(PATIENCE).await.unwrap();
    server.command(&["DEL", "quorumlock:{a}"]);
    let second = other.lock("a").acquire(PATIENCE).await.unwrap();
    assert!(guard.is_held() && second.is_held(), "two hold it");
    assert!(second.token() > guard.token(), "and storage that checks tokens refuses the first");
}

/// Point 3 of "What is not promised": the keys were deleted before the client connected, and the
/// server shows no trace of this.
#[tokio::test]
async fn new_client_cannot_detect_a_server_emptied_before_it_came() {
    let server = old(&[]).await;
    let holder = lasting(&server).await;
    let lock = holder.lock_with("a", &holder.options().auto_renew(false)).unwrap();
    let guard = lock.acquire(PATIENCE).await.unwrap();
    server.command(&["DEL", "quorumlock:{a}", "quorumlock:node"]);
    server.make_old();
    let other = lasting(&server).await;
    assert!(other.lock("a").acquire(NOW).await.is_ok() && guard.is_held());
}

/// Point 8 of "What is not promised".
#[tokio::test]
async fn once_permit_can_be_used_again_after_a_quorum_forgot_it() {
    let servers = servers(3).await;
    let once = async || {
        let client = crate::common::unguarded(&servers).connect_all().await;
        client.once("report", Duration::from_secs(3_600))
    };
    let (first, second, third) = (once().await, once().await, once().await);
    released(answered(|| first.claim()).await.unwrap().done()).await;
    assert!(answered(|| second.claim()).await.is_none());
    for server in &servers[..2] {
        server.command(&["DEL", "quorumlock:{report}"]);
    }
    let again = answered(|| third.claim()).await;
    released(again.expect("it is done twice in the period").done()).await;
}

/// A server that votes, a new server that nobody has used, and a proxy in front of the first one.
async fn two_behind_one() -> (Server, Server, Proxy) {
    let (first, second) = (old(&[]).await, Server::start().await);
    let proxy = Proxy::start(first.port()).await;
    (first, second, proxy)
}

#[tokio::test]
async fn swapped_server_behind_a_connection_grants_nothing_unseen() {
    let (_first, second, proxy) = two_behind_one().await;
    let quorum = voting(careful(proxy.url())).await;
    drop(quorum.lock("a").acquire(PATIENCE).await.unwrap().release().await);
    proxy.retarget(second.port());
    let error = quorum.lock("a").acquire(NOW).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(second.holder("a"), None);
    is_quarantined(&quorum, 0).await;
    eventually("it votes", async || quorum.lock("a").acquire(NOW).await.is_ok()).await;
}

#[tokio::test]
async fn another_server_that_nobody_asks_anything_is_seen_by_a_hello() {
    let (_first, second, proxy) = two_behind_one().await;
    // The quarantine lasts longer than the test.
    let quorum = voting(guarded([proxy.url()]).max_ttl(MINUTE)).await;
    proxy.retarget(second.port());
    is_quarantined(&quorum, 0).await;
}

#[tokio::test]
async fn snapshot_from_before_the_lock_lets_no_second_holder_in() {
    let mut servers = servers(3).await;
    let (holder, other) = (voting(guarded(urls(&servers))).await, voting(guarded(urls(&servers))).await);
    // Check this now: after the restart, the holder's renewal may come before the check.
    for server in &servers[..2] {
        assert_eq!((server.command(&["SAVE"]), server.holder("a")), ("OK".to_owned(), None), "it is from before");
    }
    let guard = holder.lock("a").acquire(PATIENCE).await.unwrap();
    for server in &mut servers[..2] {
        server.restart().await;
    }
    let began = Instant::now();
    let second = loop {
        let held = guard.is_held();
        match other.lock("a").acquire(NOW).await {
            Ok(second) => break second,
            // A lock that was lost must not become held again.
            Err(_) => assert!(held || !guard.is_held()),
        }
        assert!(began.elapsed() < PATIENCE, "they never vote again");
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    assert!(!guard.is_held(), "two hold it");
    assert!(second.token() > guard.token());
}

#[tokio::test]
async fn replica_promoted_at_the_same_address_is_quarantined() {
    let (master, replica, proxy) = two_behind_one().await;
    // The quarantine lasts longer than the test.
    let quorum = voting(guarded([proxy.url()]).max_ttl(2 * MINUTE)).await;
    replica.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    eventually("the replica is in step", async || replica.command(&["INFO", "replication"]).contains("link_status:up"))
        .await;
    let guard = quorum.lock("a").acquire(PATIENCE).await.unwrap();
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    proxy.retarget(replica.port());
    proxy.reset();
    is_doubted(&quorum, Doubt::Restarted).await;
    // The replica has the holder's key, so renewals go on. But claims are refused, although the
    // replica has been up for a long time.
    assert_eq!(quorum.lock("b").acquire(NOW).await.unwrap_err().kind(), ErrorKind::Unavailable);
    drop(guard);
}

#[tokio::test]
async fn a_master_that_was_a_replica_for_a_moment_is_quarantined() {
    let (server, empty) = (old(&[]).await, Server::start().await);
    // The quarantine lasts longer than the test.
    let quorum = voting(guarded([server.url()]).max_ttl(MINUTE)).await;
    let guard = quorum.lock("a").acquire(PATIENCE).await.unwrap();
    server.command(&["REPLICAOF", "127.0.0.1", &empty.port().to_string()]);
    // A replica refuses writes, so no client makes another record.
    eventually("the memory is the other's", async || server.record("id").is_empty()).await;
    server.command(&["REPLICAOF", "NO", "ONE"]);
    is_quarantined(&quorum, 0).await;
    drop(guard);
}

#[tokio::test]
async fn a_replica_that_joins_a_master_changes_nothing() {
    let (server, replica) = (old(&[]).await, Server::start().await);
    let quorum = voting(guarded([server.url()])).await;
    replica.command(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]);
    eventually("the replica is in step", async || replica.command(&["INFO", "replication"]).contains("link_status:up"))
        .await;
    let other = voting(guarded([server.url()])).await;
    for _ in 0..20 {
        assert!(!quarantined(&quorum, 0) && !quarantined(&other, 0));
        drop(quorum.lock("a").acquire(PATIENCE).await.unwrap().release().await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn lock_forgotten_by_its_only_node_is_lost_at_the_next_renewal() {
    let mut server = old(&[]).await;
    // Most of this ttl must be left when the server is back.
    let quorum = voting(guarded([server.url()]).ttl(10 * MAX_TTL).max_ttl(10 * MAX_TTL)).await;
    let guard = quorum.lock("a").acquire(PATIENCE).await.unwrap();
    server.restart().await;
    assert_eq!(guard.lost().await, LostReason::Forgotten, "and not when its time is over");
    is_quarantined(&quorum, 0).await;
}

/// How many warnings of the node's quarantine are in the log.
fn warnings(logs: &Logs, server: &Server) -> usize {
    let (url, text) = (server.url(), logs.text());
    text.lines().filter(|line| line.starts_with("WARN") && line.contains(&url) && line.contains("quarantined")).count()
}

/// Waits until the node has a record again, and the client has seen it. Returns the record's id.
async fn new_record(quorum: &Quorum, server: &Server, before: &str) -> String {
    let is_known =
        |node: NodeStatus, id: &str| *node.node == server.url() && node.record.is_some_and(|it| *it.id == *id);
    eventually("it has a new record, and the client knows this record", async || {
        let id = server.record("id");
        !id.is_empty() && id != before && quorum.nodes().into_iter().any(|node| is_known(node, &id))
    })
    .await;
    server.record("id")
}

#[tokio::test]
async fn loss_of_a_nodes_record_is_warned_of_once() {
    let servers = servers(3).await;
    // Quarantines last longer than the test.
    let quorum = voting(guarded(urls(&servers)).ttl(MINUTE).max_ttl(MINUTE)).await;
    let names = || (0..8).map(|number| format!("job/{number}"));
    let mut guards = Vec::new();
    for name in names() {
        guards.push(quorum.lock(name).acquire(PATIENCE).await.unwrap());
    }
    let logs = Logs::capture();
    let waiters = names().map(|name| {
        let lock = quorum.lock(name);
        tokio::spawn(async move { lock.acquire(PATIENCE).await })
    });
    let waiters: Vec<_> = waiters.collect();
    let mut ids: Vec<_> = servers[..2].iter().map(|server| server.record("id")).collect();
    for round in 1..=2 {
        for (server, id) in servers[..2].iter().zip(&mut ids) {
            server.command(&["FLUSHALL"]);
            *id = new_record(&quorum, server, id).await;
            assert_eq!(warnings(&logs, server), round, "{}", logs.text());
        }
    }
    assert_eq!(warnings(&logs, &servers[2]), 0);
    waiters.iter().for_each(|waiter| waiter.abort());
}

/// Without this right, the script cannot read the record, so its replies show none.
#[tokio::test]
async fn loss_after_a_return_of_the_record_is_warned_of_too() {
    let server = old(&[]).await;
    let quorum = lasting(&server).await;
    let (id, logs) = (server.record("id"), Logs::capture());
    let is_unreadable = || quorum.nodes()[0].unreadable.is_some();
    server.command(&["ACL", "SETUSER", "default", "-hmget"]);
    eventually("a loss is logged, and a hello fails", async || {
        let _ = quorum.lock("job").acquire(NOW).await;
        warnings(&logs, &server) == 1 && is_unreadable()
    })
    .await;
    server.command(&["ACL", "SETUSER", "default", "+hmget"]);
    eventually("a hello shows the record again", async || !is_unreadable()).await;
    assert_eq!(server.record("id"), id);
    server.command(&["FLUSHALL"]);
    new_record(&quorum, &server, &id).await;
    assert_eq!(warnings(&logs, &server), 2, "{}", logs.text());
}

/// The snapshot has an older record than the client knows.
#[tokio::test]
async fn restart_from_an_old_snapshot_is_warned_of_once() {
    let mut server = old(&[]).await;
    let quorum = lasting(&server).await;
    let id = server.record("id");
    assert_eq!(
        (server.command(&["SAVE"]), server.command(&["DEL", "quorumlock:node"])),
        ("OK".to_owned(), "1".to_owned())
    );
    new_record(&quorum, &server, &id).await;
    let logs = Logs::capture();
    for round in 1..=2 {
        server.restart().await;
        new_record(&quorum, &server, &id).await;
        assert_eq!(warnings(&logs, &server), round, "{}", logs.text());
    }
}

#[tokio::test]
async fn restart_of_a_node_is_warned_of_once() {
    for options in [&["--appendonly", "yes"][..], &[]] {
        let mut server = old(options).await;
        let quorum = lasting(&server).await;
        let logs = Logs::capture();
        let mut id = server.record("id");
        for round in 1..=2 {
            server.restart().await;
            id = new_record(&quorum, &server, &id).await;
            assert_eq!(warnings(&logs, &server), round, "{options:?} {}", logs.text());
        }
    }
}
