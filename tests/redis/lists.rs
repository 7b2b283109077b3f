//! Clients whose lists differ: they find each other out by the rosters of the nodes that they share.

use std::time::{Duration, Instant};

use quorumlock::{NodeState, Quorum, QuorumBuilder};

use crate::common::eventually;
use crate::common::server::Server;
use crate::common::servers;

const SECOND: Duration = Duration::from_secs(1);

/// A client without the restart guard, whose locks last for a second: an entry lasts 16 s.
fn brief(servers: &[&Server]) -> QuorumBuilder {
    let urls = servers.iter().map(|server| server.url());
    Quorum::builder().nodes(urls).max_ttl(Duration::ZERO).ttl(SECOND).connect_timeout(3 * SECOND)
}

fn unlisted(quorum: &Quorum, node: usize) -> bool {
    matches!(quorum.nodes()[node].state, NodeState::Unlisted { .. })
}

#[tokio::test]
async fn of_two_lists_that_share_a_node_the_second_waits_until_the_first_has_gone() {
    let all = servers(5).await;
    let [a, b, c, d, e] = &all[..] else { panic!("five servers") };
    let first = brief(&[a, b, c]).connect().await.unwrap();
    let guard = first.lock("shared").acquire(SECOND).await.unwrap();
    let refused = brief(&[c, d, e]).connect().await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    let said = refused.to_string();
    assert!(said.contains("another list") && said.contains("2 of them not in this client's"), "{said}");
    assert!(said.contains("wait 16s after the last has stopped"), "{said}");
    let second = brief(&[c, d, e]).open().unwrap();
    eventually("all its nodes are unlisted", async || (0..3).all(|node| unlisted(&second, node))).await;
    let error = second.lock("shared").try_acquire().await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("another list"), "{error}");
    assert!(guard.is_held());
    drop(guard);
    first.shutdown(SECOND).await;
    second.ready(40 * SECOND).await.unwrap();
    assert!(second.lock("shared").acquire(5 * SECOND).await.is_ok());
}

#[tokio::test]
async fn lists_of_different_lengths_exclude_each_other() {
    let all = servers(3).await;
    let [a, b, c] = &all[..] else { panic!("three servers") };
    let _first = brief(&[a, b, c]).connect().await.unwrap();
    let refused = brief(&[a]).connect().await.unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("theirs has 3 nodes") && said.contains("this one 1"), "{said}");
}

#[tokio::test]
async fn lists_that_share_a_quorum_go_on_with_what_they_share() {
    let all = servers(4).await;
    let [a, b, c, d] = &all[..] else { panic!("four servers") };
    let first = brief(&[a, b, c]).connect().await.unwrap();
    let second = brief(&[b, c, d]).connect().await.unwrap();
    assert!(unlisted(&second, 2) && !unlisted(&second, 0));
    let guard = first.lock("both").acquire(SECOND).await.unwrap();
    assert!(second.lock("both").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(second.lock("both").acquire(5 * SECOND).await.is_ok());
}

#[tokio::test]
async fn all_go_on_when_a_node_has_restarted() {
    let mut all = servers(3).await;
    let clients = [brief(&all.iter().collect::<Vec<_>>()).connect().await.unwrap(), {
        brief(&all.iter().collect::<Vec<_>>()).connect().await.unwrap()
    }];
    let guard = clients[0].lock("held").acquire(SECOND).await.unwrap();
    all[2].kill();
    all[2].restart().await;
    eventually("the new process is listed by both", async || {
        clients.iter().all(|client| client.nodes().iter().all(|node| node.state == NodeState::Up))
    })
    .await;
    assert!(guard.is_held());
    all[0].kill();
    assert!(clients[1].lock("other").acquire(5 * SECOND).await.is_ok(), "its votes count");
}

#[tokio::test]
async fn an_onlooker_sees_the_rosters_and_is_in_none() {
    let all = servers(3).await;
    let nodes: Vec<_> = all.iter().collect();
    let looks = brief(&nodes[..2]).onlooker().connect().await.unwrap();
    assert!(looks.lock("a").try_acquire().await.unwrap_err().is_config());
    let client = brief(&nodes).connect().await.unwrap();
    let told = Quorum::builder().nodes(nodes.iter().map(|node| node.url())).onlooker().connect().await.unwrap();
    eventually("the rosters are told", async || {
        told.nodes()
            .iter()
            .all(|node| node.listed == Some(true) && node.roster.as_ref().is_some_and(|it| it.servers.len() == 3))
    })
    .await;
    assert!(client.lock("a").acquire(SECOND).await.is_ok());
}

#[tokio::test]
async fn a_larger_max_ttl_is_everybodys_and_ends_no_vote_that_counts() {
    let mut all = servers(3).await;
    let urls: Vec<_> = all.iter().map(Server::url).collect();
    let guarded = |longest: u32| Quorum::builder().nodes(urls.clone()).ttl(SECOND).max_ttl(SECOND * longest);
    let votes = async |quorum: &Quorum| quorum.nodes().iter().all(|node| node.state == NodeState::Up);
    let small = guarded(1).connect().await.unwrap();
    eventually("servers are no longer young", async || votes(&small).await).await;
    let _large = guarded(60).connect().await.unwrap();
    eventually("a roster tells it", async || {
        small.nodes().iter().any(|node| node.roster.as_ref().is_some_and(|it| it.max_ttl == SECOND * 60))
    })
    .await;
    assert!(votes(&small).await, "what restarted before is none of it");
    all[2].kill();
    all[2].restart().await;
    eventually(
        "the new process is quarantined for longer than a second",
        async || matches!(small.nodes()[2].state, NodeState::Quarantined { left, .. } if left > 30 * SECOND),
    )
    .await;
}

#[tokio::test]
async fn new_servers_vote_as_soon_as_their_quarantine_is_over() {
    let all = servers(3).await;
    let began = Instant::now();
    let quorum = Quorum::builder().nodes(all.iter().map(Server::url)).ttl(SECOND).max_ttl(SECOND).connect().await;
    assert!(quorum.unwrap().lock("a").acquire(10 * SECOND).await.is_ok());
    assert!(began.elapsed() < 6 * SECOND, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_process_that_starts_beside_another_does_not_wait_for_a_machine_that_hangs() {
    let all = servers(3).await;
    let nodes: Vec<_> = all.iter().collect();
    let first = brief(&nodes).node_timeout(5 * SECOND).connect().await.unwrap();
    all[2].stop();
    let began = Instant::now();
    let second = brief(&nodes).node_timeout(5 * SECOND).connect().await;
    let second = second.unwrap();
    let guard = second.lock("a").acquire(5 * SECOND).await.unwrap();
    assert!(began.elapsed() < 3 * SECOND, "{:?}", began.elapsed());
    assert!(first.lock("a").try_acquire().await.unwrap().is_none());
    drop(guard);
    all[2].resume();
}

#[tokio::test]
async fn a_node_that_restarts_while_no_client_runs_is_left_out_and_said_to_be() {
    let mut all = servers(3).await;
    let first = brief(&all.iter().collect::<Vec<_>>()).connect().await.unwrap();
    first.shutdown(SECOND).await;
    all[2].kill();
    all[2].restart().await;
    let second = brief(&all.iter().collect::<Vec<_>>()).connect().await.unwrap();
    eventually("the new one is left out", async || unlisted(&second, 2)).await;
    let said = second.nodes()[2].state.to_string();
    assert!(said.contains("was replaced while no client of this list ran"), "{said}");
    assert!(second.lock("a").acquire(5 * SECOND).await.is_ok());
}

#[tokio::test]
async fn a_lock_that_is_longer_than_those_before_is_enrolled_first() {
    let all = servers(3).await;
    let quorum = brief(&all.iter().collect::<Vec<_>>()).connect().await.unwrap();
    assert!(quorum.lock("short").try_acquire().await.unwrap().is_some());
    let long = quorum.lock_with("long", &quorum.options().ttl(40 * SECOND)).unwrap();
    assert!(long.try_acquire().await.unwrap().is_some());
    let lasts: u64 = all[0].command(&["PTTL", "quorumlock:node:roster"]).parse().unwrap();
    assert!(lasts > 50_000, "{lasts}");
}
