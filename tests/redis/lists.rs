//! Clients whose lists differ: they find each other out by the rosters of the nodes that they
//! share.

use std::time::{Duration, Instant};

use quorumlock::{NodeCause, NodeState, Quorum, QuorumBuilder};

use crate::common::proxy::{Proxy, Way};
use crate::common::server::Server;
use crate::common::{PATIENCE, eventually, refused, servers};

const SECOND: Duration = Duration::from_secs(1);

/// A client without the restart guard, whose locks last for three seconds: an entry lasts 18 to 23 s.
fn brief(servers: &[&Server]) -> QuorumBuilder {
    let urls = servers.iter().map(|server| server.url());
    crate::common::builder().nodes(urls).max_ttl(Duration::ZERO).ttl(3 * SECOND).connect_timeout(PATIENCE)
}

fn unlisted(quorum: &Quorum, node: usize) -> bool {
    matches!(quorum.nodes()[node].state, NodeState::Unlisted { .. })
}

#[tokio::test]
async fn of_two_lists_that_share_a_node_the_second_waits_until_the_first_has_gone() {
    let all = servers(5).await;
    let [a, b, c, d, e] = &all[..] else { panic!("five servers") };
    let first = brief(&[a, b, c]).connect().await.unwrap();
    let guard = first.lock("shared").acquire(PATIENCE).await.unwrap();
    let said = refused(brief(&[c, d, e]), "2 of 3 nodes must vote, and 3 are unlisted").await.to_string();
    assert!(!said.contains("must be up"), "{said}");
    assert_eq!(said.matches("another list").count(), 1, "{said}");
    assert!(said.contains("is used by clients of 2 servers that this one does not know"), "{said}");
    assert!(said.contains("wait 23s after the last has stopped"), "{said}");
    let second = brief(&[c, d, e]).open().unwrap();
    eventually("all its nodes are unlisted", async || (0..3).all(|node| unlisted(&second, node))).await;
    let error = second.lock("shared").try_acquire().await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("another list"), "{error}");
    assert!(error.nodes().iter().all(|node| node.cause == NodeCause::Unlisted), "{error}");
    let error = second.revoke("shared").await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("another list"), "{error}");
    assert!(error.nodes().iter().all(|node| node.cause == NodeCause::Unlisted), "{error}");
    assert!(guard.is_held());
    drop(guard);
    first.shutdown(PATIENCE).await;
    second.ready(2 * PATIENCE).await.unwrap();
    assert!(second.lock("shared").acquire(PATIENCE).await.is_ok());
}

/// How many fields of rosters were written: each enrolment that writes does so five times.
fn written(server: &Server) -> u32 {
    let stats = server.command(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_hset:calls="));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn of_many_clients_one_writes_every_five_seconds() {
    let all = servers(3).await;
    let nodes: Vec<_> = all.iter().collect();
    let mut clients = Vec::new();
    for _ in 0..12 {
        clients.push(brief(&nodes).node_timeout(10 * SECOND).connect_timeout(60 * SECOND).connect().await.unwrap());
    }
    let (before, began) = (written(&all[0]), Instant::now());
    tokio::time::sleep(11 * SECOND).await;
    let (writes, seconds) = ((written(&all[0]) - before) / 5, began.elapsed().as_secs());
    let written = format!("{writes} enrolments of 12 clients were written in {seconds} s");
    assert!(writes >= 1 && u64::from(writes) <= seconds / 5 + 2, "{written}");
    assert!(clients.iter().all(|client| client.nodes().iter().all(|node| node.state == NodeState::Up)));
}

#[tokio::test]
async fn lists_of_different_lengths_exclude_each_other() {
    let all = servers(3).await;
    let [a, b, c] = &all[..] else { panic!("three servers") };
    let _first = brief(&[a, b, c]).connect().await.unwrap();
    let said = refused(brief(&[a]), "theirs has 3 nodes").await.to_string();
    assert!(said.contains("this one 1"), "{said}");
}

#[tokio::test]
async fn lists_that_share_a_quorum_go_on_with_what_they_share() {
    let all = servers(4).await;
    let [a, b, c, d] = &all[..] else { panic!("four servers") };
    let first = brief(&[a, b, c]).connect().await.unwrap();
    let second = brief(&[b, c, d]).connect().await.unwrap();
    assert!(unlisted(&second, 2) && !unlisted(&second, 0));
    let guard = first.lock("both").acquire(PATIENCE).await.unwrap();
    assert!(second.lock("both").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(second.lock("both").acquire(PATIENCE).await.is_ok());
}

#[tokio::test]
async fn all_go_on_when_a_node_has_restarted() {
    let mut all = servers(3).await;
    let clients = [brief(&all.iter().collect::<Vec<_>>()).connect().await.unwrap(), {
        brief(&all.iter().collect::<Vec<_>>()).connect().await.unwrap()
    }];
    let guard = clients[0].lock("held").acquire(PATIENCE).await.unwrap();
    all[2].kill();
    all[2].restart().await;
    eventually("the new process is listed by both", async || {
        clients.iter().all(|client| client.nodes().iter().all(|node| node.state == NodeState::Up))
    })
    .await;
    assert!(guard.is_held());
    all[0].kill();
    assert!(clients[1].lock("other").acquire(PATIENCE).await.is_ok(), "its votes count");
}

/// As regions have names of their own for one server.
#[tokio::test]
async fn the_same_servers_by_other_addresses_are_the_same_list() {
    let all = servers(3).await;
    let [here, there] = ["127.0.0.1", "localhost"].map(|host| {
        let urls = all.iter().map(|server| format!("redis://{host}:{}", server.port()));
        crate::common::builder().nodes(urls).max_ttl(Duration::ZERO).ttl(3 * SECOND)
    });
    let (here, there) = (here.connect().await.unwrap(), there.connect().await.unwrap());
    let guard = here.lock("common").acquire(PATIENCE).await.unwrap();
    assert!(there.lock("common").try_acquire().await.unwrap().is_none());
    drop(guard);
    assert!(there.lock("common").acquire(PATIENCE).await.is_ok());
    assert!(here.nodes().iter().chain(&there.nodes()).all(|node| node.state == NodeState::Up));
}

#[tokio::test]
async fn an_onlooker_sees_the_rosters_and_is_in_none() {
    let all = servers(3).await;
    let nodes: Vec<_> = all.iter().collect();
    let looks = brief(&nodes[..2]).onlooker().connect().await.unwrap();
    assert!(looks.nodes().iter().all(|node| node.listed == Some(false)), "nobody is");
    assert!(looks.lock("a").try_acquire().await.unwrap_err().is_config());
    let client = brief(&nodes).connect().await.unwrap();
    let told = crate::common::builder().nodes(nodes.iter().map(|node| node.url())).onlooker().connect().await.unwrap();
    eventually("the rosters are told", async || {
        told.nodes()
            .iter()
            .all(|node| node.listed == Some(true) && node.roster.as_ref().is_some_and(|it| it.servers.len() == 3))
    })
    .await;
    assert!(client.lock("a").acquire(PATIENCE).await.is_ok());
}

#[tokio::test]
async fn a_larger_max_ttl_is_everybodys_and_ends_no_vote_that_counts() {
    let mut all = servers(3).await;
    let urls: Vec<_> = all.iter().map(Server::url).collect();
    let guarded = |longest: u32| crate::common::builder().nodes(urls.clone()).ttl(SECOND).max_ttl(SECOND * longest);
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
    let quorum =
        crate::common::builder().nodes(all.iter().map(Server::url)).ttl(SECOND).max_ttl(SECOND).connect().await;
    assert!(quorum.unwrap().lock("a").acquire(10 * SECOND).await.is_ok());
    assert!(began.elapsed() < 15 * SECOND, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_process_that_starts_beside_another_does_not_wait_for_a_machine_that_hangs() {
    let all = servers(3).await;
    let nodes: Vec<_> = all.iter().collect();
    let patient = || brief(&nodes).node_timeout(60 * SECOND).connect_timeout(120 * SECOND);
    let first = patient().connect().await.unwrap();
    all[2].stop();
    let began = Instant::now();
    let second = patient().connect().await.unwrap();
    let guard = second.lock("a").acquire(PATIENCE).await.unwrap();
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    assert!(first.lock("a").try_acquire().await.unwrap().is_none());
    drop(guard);
    all[2].resume();
}

#[tokio::test]
async fn the_first_client_beside_a_dead_machine_waits_for_a_while_and_says_why() {
    let mut all = servers(3).await;
    all[2].kill();
    let nodes: Vec<_> = all.iter().collect();
    let first = brief(&nodes).open().unwrap();
    let waits = |node: usize| matches!(first.nodes()[node].state, NodeState::Waiting { .. });
    eventually("it waits", async || waits(0) && waits(1)).await;
    let said = first.nodes()[0].state.to_string();
    assert!(said.contains("may know of another list"), "{said}");
    first.ready(PATIENCE).await.unwrap();
    assert!(first.lock("a").acquire(PATIENCE).await.is_ok());
}

/// Three servers, and a way to the second one that takes much longer than those to the others.
async fn one_is_far() -> (Vec<Server>, Proxy) {
    let all = servers(3).await;
    let far = Proxy::start(all[1].port()).await;
    far.both(Way::Delay(SECOND / 5));
    (all, far)
}

/// A client of these, by that way.
fn by(all: &[Server], far: &Proxy) -> QuorumBuilder {
    let urls = [all[0].url(), far.url(), all[2].url()];
    crate::common::builder().nodes(urls).max_ttl(Duration::ZERO).ttl(5 * SECOND).connect_timeout(PATIENCE)
}

#[tokio::test]
async fn a_far_node_votes_while_a_near_one_that_restarted_does_not() {
    let (mut all, far) = one_is_far().await;
    let first = by(&all, &far).max_ttl(8 * SECOND).connect().await.unwrap();
    let all_vote = || first.nodes().iter().all(|node| node.state == NodeState::Up);
    eventually("all vote", async || all_vote()).await;
    all[2].kill();
    all[2].restart().await;
    let votes_not = || matches!(first.nodes()[2].state, NodeState::Quarantined { .. });
    eventually("one is quarantined", async || votes_not()).await;
    while votes_not() {
        drop(first.lock("a").acquire(PATIENCE).await.expect("the others vote"));
    }
}

#[tokio::test]
async fn a_far_node_votes_for_who_comes_when_a_near_one_was_retired() {
    let (all, far) = one_is_far().await;
    let first = by(&all, &far).connect().await.unwrap();
    first.retire(&all[2].url()).await.unwrap();
    let second = by(&all, &far).connect().await.unwrap();
    assert!(second.lock("a").acquire(PATIENCE).await.is_ok());
}

/// Who knows which server was there before cannot tell the others for a while.
#[tokio::test]
async fn what_a_far_node_refused_is_asked_again_until_it_takes_it() {
    let (mut all, far) = one_is_far().await;
    let ways = futures::future::join_all(all.iter().map(|node| Proxy::start(node.port()))).await;
    let long = |builder: QuorumBuilder| builder.ttl(120 * SECOND);
    let urls: Vec<_> = ways.iter().map(Proxy::url).collect();
    let before = long(crate::common::builder().nodes(urls).max_ttl(Duration::ZERO)).connect().await.unwrap();
    eventually("it has enrolled", async || before.nodes().iter().all(|node| node.state == NodeState::Up)).await;
    ways.iter().for_each(|way| {
        way.refuse(true);
        way.reset();
    });
    all[2].kill();
    all[2].restart().await;
    let comes = long(by(&all, &far)).connect().await.unwrap();
    eventually("the new one is left out", async || unlisted(&comes, 2)).await;
    ways.iter().for_each(|way| way.refuse(false));
    eventually("it is told who was before it", async || before.nodes()[2].state == NodeState::Up).await;
    eventually("all vote", async || comes.nodes().iter().all(|node| node.state == NodeState::Up)).await;
}

#[tokio::test]
async fn a_node_that_restarts_while_no_client_runs_is_left_out_and_said_to_be() {
    let mut all = servers(3).await;
    let first = brief(&all.iter().collect::<Vec<_>>()).connect().await.unwrap();
    first.shutdown(PATIENCE).await;
    all[2].kill();
    all[2].restart().await;
    let second = brief(&all.iter().collect::<Vec<_>>()).connect().await.unwrap();
    eventually("the new one is left out", async || unlisted(&second, 2)).await;
    let said = second.nodes()[2].state.to_string();
    assert!(said.contains("was replaced while no client of this list ran"), "{said}");
    assert!(second.lock("a").acquire(PATIENCE).await.is_ok());
}

#[tokio::test]
async fn a_roster_that_was_loaded_from_disk_is_taken_for_empty() {
    let mut all = servers(3).await;
    let client = brief(&all.iter().collect::<Vec<_>>()).connect().await.unwrap();
    all[2].command(&["SAVE"]);
    client.shutdown(PATIENCE).await;
    let seen = async |node: &Server| {
        let looks = brief(&[node]).onlooker().connect().await.unwrap();
        eventually("the roster is told", async || looks.nodes()[0].roster.is_some()).await;
        looks.nodes()[0].roster.clone().unwrap().servers.len()
    };
    assert_eq!(seen(&all[2]).await, 3);
    all[2].restart().await;
    assert_eq!(all[2].command(&["EXISTS", "quorumlock:node:roster"]), "1", "it was on the disk");
    assert_eq!(seen(&all[2]).await, 0);
}

#[tokio::test]
async fn who_has_connected_is_enrolled_and_asks_once() {
    let server = &servers(1).await[0];
    let calls = || {
        let stats = server.command(&["INFO", "commandstats"]);
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap();
        line.split(',').next().unwrap().parse::<u32>().unwrap()
    };
    let mut asked = Vec::new();
    for _ in 0..10 {
        let quorum = brief(&[server]).connect().await.unwrap();
        let before = calls();
        let guard = quorum.lock("a").acquire(PATIENCE).await.unwrap();
        asked.push(calls() - before);
        guard.release().await.unwrap();
        quorum.shutdown(PATIENCE).await;
    }
    // Where the machine stalls, its next enrolment comes in between.
    assert!(asked.iter().filter(|&&calls| calls == 1).count() > 5, "{asked:?}");
}

#[tokio::test]
async fn a_retired_node_counts_for_nobody_until_that_is_taken_back() {
    let mut all = servers(3).await;
    let nodes: Vec<_> = all.iter().collect();
    let client = brief(&nodes).connect().await.unwrap();
    let looks = brief(&nodes).onlooker().connect().await.unwrap();
    let guard = client.lock("held").acquire(PATIENCE).await.unwrap();
    let retired = looks.retire(&nodes[2].url()).await.unwrap();
    assert!(retired.since < PATIENCE && retired.free_in <= 18 * SECOND, "{retired:?}");
    eventually("it is unlisted", async || unlisted(&client, 2)).await;
    let said = client.nodes()[2].state.to_string();
    assert!(said.contains("was retired") && said.contains("members reset"), "{said}");
    assert!(guard.is_held() && client.lock("other").try_acquire().await.unwrap().is_some());
    looks.retire(&nodes[1].url()).await.unwrap();
    eventually("nor is there a quorum", async || unlisted(&client, 1)).await;
    let error = client.lock("another").try_acquire().await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("was retired"), "{error}");
    looks.reset(&nodes[1].url()).await.unwrap();
    assert!(looks.reset(&nodes[2].url()).await.unwrap().was.is_some());
    eventually("they vote again", async || {
        let said: Vec<_> = client.nodes().iter().map(|node| node.state.to_string()).collect();
        assert!(!said.iter().any(|said| said.contains("was replaced while no client")), "{said:?}");
        client.nodes().iter().all(|node| node.state == NodeState::Up)
    })
    .await;
    let again = brief(&nodes).onlooker().open().unwrap();
    let url = nodes[2].url();
    all[0].kill();
    let reset = again.reset(&url).await.unwrap();
    assert!(reset.was.is_none() && reset.others.is_none(), "one that is down may be one of those in the roster");
    assert!(client.lock("again").acquire(PATIENCE).await.is_ok(), "the other two do");
}

#[tokio::test]
async fn a_foreign_key_in_a_rosters_place_is_named() {
    let server = &servers(1).await[0];
    server.command(&["SET", "quorumlock:node:roster", "x"]);
    refused(brief(&[server]), "the key quorumlock:node:roster is a string").await;
}

#[tokio::test]
async fn who_is_told_that_a_node_refused_to_be_retired_finds_it_as_it_was() {
    let server = &servers(1).await[0];
    let looks = brief(&[server]).onlooker().open().unwrap();
    server.command(&["SET", "quorumlock:node:roster", "x"]);
    let error = looks.retire(&server.url()).await.unwrap_err();
    assert!(error.to_string().contains("the node refused it"), "{error}");
    assert_eq!(server.command(&["HEXISTS", "quorumlock:node", "retired"]), "0");
}

#[tokio::test]
async fn a_node_without_memory_can_be_retired() {
    let server = &servers(1).await[0];
    let looks = brief(&[server]).onlooker().connect().await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(looks.retire(&server.url()).await.unwrap().unused);
    let first = looks.members().await.unwrap();
    let since = |members: &quorumlock::Members| members.nodes[0].roster.as_ref().unwrap().retired.unwrap();
    tokio::time::sleep(SECOND / 10).await;
    looks.retire(&server.url()).await.unwrap();
    assert!(since(&looks.members().await.unwrap()) > since(&first), "it was retired already");
    assert!(looks.reset(&server.url()).await.unwrap().was.is_some());
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
