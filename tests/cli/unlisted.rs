//! `quorumlock status` where rosters keep clients of the given list out: it says so, and fails
//! where `run` would.

use super::{IN_VAIN, at_once, done, over};
use crate::common::server::Server;
use crate::common::servers;
use serde_json::Value;

/// A client of these was enrolled, and has gone: its entries last for ten minutes.
fn used(servers: &[Server]) {
    let (code, _, err) = done(over(servers).args(["run", "job", "--ttl", "10m", "--", "true"]));
    assert_eq!(code, 0, "{err}");
}

async fn restart(server: &mut Server) {
    server.kill();
    server.restart().await;
}

/// What `status` says of a name, where `run` acquires nothing.
fn refused(servers: &[&Server]) -> (String, Value) {
    let nodes = servers.iter().map(|server| server.url()).collect::<Vec<_>>().join(",");
    let asked = |words: &[&str]| done(over(&[]).env("QUORUMLOCK_NODES", &nodes).args(words));
    let (code, out, err) = asked(&["status", "job"]);
    assert_eq!(code, 69, "{out}{err}");
    assert!(out.contains("a client with this list acquires nothing: "), "{out}");
    assert!(!out.contains("then a quorum votes") && !out.contains("is free"), "{out}");
    let (code, _, err) = asked(&["run", "job", "--timeout", "0", "--connect-timeout", IN_VAIN, "--", "true"]);
    assert!(code == 69 && err.contains("unlisted") && !err.contains("waits longer for nodes"), "{code} {err}");
    let (code, object, _) = asked(&["status", "job", "--json"]);
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!((code, &object["quorum_votes"], &object["votes"]), (69, &false.into(), &0.into()), "{object}");
    (out, object)
}

#[tokio::test]
async fn two_servers_that_restarted_while_no_client_ran_count_for_nothing() {
    let mut servers = servers(3).await;
    used(&servers);
    restart(&mut servers[0]).await;
    restart(&mut servers[1]).await;
    let (said, object) = refused(&servers.iter().collect::<Vec<_>>());
    assert!(said.contains("0 of 3 nodes vote; a quorum is 2: a client"), "{said}");
    assert!(said.contains("if these restarted while no client ran, or are down, wait "), "{said}");
    assert!(object["refused"].as_str().unwrap().contains("2 servers that this one does not know"), "{object}");
}

#[tokio::test]
async fn nor_does_one_that_did_where_another_is_down() {
    let mut servers = servers(3).await;
    used(&servers);
    restart(&mut servers[1]).await;
    servers[2].kill();
    refused(&servers.iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn the_first_client_beside_a_dead_node_says_what_it_waits_for() {
    let mut servers = servers(3).await;
    servers[2].kill();
    let (code, _, err) = done(over(&servers).args(["run", "job", "--timeout", IN_VAIN, "--", "true"]));
    assert_eq!(code, 69, "{err}");
    assert!(err.contains("2 of 3 nodes wait for one that does not answer"), "{err}");
    assert!(err.contains("may know of another list") && err.contains("--timeout above 6 s waits long enough"), "{err}");
    let (code, _, err) = done(over(&servers).args(["run", "job", "--timeout", "1h", "--", "true"]));
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = done(over(&servers).args(["run", "job", "--timeout", IN_VAIN, "--", "true"]));
    assert_eq!(code, 0, "the one before vouches for it: {err}");
}

#[tokio::test]
async fn another_list_counts_for_nothing_nor_does_another_length() {
    let servers = servers(5).await;
    used(&servers[..3]);
    let cases = [
        (&[0, 3, 4][..], "2 servers that this one does not know"),
        (&[0, 1, 2, 3, 4], "theirs has 3 nodes, this one 5"),
        (&[0, 1], "theirs has 3 nodes, this one 2"),
    ];
    at_once(cases, |(list, why)| {
        let (said, _) = refused(&list.iter().map(|index| &servers[*index]).collect::<Vec<_>>());
        assert!(said.contains(why), "{said}");
    });
}

#[tokio::test]
async fn one_that_restarted_is_left_out_and_the_others_vote() {
    let mut servers = servers(3).await;
    used(&servers);
    restart(&mut servers[1]).await;
    let (code, out, _) = done(over(&servers).arg("status"));
    assert!(code == 0 && out.contains("2 of 3 nodes vote; a quorum is 2\n"), "{out}");
    assert!(out.contains("up, but unlisted: this server restarted"), "{out}");
}
