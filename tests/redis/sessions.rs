//! How many script calls a large session costs its nodes.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use quorumlock::{LockOptions, Quorum, Session};

use crate::common::server::Server;
use crate::common::{ConnectAll, PATIENCE, eventually, inspected, released, servers, unguarded};

const TTL: Duration = Duration::from_secs(30);
/// Long enough for a busy machine: an operation that is sent again would be counted again.
const ANSWERS: Duration = Duration::from_millis(4_500);
/// How many operations go into one call, and how many calls all locks take.
const BATCH: usize = 128;
const CALLS: u64 = 16;

/// How many script calls each server has carried out. Nodes carry out operations in order, so all
/// operations before the inspection are counted.
async fn calls(quorum: &Quorum, servers: &[Server]) -> Vec<u64> {
    let _ = inspected(quorum, "name/0").await;
    servers.iter().map(calls_of).collect()
}

pub(crate) fn calls_of(server: &Server) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

/// Waits until all locks were renewed once more. `remaining` is that of the lock that ends first,
/// so this deadline moves only when each lock has a later one.
async fn renewed(session: &Session) {
    let ends = || Instant::now() + session.remaining();
    let before = ends();
    eventually("all is renewed", async || ends() > before + TTL / 6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_renews_and_releases_128_locks_in_each_call() {
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
    let mut after = calls(&quorum, &servers).await;
    let mut seen: Vec<Vec<u64>> = Vec::new();
    // If the machine stalls, calls are sent again. So one renewal of twelve must be as expected.
    while seen.last().is_none_or(|spent| !are_few(spent)) {
        assert!(seen.len() < 12, "{seen:?}");
        let before = after;
        renewed(&session).await;
        after = calls(&quorum, &servers).await;
        seen.push(spent(&before, &after));
    }
    assert_eq!(session.held().len(), names.len());
    let began = Instant::now();
    released(session.revoke()).await;
    let freed = spent(&after, &calls(&quorum, &servers).await);
    assert!(are_few(&freed) || began.elapsed() > ANSWERS, "and freed by as many: {freed:?}");
    let last = names.last().unwrap();
    eventually("it is free", async || servers.iter().all(|server| server.hold(last).is_none())).await;
}

fn spent(before: &[u64], after: &[u64]) -> Vec<u64> {
    after.iter().zip(before).map(|(after, before)| after - before).collect()
}

/// Whether each server got a call for each batch. One more call is the inspection. Some hellos may
/// come in between.
fn are_few(spent: &[u64]) -> bool {
    spent.iter().all(|calls| (CALLS + 1..=CALLS + 8).contains(calls))
}
