//! What a large session costs its nodes.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use quorumlock::{MAX_SESSION_NAMES, Quorum, Session};

use crate::common::server::Server;
use crate::common::{PATIENCE, eventually, servers, unguarded};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);

/// How many script calls each has carried out of those that were sent: what is asked now comes behind
/// them.
async fn calls(quorum: &Quorum, servers: &[Server]) -> Vec<u64> {
    let seen = quorum.inspect("name/0").await.unwrap();
    assert!(seen.nodes.iter().all(|(_, said)| said.is_ok()), "{seen:?}");
    servers.iter().map(calls_of).collect()
}

fn calls_of(server: &Server) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

/// Waits until all locks were renewed once more. When they end tells it for as long as they are held;
/// that a renewal is due is to be seen for a moment only.
async fn renewed(session: &Session) {
    let ends = || Instant::now() + session.remaining();
    let before = ends();
    eventually("all is renewed", async || ends() > before + TTL / 6).await;
}

/// 10,000 locks, each of its own, are renewed by at most 80 script calls a node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_locks_are_renewed_by_eighty_calls_a_node() {
    let servers = servers(3).await;
    let quorum = unguarded(&servers).ttl(TTL).connect().await.unwrap();
    let session = quorum.session().grant(PATIENCE).await.unwrap();
    let names: Vec<_> = (0..MAX_SESSION_NAMES).map(|number| format!("name/{number}")).collect();
    for some in names.chunks(500) {
        try_join_all(some.iter().map(|name| session.lock([name], 10 * SECOND))).await.unwrap();
    }
    // Whenever they were acquired, they go together from then on.
    renewed(&session).await;
    let before = calls(&quorum, &servers).await;
    renewed(&session).await;
    let after = calls(&quorum, &servers).await;
    let spent: Vec<_> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    // 128 in each call, and the question; an enrolment or two may come in between.
    assert!(spent.iter().all(|calls| (80..=82).contains(calls)), "{spent:?}");
    assert_eq!(session.held().len(), MAX_SESSION_NAMES);
    session.revoke().await.unwrap();
    let freed = calls(&quorum, &servers).await;
    let spent: Vec<_> = freed.iter().zip(after).map(|(freed, after)| freed - after).collect();
    assert!(spent.iter().all(|calls| (80..=82).contains(calls)), "and freed by as many: {spent:?}");
    assert!(servers.iter().all(|server| server.hold("name/9999").is_none()));
}
