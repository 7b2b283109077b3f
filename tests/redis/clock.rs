//! How clients judge the clocks of servers: the clocks are faked, and are stepped forward or back,
//! or drift.

use std::time::{Duration, Instant};

use quorumlock::node::NodeState;
use quorumlock::rules::doubt::Doubt;
use quorumlock::{ErrorKind, LockOptions, Quorum};

use crate::common::clockwork::Clockwork;
use crate::common::proxy::{Proxy, Way};
use crate::common::{PATIENCE, eventually, inspected};
use crate::{MAX_TTL, grants_nothing, guarded, voting};

const NOW: Duration = Duration::ZERO;

/// Sends an operation to the node, so that the client sees its clock.
async fn look(quorum: &Quorum) {
    let _ = inspected(quorum, "anything").await;
}

/// Checks that the node is quarantined, because its clock was stepped after `since`. If the test
/// stalled, the quarantine may be over.
async fn is_stepped(quorum: &Quorum, since: Instant) {
    look(quorum).await;
    let state = quorum.nodes().swap_remove(0).state;
    let is_stepped = matches!(state, NodeState::Quarantined { doubt: Doubt::ClockStepped, .. });
    assert!(is_stepped || since.elapsed() >= MAX_TTL, "{state:?}");
}

#[tokio::test]
async fn a_clock_stepped_forward_gives_nobody_a_lock_that_is_held() {
    let node = Clockwork::start("+0").await;
    let (holder, other) = (voting(guarded([node.server.url()])).await, voting(guarded([node.server.url()])).await);
    look(&other).await;
    let guard = holder.lock("a").acquire(PATIENCE).await.unwrap();
    let (before, stepped) = (node.time(), Instant::now());
    node.set("+30");
    assert!(node.time() >= before + 30, "the clock was stepped");
    assert_eq!(node.server.holder("a"), None, "the hold ended early");
    let error = other.lock("a").acquire(NOW).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    is_stepped(&other, stepped).await;
    let second = loop {
        if let Ok(second) = other.lock("a").acquire(NOW).await {
            break second;
        }
        assert!(stepped.elapsed() < PATIENCE, "it never votes again");
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    assert!(!guard.is_held(), "two hold it");
    assert!(second.token() > guard.token());
}

/// The node may have ended the hold early, and may grant the name to another client. So the holder
/// must renew at once.
#[tokio::test]
async fn holder_renews_at_once_if_the_clock_of_its_node_was_stepped() {
    let node = Clockwork::start("+0").await;
    // By this clock, the server has been up for twenty minutes, so its quarantine is over.
    node.set("+1200");
    let long = Duration::from_secs(600);
    let quorum = voting(guarded([node.server.url()]).ttl(long).max_ttl(long)).await;
    look(&quorum).await;
    let guard = quorum.lock("a").acquire(PATIENCE).await.unwrap();
    node.set("+1400");
    look(&quorum).await;
    let left = || node.server.hold("a").map_or(0, |(.., left)| left);
    // The next regular renewal comes after a third of the ttl, which is far longer than
    // `eventually` waits.
    eventually("the node holds it for a whole ttl again", async || left() > 500_000).await;
    assert!(guard.is_held());
}

#[tokio::test]
async fn a_clock_stepped_back_is_quarantined_and_votes_again_later() {
    let node = Clockwork::start("+0").await;
    let quorum = voting(guarded([node.server.url()])).await;
    look(&quorum).await;
    let stepped = Instant::now();
    node.set("-30");
    is_stepped(&quorum, stepped).await;
    grants_nothing(&quorum, "a", stepped, MAX_TTL).await;
    eventually("it votes again", async || quorum.lock("a").acquire(NOW).await.is_ok()).await;
}

#[tokio::test]
async fn clock_set_back_between_connections_quarantines_the_node() {
    let node = Clockwork::start("+0").await;
    let proxy = Proxy::start(node.server.port()).await;
    let quorum = voting(guarded([proxy.url()])).await;
    proxy.refuse(true);
    proxy.reset();
    eventually("it is gone", async || matches!(quorum.nodes()[0].state, NodeState::Down { .. })).await;
    node.set("-30");
    proxy.refuse(false);
    crate::is_quarantined(&quorum, 0).await;
    eventually("it votes again", async || quorum.lock("a").acquire(NOW).await.is_ok()).await;
}

/// Point 4 of "What is not promised".
#[tokio::test]
async fn a_step_that_is_undone_before_the_next_answer_is_not_seen() {
    let (node, minute) = (Clockwork::start("+0").await, Duration::from_secs(60));
    node.server.make_old();
    let proxy = Proxy::start(node.server.port()).await;
    let client = |url: String| guarded([format!("{url}?name=one")]).ttl(minute).max_ttl(minute);
    let (holder, other) = (voting(client(proxy.url())).await, voting(client(node.server.url())).await);
    let guard = holder.lock("a").acquire(PATIENCE).await.unwrap();
    other.shutdown(PATIENCE).await;
    proxy.requests(Way::Held);
    node.set("+90");
    // This client is new, so it has not seen the step.
    let next = voting(client(node.server.url())).await;
    let second = next.lock("a").acquire(PATIENCE).await.unwrap();
    assert!(guard.is_held() && second.is_held(), "two hold it");
    node.set("+0");
    proxy.requests(Way::Open);
    eventually("the holder learns that it lost it", async || !guard.is_held()).await;
}

#[tokio::test]
async fn a_clock_that_drifts_within_the_bound_is_never_quarantined() {
    assert_eq!(steps_seen("+0 x1.003", 0.01).await, 0);
}

#[tokio::test]
async fn a_clock_that_drifts_far_beyond_the_bound_is_quarantined() {
    assert!(steps_seen("+0 x1.1", 0.01).await > 0, "or else the drift above is not real");
}

#[tokio::test]
async fn the_bound_is_the_drift_factor_of_the_quorum() {
    assert_eq!(steps_seen("+0 x1.1", 0.2).await, 0);
}

/// Checks a node every 100 ms, for some seconds and until it has answered often enough. Returns how
/// often the node was in quarantine.
async fn steps_seen(clock: &str, drift_factor: f64) -> usize {
    let node = Clockwork::start(clock).await;
    node.server.make_old();
    let options = LockOptions::default().drift_factor(drift_factor).ttl(MAX_TTL);
    let quorum = guarded([node.server.url()]).options(options).connect().await.unwrap();
    let began = Instant::now();
    let (mut answers, mut seen) = (0, 0);
    while began.elapsed() < Duration::from_secs(5) || answers < 20 {
        assert!(began.elapsed() < 2 * PATIENCE, "{answers} answers");
        let said = quorum.inspect("anything").await.unwrap();
        answers += u32::from(said.nodes[0].1.is_ok());
        // On a busy machine, the node may also be down. Do not count that.
        seen += usize::from(crate::quarantined(&quorum, 0));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    seen
}
