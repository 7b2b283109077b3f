//! Connecting: far nodes, the commands of the greeting, and servers that answer slowly or refuse.

use std::sync::Mutex;
use std::time::Duration;

use futures::future::join_all;
use quorumlock::{NodeState, Quorum, QuorumBuilder, Released};

use crate::common::fake::{Fake, bulk, is_hello, well};
use crate::common::logs::Logs;
use crate::common::proxy::{Proxy, Way};
use crate::common::server::Server;
use crate::common::{PATIENCE, answered, eventually, refused, released, servers};

const SECOND: Duration = Duration::from_secs(1);

fn builder<A: Into<String>>(nodes: impl IntoIterator<Item = A>) -> QuorumBuilder {
    crate::common::builder().nodes(nodes).max_ttl(Duration::ZERO)
}

fn state(quorum: &Quorum, node: usize) -> NodeState {
    quorum.nodes().swap_remove(node).state
}

#[tokio::test]
async fn nodes_that_are_a_second_away_connect_and_vote_by_default() {
    let servers = servers(3).await;
    let far = join_all(servers.iter().map(|server| Proxy::start(server.port()))).await;
    far.iter().for_each(|proxy| proxy.both(Way::Delay(SECOND / 2)));
    // Each try to connect has the default time limit, and the client may make many tries.
    let lasting = builder(far.iter().map(Proxy::url)).ttl(600 * SECOND);
    let quorum = lasting.connect_timeout(2 * PATIENCE).connect().await.unwrap();
    let guard = quorum.lock("far").acquire(PATIENCE).await.unwrap();
    // If the release is not confirmed within two seconds, `release` returns an error.
    let ended = guard.release().await;
    assert!(ended.map_or_else(|error| error.is_unavailable(), |ended| ended == Released::Released));
    eventually("it is free", async || servers.iter().all(|server| server.holder("far").is_none())).await;
}

/// The reply to a script call that grants a claim.
fn granted(words: &[String]) -> Vec<u8> {
    if is_hello(words) { well(words) } else { bulk("1 0 1 fake") }
}

/// A master that does not answer the greeting before it got all commands that a client can send
/// together.
async fn patient() -> Fake {
    let held = Mutex::new((false, Vec::new()));
    Fake::start(move |words| {
        let mut held = held.lock().unwrap();
        let (greeting, answers) = &mut *held;
        *greeting |= words[0] == "CLIENT" && words[1] == "SETNAME";
        *greeting &= !matches!(&*words[0], "SUBSCRIBE" | "PING");
        answers.extend(if words[0] == "EVALSHA" { granted(words) } else { well(words) });
        if *greeting { Vec::new() } else { std::mem::take(answers) }
    })
    .await
}

#[tokio::test]
async fn connect_takes_one_round_trip_and_the_first_claim_another() {
    let fake = patient().await;
    let quorum = builder([fake.url()]).connect().await.unwrap();
    let lock = quorum.lock("first");
    assert!(answered(|| lock.try_acquire()).await.is_some());
}

#[tokio::test]
async fn shutdown_returns_after_its_connections_have_ended() {
    let servers = servers(3).await;
    let quorum = builder(servers.iter().map(Server::url)).connect().await.unwrap();
    released(quorum.lock("last").acquire(PATIENCE).await.unwrap().release()).await;
    quorum.shutdown(PATIENCE).await;
    assert!(quorum.nodes().iter().all(|node| !node.state.is_admitted()), "{:?}", quorum.nodes());
}

/// A master that does not answer the command `silent`.
async fn silent_at(silent: &'static str) -> Fake {
    let state = Mutex::new((false, false));
    Fake::start(move |words| {
        let mut state = state.lock().unwrap();
        let (greeted, quiet) = &mut *state;
        if words[0] == "HELLO" {
            (*greeted, *quiet) = (false, silent == "HELLO");
        }
        *greeted |= words[0] == "CLIENT" && words[1] == "SETNAME";
        // Before CLIENT SETNAME, fred sends another INFO, which is answered. The commands after
        // `silent` are not answered either.
        *quiet |= *greeted && words[0] == silent;
        if *quiet { Vec::new() } else { well(words) }
    })
    .await
}

#[tokio::test]
async fn slow_connect_is_reported_with_the_step_that_was_slow() {
    for (silent, step) in [
        ("HELLO", "connected, but no answer to HELLO"),
        ("INFO", "no answer to INFO within node_timeout"),
        ("SCRIPT", "no answer to SCRIPT LOAD within node_timeout"),
        ("SUBSCRIBE", "no answer to SUBSCRIBE within node_timeout"),
    ] {
        let fake = silent_at(silent).await;
        refused(builder([fake.url()]).node_timeout(SECOND / 10), step).await;
    }
}

#[tokio::test]
async fn extra_reply_of_a_refused_subscription_answers_nothing_else() {
    let late = Mutex::new(None);
    let fake = Fake::start(move |words| {
        let mut late = late.lock().unwrap();
        let answer = if words[0] == "EVALSHA" { granted(words) } else { well(words) };
        match (&*words[0], &mut *late) {
            ("HELLO", late) => *late = None,
            ("SUBSCRIBE", late) => {
                *late = Some(Vec::new());
                return b"-NOPERM this user has no permissions to access one of the channels\r\n".to_vec();
            }
            // After this command, each answer comes one command late.
            (_, Some(late)) => return std::mem::replace(late, answer),
            _ => {}
        }
        answer
    })
    .await;
    let quorum = builder([fake.url()]).connect().await.unwrap();
    let lock = quorum.lock("aligned");
    assert!(answered(|| lock.try_acquire()).await.is_some());
}

#[tokio::test]
async fn servers_that_swap_addresses_both_vote_again() {
    let servers = servers(2).await;
    let addresses = join_all(servers.iter().map(|server| Proxy::start(server.port()))).await;
    let quorum = builder(addresses.iter().map(Proxy::url)).connect().await.unwrap();
    let up = async || (0..2).all(|node| state(&quorum, node) == NodeState::Up);
    eventually("both are up", up).await;
    addresses[0].retarget(servers[1].port());
    addresses[1].retarget(servers[0].port());
    addresses.iter().for_each(Proxy::reset);
    eventually("the swap is noticed", async || !up().await).await;
    eventually("both are up again", up).await;
    assert!(quorum.lock("swapped").acquire(PATIENCE).await.is_ok());
}

#[tokio::test]
async fn a_server_in_cluster_mode_is_refused() {
    let cluster = Server::with(&["--cluster-enabled", "yes"]).await;
    refused(builder([cluster.url()]), "cluster-enabled no").await;
}

#[tokio::test]
async fn user_who_may_not_load_or_run_scripts_fails_at_connect() {
    let fake = Fake::start(|words| match &*words[0] {
        "EVALSHA" => b"-NOSCRIPT No matching script.\r\n".to_vec(),
        "EVAL" => b"-NOPERM this user has no permissions to run the 'eval' command\r\n".to_vec(),
        "SCRIPT" => b"-NOPERM this user has no permissions to run the 'script|load' command\r\n".to_vec(),
        _ => well(words),
    })
    .await;
    refused(builder([fake.url()]), "no permissions to run the 'eval' command").await;
}

#[tokio::test]
async fn a_node_that_is_back_is_told_where_its_loss_was() {
    let logs = Logs::capture();
    let mut servers = servers(1).await;
    let quorum = builder([servers[0].url()]).connect().await.unwrap();
    servers[0].kill();
    eventually("its loss is told", async || {
        logs.text().contains("WARN quorumlock::node::redis::supervisor: message=down")
    })
    .await;
    servers[0].restart().await;
    eventually("it is back", async || state(&quorum, 0) == NodeState::Up).await;
    eventually("its return is told", async || {
        logs.text().contains("WARN quorumlock::node::redis::supervisor: message=connected again: up")
    })
    .await;
}
