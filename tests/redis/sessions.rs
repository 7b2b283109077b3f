//! How many script calls a large session costs its nodes.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use quorumlock::{LockOptions, Quorum, Session};

use crate::common::server::Server;
use crate::common::{ConnectAll, PATIENCE, eventually, servers, unguarded};

const TTL: Duration = Duration::from_secs(30);
/// Long enough for a busy machine: an operation that is sent again would be counted again.
const ANSWERS: Duration = Duration::from_millis(4_500);
/// How many operations go into one call, and how many calls all locks take.
const BATCH: usize = 128;
const CALLS: u64 = 16;

/// How many script calls each server has carried out. The inspection comes after all operations
/// that were sent before, so these are counted.
async fn calls(quorum: &Quorum, servers: &[Server]) -> Vec<u64> {
    let seen = quorum.inspect("name/0").await.unwrap();
    assert!(seen.nodes.iter().all(|(_, said)| said.is_ok()), "{seen:?}");
    servers.iter().map(calls_of).collect()
}

pub(crate) fn calls_of(server: &Server) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

/// Waits until all locks were renewed once more. The deadline shows this until the next renewal.
async fn renewed(session: &Session) {
    let ends = || Instant::now() + session.remaining();
    let before = ends();
    eventually("all is renewed", async || ends() > before + TTL / 6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_locks_are_renewed_and_released_by_a_call_for_128_of_them() {
    let servers = servers(3).await;
    let options = LockOptions::default().ttl(TTL).round_timeout(ANSWERS);
    let quorum = unguarded(&servers).options(options).node_timeout(ANSWERS).connect_all().await;
    let session = quorum.session().grant(PATIENCE).await.unwrap();
    let names: Vec<_> = (0..CALLS as usize * BATCH).map(|number| format!("name/{number}")).collect();
    for some in names.chunks(BATCH) {
        try_join_all(some.iter().map(|name| session.lock([name], PATIENCE))).await.unwrap();
    }
    // After the first renewal, all locks are renewed together.
    renewed(&session).await;
    let before = calls(&quorum, &servers).await;
    renewed(&session).await;
    let after = calls(&quorum, &servers).await;
    let spent: Vec<_> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    // One more call is the inspection. Some hellos may come in between.
    assert!(spent.iter().all(|calls| (CALLS + 1..=CALLS + 8).contains(calls)), "{spent:?}");
    assert_eq!(session.held().len(), names.len());
    session.revoke().await.unwrap();
    let freed = calls(&quorum, &servers).await;
    let spent: Vec<_> = freed.iter().zip(after).map(|(freed, after)| freed - after).collect();
    assert!(spent.iter().all(|calls| (CALLS + 1..=CALLS + 8).contains(calls)), "and freed by as many: {spent:?}");
    let last = names.last().unwrap();
    assert!(servers.iter().all(|server| server.hold(last).is_none()));
}
