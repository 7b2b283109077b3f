//! Clients with different lists of nodes notice each other by the nodes that they share.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use quorumlock::{LockGuard, LostReason, NodeCause, NodeState, Quorum, QuorumBuilder};

use crate::common::proxy::{Proxy, Way};
use crate::common::server::Server;
use crate::common::{ConnectAll, PATIENCE, eventually, is_taken, refused, released, servers, unguarded};
use crate::voting;

const SECOND: Duration = Duration::from_secs(1);

/// A client whose list lapses soon: 9.6 s after the last client of the list has gone.
fn brief(servers: &[&Server]) -> QuorumBuilder {
    lasting(servers).max_ttl(6 * SECOND).ttl(6 * SECOND)
}

/// A client whose locks and whose list last even if the machine stalls.
fn lasting(servers: &[&Server]) -> QuorumBuilder {
    of(servers.iter().map(|server| server.url()))
}

fn of(nodes: impl IntoIterator<Item = String>) -> QuorumBuilder {
    crate::common::builder().nodes(nodes).max_ttl(60 * SECOND).ttl(60 * SECOND).connect_timeout(PATIENCE)
}

fn name(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

fn has_other_list(quorum: &Quorum, node: usize) -> bool {
    matches!(quorum.nodes()[node].state, NodeState::OtherList { .. })
}

fn all_vote(quorum: &Quorum) -> bool {
    quorum.nodes().iter().all(|node| node.state == NodeState::Up)
}

/// Whether the lock is held. If the machine stalled, the lock may have expired.
async fn is_unharmed(guard: &LockGuard) -> bool {
    guard.is_held() || guard.lost().await == LostReason::Expired
}

#[tokio::test]
async fn second_list_on_a_shared_node_waits_until_the_first_is_gone() {
    let all = servers(5).await;
    let [a, b, c, d, e] = &all[..] else { panic!("five servers") };
    // The shared node must have this list before the other list comes.
    let first = voting(brief(&[a, b, c])).await;
    let guard = first.lock("shared").acquire(PATIENCE).await.unwrap();
    let said = refused(brief(&[c, d, e]), "another list").await.to_string();
    assert!(all.iter().all(|server| said.contains(&name(server))), "both sides: {said}");
    let second = brief(&[c, d, e]).open().unwrap();
    eventually("it meets the other list", async || has_other_list(&second, 0)).await;
    let error = second.lock("shared").try_acquire().await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("another list"), "{error}");
    assert_eq!(error.nodes()[0].cause, NodeCause::OtherList, "{error}");
    assert!(is_unharmed(&guard).await && first.lock("other").acquire(PATIENCE).await.is_ok());
    drop(guard);
    first.shutdown(PATIENCE).await;
    second.ready(PATIENCE).await.unwrap();
    assert!(second.lock("shared").acquire(PATIENCE).await.is_ok());
}

#[tokio::test]
async fn lists_of_another_length_and_another_max_ttl_are_other_lists() {
    let all = servers(3).await;
    let [a, b, c] = &all[..] else { panic!("three servers") };
    let _first = voting(brief(&[a, b, c])).await;
    refused(brief(&[a]), "another list").await;
    refused(brief(&[a, b, c]).max_ttl(60 * SECOND), "another list").await;
}

/// An upgrade may lead to clients with two versions of the protocol.
#[tokio::test]
async fn the_same_nodes_with_another_protocol_are_another_list() {
    let all = servers(1).await;
    all[0].put_in_force(&format!("default 6000 5 {}", name(&all[0])), 600_000);
    let error = refused(brief(&[&all[0]]), "another list").await;
    assert!(error.to_string().contains("ours has protocol 4, theirs has 5"), "{error}");
}

#[tokio::test]
async fn node_of_a_list_with_another_name_has_no_vote() {
    let all = servers(5).await;
    let [a, b, c, d, e] = &all[..] else { panic!("five servers") };
    let first = voting(lasting(&[a, b, c])).await;
    let second = lasting(&[c, d, e]).list_name("jobs").connect().await.unwrap();
    eventually("the shared node is the first list's", async || has_other_list(&second, 0)).await;
    let one = first.lock("each").acquire(PATIENCE).await.unwrap();
    let other = second.lock("each").acquire(PATIENCE).await.unwrap();
    assert!(one.is_held() && other.is_held(), "they have nothing to do with each other");
}

#[tokio::test]
async fn a_holder_that_meets_another_list_of_its_name_loses_its_lock() {
    let all = servers(3).await;
    // The lock must not expire before the client meets the other list.
    let client = brief(&all.iter().collect::<Vec<_>>()).max_ttl(15 * SECOND).ttl(15 * SECOND);
    let client = client.connect().await.unwrap();
    let guard = client.lock("held").acquire(PATIENCE).await.unwrap();
    all[1].put_in_force("default 60000 4 wrong:1 wrong:2 wrong:3", 600_000);
    assert_eq!(guard.lost().await, LostReason::OtherList);
    let error = client.lock("other").try_acquire().await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("wrong:2"), "{error}");
    all[1].put_in_force("default 60000 4 wrong:1 wrong:2 wrong:3", 1);
    assert!(client.lock("other").acquire(PATIENCE).await.is_ok(), "it has lapsed");
}

/// Regions may use different addresses for the same server.
#[tokio::test]
async fn same_node_names_make_one_list_whatever_the_addresses() {
    let all = servers(3).await;
    let [here, there] = ["127.0.0.1", "localhost"].map(|host| {
        let named = |builder: QuorumBuilder, server: &Server| {
            builder.node_named(format!("n{}", server.port()), format!("redis://{host}:{}", server.port()))
        };
        all.iter().fold(of([]), named)
    });
    let (here, there) = (here.connect().await.unwrap(), there.connect().await.unwrap());
    let guard = here.lock("common").acquire(PATIENCE).await.unwrap();
    assert!(is_taken(&there.lock("common")).await);
    drop(guard);
    assert!(there.lock("common").acquire(PATIENCE).await.is_ok());
    eventually("all vote for both", async || all_vote(&here) && all_vote(&there)).await;
}

/// A client of a list whose first node is `first`. Clients with another `first` have the same list.
fn with_first(first: &Server, others: &[Server]) -> QuorumBuilder {
    of(others.iter().map(Server::url)).node_named("one", first.url())
}

#[tokio::test]
async fn twin_servers_are_detected_and_have_no_vote() {
    let all = servers(4).await;
    let [first, again, others @ ..] = &all[..] else { panic!("four servers") };
    let one = with_first(first, others).connect().await.unwrap();
    let other = with_first(again, others).connect().await.unwrap();
    let found = |quorum: &Quorum| matches!(quorum.nodes()[2].state, NodeState::Twins { .. });
    eventually("both find it out", async || found(&one) && found(&other)).await;
    let guard = one.lock("held").acquire(PATIENCE).await.unwrap();
    assert!(is_taken(&other.lock("held")).await, "by the two that they share");
    released(guard.release()).await;
    other.shutdown(PATIENCE).await;
    eventually("it votes again", async || all_vote(&one)).await;
}

/// Point 5 of "What is not promised": no node can tell the two clients of each other.
#[tokio::test]
async fn twin_servers_without_another_shared_node_go_undetected() {
    let all = servers(2).await;
    let alone = async |server: &Server| with_first(server, &[]).connect().await.unwrap();
    let (one, other) = (alone(&all[0]).await, alone(&all[1]).await);
    let first = one.lock("both").acquire(PATIENCE).await.unwrap();
    let second = other.lock("both").acquire(PATIENCE).await.unwrap();
    assert!(first.is_held() && second.is_held(), "two hold it");
}

#[tokio::test]
async fn clients_go_on_after_a_node_restarted_empty() {
    let mut all = servers(3).await;
    let clients = [unguarded(&all).connect_all().await, unguarded(&all).connect_all().await];
    let guard = clients[0].lock("held").acquire(PATIENCE).await.unwrap();
    all[2].restart().await;
    eventually("the list is in force there again", async || clients.iter().all(all_vote)).await;
    assert!(guard.is_held());
    all[0].kill();
    assert!(clients[1].lock("other").acquire(PATIENCE).await.is_ok(), "its votes count");
}

#[tokio::test]
async fn list_in_force_is_renewed_by_one_of_many_clients() {
    let all = servers(3).await;
    let nodes: Vec<_> = all.iter().collect();
    let mut clients = Vec::new();
    for _ in 0..12 {
        clients.push(brief(&nodes).connect().await.unwrap());
    }
    let (mut ends, began) = (BTreeSet::new(), Instant::now());
    // If the machine stalls, this loop sees few of the writes in 6 s.
    while began.elapsed() < 6 * SECOND || ends.len() < 2 && began.elapsed() < PATIENCE {
        ends.insert(all[0].record("until"));
        tokio::time::sleep(SECOND / 20).await;
    }
    // A hello writes the list again after 1.2 s of its 9.6 s.
    let most = began.elapsed().as_secs_f64() / 1.2 + 2.0;
    assert!(ends.len() > 1 && (ends.len() as f64) < most, "{ends:?} in {:?}", began.elapsed());
    eventually("all vote", async || clients.iter().all(all_vote)).await;
}

#[tokio::test]
async fn an_onlooker_sees_the_list_and_puts_none_in_force() {
    let all = servers(3).await;
    let nodes: Vec<_> = all.iter().collect();
    let looks = brief(&nodes[..2]).onlooker().connect().await.unwrap();
    assert!(looks.lock("a").try_acquire().await.unwrap_err().is_config());
    let says = |quorum: &Quorum, node: usize| {
        let record = quorum.nodes().swap_remove(node).record;
        record.and_then(|record| record.in_force).map(|list| list.says.to_string())
    };
    assert_eq!((says(&looks, 0), all[0].record("list")), (None, String::new()));
    let client = brief(&nodes).connect().await.unwrap();
    eventually("the list is seen", async || {
        says(&looks, 0).is_some_and(|says| nodes.iter().all(|node| says.contains(&name(node))))
    })
    .await;
    assert!(client.lock("a").acquire(PATIENCE).await.is_ok(), "it is not in its way");
}

/// A client that waited for the node would wait for a minute.
#[tokio::test]
async fn client_does_not_wait_for_a_server_that_hangs() {
    let all = servers(3).await;
    let nodes: Vec<_> = all.iter().collect();
    let patient = || brief(&nodes).node_timeout(60 * SECOND).connect_timeout(120 * SECOND);
    all[2].stop();
    let began = Instant::now();
    for _ in 0..2 {
        let client = patient().connect().await.unwrap();
        released(client.lock("a").acquire(PATIENCE).await.unwrap().release()).await;
    }
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    all[2].resume();
}

/// Point 6 of "What is not promised".
#[tokio::test]
async fn lists_that_share_only_a_dead_node_meet_when_it_is_back() {
    let mut all = servers(5).await;
    all[2].kill();
    let urls: Vec<_> = all.iter().map(Server::url).collect();
    let (one, other) =
        (of(urls[..3].to_vec()).connect().await.unwrap(), of(urls[2..].to_vec()).connect().await.unwrap());
    let first = one.lock("both").acquire(PATIENCE).await.unwrap();
    let second = other.lock("both").acquire(PATIENCE).await.unwrap();
    assert!(first.is_held() && second.is_held(), "two hold it");
    all[2].restart().await;
    eventually("one of them has found the other out", async || !first.is_held() || !second.is_held()).await;
}

/// Also point 6 of "What is not promised": the shared node forgot one list before the other list
/// came.
#[tokio::test]
async fn lists_that_share_only_a_node_restarted_empty_meet_late() {
    let mut all = servers(5).await;
    let way = Proxy::start(all[2].port()).await;
    let one = of([all[0].url(), all[1].url(), way.url()]).connect().await.unwrap();
    eventually("all vote", async || all_vote(&one)).await;
    let first = one.lock("both").acquire(PATIENCE).await.unwrap();
    way.both(Way::Held);
    all[2].restart().await;
    let other = lasting(&all[2..].iter().collect::<Vec<_>>()).connect().await.unwrap();
    let second = other.lock("both").acquire(PATIENCE).await.unwrap();
    assert!(first.is_held() && second.is_held(), "two hold it");
    way.both(Way::Open);
    eventually("one of them has found the other out", async || !first.is_held() || !second.is_held()).await;
}

/// Also point 6 of "What is not promised".
#[tokio::test]
async fn lists_that_share_only_a_node_of_a_third_list_do_not_meet() {
    let all = servers(5).await;
    let third = lasting(&[&all[2]]).list_name("jobs").connect().await.unwrap();
    eventually("it is in force", async || all_vote(&third)).await;
    let urls: Vec<_> = all.iter().map(Server::url).collect();
    let (one, other) =
        (of(urls[..3].to_vec()).connect().await.unwrap(), of(urls[2..].to_vec()).connect().await.unwrap());
    let first = one.lock("both").acquire(PATIENCE).await.unwrap();
    let second = other.lock("both").acquire(PATIENCE).await.unwrap();
    assert!(first.is_held() && second.is_held(), "two hold it");
}

/// Also point 6 of "What is not promised".
#[tokio::test]
async fn clients_with_different_key_prefixes_do_not_meet() {
    let all = servers(3).await;
    let [one, other] = ["one:", "other:"].map(|prefix| unguarded(&all).key_prefix(prefix));
    let (one, other) = (one.connect().await.unwrap(), other.connect().await.unwrap());
    let first = one.lock("both").acquire(PATIENCE).await.unwrap();
    let second = other.lock("both").acquire(PATIENCE).await.unwrap();
    assert!(first.is_held() && second.is_held());
}

#[tokio::test]
async fn a_foreign_key_in_the_records_place_is_named() {
    let server = &servers(1).await[0];
    server.command(&["SET", "quorumlock:node", "x"]);
    refused(brief(&[server]), "the key quorumlock:node is a string").await;
}

/// Three servers, and a proxy for the second one, which makes it much slower than the others.
async fn one_is_far() -> (Vec<Server>, Proxy) {
    let all = servers(3).await;
    let far = Proxy::start(all[1].port()).await;
    far.both(Way::Delay(SECOND / 5));
    (all, far)
}

#[tokio::test]
async fn a_far_node_votes_while_a_near_one_that_restarted_does_not() {
    let (mut all, far) = one_is_far().await;
    let nodes = [all[0].url(), far.url(), all[2].url()];
    let client = of(nodes).ttl(5 * SECOND).max_ttl(8 * SECOND).connect().await.unwrap();
    eventually("all vote", async || all_vote(&client)).await;
    all[2].restart().await;
    let votes_not = || matches!(client.nodes()[2].state, NodeState::Quarantined { .. });
    eventually("one is quarantined", async || votes_not()).await;
    while votes_not() {
        drop(client.lock("a").acquire(PATIENCE).await.expect("the others vote"));
    }
}

#[tokio::test]
async fn a_connected_client_asks_once_for_a_lock() {
    let servers = servers(1).await;
    let calls = || {
        let stats = servers[0].command(&["INFO", "commandstats"]);
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap();
        line.split(',').next().unwrap().parse::<u32>().unwrap()
    };
    let mut asked = Vec::new();
    for _ in 0..10 {
        let quorum = unguarded(&servers).connect_all().await;
        released(quorum.lock("first").acquire(PATIENCE).await.unwrap().release()).await;
        let before = calls();
        let guard = quorum.lock("a").acquire(PATIENCE).await.unwrap();
        asked.push(calls() - before);
        released(guard.release()).await;
        quorum.shutdown(PATIENCE).await;
    }
    // If the machine stalls, the client's next hello comes in between.
    assert!(asked.iter().filter(|&&calls| calls == 1).count() > 5, "{asked:?}");
}
