//! A rolling upgrade to a next protocol: clients that say they speak it beside those of this one,
//! over real servers.

use std::time::{Duration, Instant};

use quorumlock::rules::roster::PROTOCOL;
use quorumlock::{NodeState, QuorumBuilder};

use crate::common::server::Server;
use crate::common::{PATIENCE, eventually, servers};

const SECOND: Duration = Duration::from_secs(1);

/// A client without the restart guard, whose locks last for three seconds: an entry lasts 18 to 23 s.
fn speaking(protocol: u32, servers: &[Server]) -> QuorumBuilder {
    let urls = servers.iter().map(Server::url);
    crate::common::builder()
        .nodes(urls)
        .max_ttl(Duration::ZERO)
        .ttl(3 * SECOND)
        .connect_timeout(PATIENCE)
        .protocol(protocol)
}

#[tokio::test]
async fn old_clients_go_one_by_one_and_new_ones_begin_when_the_last_has_gone() {
    let all = servers(3).await;
    let old = |protocol| speaking(protocol, &all);
    let first = old(PROTOCOL).connect().await.unwrap();
    let second = old(PROTOCOL).connect().await.unwrap();
    let guard = second.lock("job").acquire(PATIENCE).await.unwrap();
    let new = old(PROTOCOL + 1).open().unwrap();
    let unlisted = || new.nodes().iter().all(|node| matches!(node.state, NodeState::Unlisted { .. }));
    eventually("the new one is kept out", async || unlisted()).await;
    let refused = new.ready(Duration::ZERO).await.unwrap_err();
    let said = refused.to_string();
    for part in
        ["clients of protocol 3, and this one speaks 4", "stop the clients of one version", "23s after the last"]
    {
        assert!(refused.is_unavailable() && said.contains(part), "{part}: {said}");
    }
    first.shutdown(PATIENCE).await;
    assert!(new.lock("job").try_acquire().await.unwrap_err().is_unavailable());
    tokio::time::sleep(3 * SECOND).await;
    assert!(guard.is_held() && unlisted(), "the holder renews beside the new one");
    guard.release().await.unwrap();
    assert!(second.lock("other").try_acquire().await.unwrap().is_some());
    second.shutdown(PATIENCE).await;
    let gone = Instant::now();
    let guard = new.lock("job").acquire(60 * SECOND).await.unwrap();
    assert!(gone.elapsed() > 8 * SECOND, "{:?}", gone.elapsed());
    let late = old(PROTOCOL).open().unwrap();
    let says = "clients of protocol 4, and this one speaks 3";
    eventually(says, async || late.nodes().iter().all(|node| node.state.to_string().contains(says))).await;
    assert!(guard.is_held());
}
