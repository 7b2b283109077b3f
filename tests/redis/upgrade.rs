//! A rolling upgrade to a next protocol: clients that say they speak it beside those of this one,
//! over real servers.

use std::time::{Duration, Instant};

use quorumlock::rules::roster::PROTOCOL;
use quorumlock::{NodeState, QuorumBuilder};

use crate::common::eventually;
use crate::common::server::Server;
use crate::common::servers;

const SECOND: Duration = Duration::from_secs(1);

/// A client without the restart guard, whose locks last for a second: an entry lasts 16 to 21 s.
fn speaking(protocol: u32, servers: &[Server]) -> QuorumBuilder {
    let urls = servers.iter().map(Server::url);
    crate::common::builder()
        .nodes(urls)
        .max_ttl(Duration::ZERO)
        .ttl(SECOND)
        .connect_timeout(3 * SECOND)
        .protocol(protocol)
}

#[tokio::test]
async fn old_clients_go_one_by_one_and_new_ones_begin_when_the_last_has_gone() {
    let all = servers(3).await;
    let old = |protocol| speaking(protocol, &all);
    let first = old(PROTOCOL).connect().await.unwrap();
    let second = old(PROTOCOL).connect().await.unwrap();
    let guard = second.lock("job").acquire(5 * SECOND).await.unwrap();
    let refused = old(PROTOCOL + 1).connect().await.unwrap_err();
    let said = refused.to_string();
    for part in
        ["clients of protocol 2, and this one speaks 3", "stop the clients of one version", "21s after the last"]
    {
        assert!(refused.is_unavailable() && said.contains(part), "{part}: {said}");
    }
    let new = old(PROTOCOL + 1).open().unwrap();
    let unlisted = || new.nodes().iter().all(|node| matches!(node.state, NodeState::Unlisted { .. }));
    eventually("the new one is kept out", async || unlisted()).await;
    first.shutdown(SECOND).await;
    assert!(new.lock("job").try_acquire().await.unwrap_err().is_unavailable());
    tokio::time::sleep(3 * SECOND).await;
    assert!(guard.is_held() && unlisted(), "the holder renews beside the new one");
    guard.release().await.unwrap();
    assert!(second.lock("other").try_acquire().await.unwrap().is_some());
    second.shutdown(SECOND).await;
    let gone = Instant::now();
    let guard = new.lock("job").acquire(60 * SECOND).await.unwrap();
    assert!(gone.elapsed() > 8 * SECOND && gone.elapsed() < 40 * SECOND, "{:?}", gone.elapsed());
    let late = old(PROTOCOL).connect().await.unwrap_err();
    assert!(late.to_string().contains("clients of protocol 3, and this one speaks 2"), "{late}");
    assert!(guard.is_held());
}
