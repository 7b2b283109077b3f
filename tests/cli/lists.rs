//! Clients of two lists, and two servers behind one name: the command reports each of these faults,
//! with advice.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::{Background, EACH_NODE, IN_VAIN, at_once, bare, done, line_of, over, run, until, until_listed};
use crate::common::server::Server;
use crate::common::servers;

/// Starts a client that keeps its lock. Waits until the client has the lock, and its list is in
/// force on each server.
fn client(servers: &[Server], options: &[&str], folder: &Path) -> Background {
    let client = Background::start(&mut run(servers, "job", options, "echo > $0/in; exec sleep 1000", folder));
    line_of(&folder.join("in"));
    until_listed(servers);
    client
}

fn name(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

#[tokio::test]
async fn other_list_is_reported_in_one_line_with_both_sides() {
    let (servers, folder) = (servers(5).await, tempfile::tempdir().unwrap());
    let _client = client(&servers[..3], &[], folder.path());
    let tried = |servers: &[Server]| done(over(servers).args(["run", "job", "--timeout", IN_VAIN, "--", "true"]));
    at_once([&servers[2..5], &servers[..5], &servers[..2]], |list| {
        let (code, _, err) = tried(list);
        assert_eq!(code, 69, "{err}");
        let line =
            err.lines().find(|line| line.contains("another list is in force on")).unwrap_or_else(|| panic!("{err}"));
        let counts = if list.len() == 3 {
            "ours and theirs have 3 nodes"
        } else {
            &*format!("ours has {} nodes, theirs has 3 nodes", list.len())
        };
        assert!(line.contains(counts), "{line}");
        let [theirs, mine] = [&servers[..3], list].map(|side| side.iter().map(name).collect::<BTreeSet<_>>());
        assert!(theirs.symmetric_difference(&mine).all(|name| line.contains(name)), "{line}");
        assert!(line.contains("stop") && !err.contains("waits longer for nodes"), "{err}");
    });
    let (code, out, _) = done(over(&servers[2..]).args(["status", "job"]).args(EACH_NODE));
    assert!(code == 69 && out.contains("a client with this list acquires nothing\n"), "{out}");
    assert!(out.contains("another list") && !out.contains("is free"), "{out}");
}

#[tokio::test]
async fn another_max_ttl_is_another_list() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let _client = client(&servers, &[], folder.path());
    let mut command = over(&servers);
    command.env("QUORUMLOCK_MAX_TTL", "2h").args(["run", "job", "--timeout", IN_VAIN, "--", "true"]);
    let (code, _, err) = done(&mut command);
    assert!(
        code == 69 && err.contains("another list") && err.contains("ours has max_ttl 2 h, theirs has 0 s"),
        "{err}"
    );
}

#[tokio::test]
async fn a_list_of_another_name_gets_no_votes_and_takes_nothing_away() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let mut holder = client(&servers, &["--ttl", "60s"], folder.path());
    let tried = |words: &[&str]| {
        let mut command = over(&servers);
        command.args(["run", "other", "--timeout"]).args(words).args(["--", "true"]);
        done(&mut command)
    };
    let (code, _, err) = tried(&[IN_VAIN, "--list", "jobs"]);
    assert!(code == 69 && err.contains("other list: ours is \"jobs\", theirs is \"default\""), "{err}");
    let (code, _, err) = done(over(&servers).env("QUORUMLOCK_LIST", "jobs").args(["status"]));
    assert_eq!(code, 69, "{err}");
    assert_eq!(tried(&["1h"]).0, 0, "its own clients go on");
    assert!(holder.child().try_wait().unwrap().is_none());
}

#[tokio::test]
async fn holder_that_meets_another_list_of_its_name_loses_its_lock() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let holder = client(&servers, &["--ttl", "30s"], folder.path());
    servers[2].put_in_force("default 60000 4 wrong:1 wrong:2 wrong:3", 600_000);
    let (code, _, err) = holder.done();
    assert!(code == 76 && err.contains("another list"), "{code}: {err}");
}

/// The command over a list whose first node is `first`. Clients with another `first` have the same
/// list.
fn with_first(first: &Server, others: &[Server], words: &[&str]) -> Command {
    let others: Vec<_> = others.iter().map(Server::url).collect();
    let mut command = bare();
    let nodes = format!("{}?name=one,{}", first.url(), others.join(","));
    command.env("QUORUMLOCK_NODES", nodes).env("QUORUMLOCK_MAX_TTL", "0").args(words);
    command
}

#[tokio::test]
async fn two_servers_behind_one_name_are_found_and_lose_their_vote() {
    let servers = servers(4).await;
    let [first, again, others @ ..] = &servers[..] else { panic!("four servers") };
    let stays = |first: &Server, job: &str| {
        Background::start(&mut with_first(first, others, &["run", job, "--timeout", "1h", "--", "sleep", "1000"]))
    };
    let (_one, other) = (stays(first, "one"), stays(again, "other"));
    until("it is found out", || {
        let (code, out, _) = done(&mut with_first(first, others, &["members"]));
        code == 1 && out.contains("clients meet two servers behind the name one")
    });
    let doctor = || done(&mut with_first(first, others, &["doctor", "--json"])).1;
    until("the doctor finds it out", || doctor().contains("\"two-servers\""));
    // Do not use a try: the first quorum of connections may include the node without a vote.
    let (code, _, err) = done(&mut with_first(first, others, &["run", "job", "--timeout", "1h", "--", "true"]));
    assert_eq!(code, 0, "the other two are a quorum: {err}");
    drop(other);
    until("it is forgotten", || done(&mut with_first(first, others, &["members"])).0 == 0);
}
