//! `quorumlock init`: only new servers vote at once.

use std::process::Command;

use super::status::looked;
use super::terminal::Asked;
use super::{EACH_NODE, IN_VAIN, bare, done, until};
use crate::common::new_servers;
use crate::common::server::Server;

/// The command over these servers, with the default quarantine.
fn guarded(servers: &[Server], words: &[&str]) -> Command {
    let nodes: Vec<_> = servers.iter().map(Server::url).collect();
    let mut command = bare();
    command.env("QUORUMLOCK_NODES", nodes.join(",")).args(words);
    command
}

fn have_no_record(servers: &[Server]) -> bool {
    servers.iter().all(|server| server.record("id").is_empty())
}

#[tokio::test]
async fn new_servers_vote_at_once_by_the_operators_word() {
    let servers = new_servers(3).await;
    let (code, out, err) = done(guarded(&servers, &["init", "--yes"]).args(EACH_NODE));
    assert_eq!((code, out.as_str()), (0, "3 nodes vote as of now\n"), "{err}");
    let (code, out, err) = done(&mut guarded(&servers, &["run", "job", "--timeout", "1h", "--", "echo", "inside"]));
    assert_eq!((code, out.as_str()), (0, "inside\n"), "{err}");
    let (code, out, _) = looked(guarded(&servers, &["status"]).args(EACH_NODE));
    assert!(code == 0 && out.contains("3 of 3 nodes vote"), "{out}");
    // `members` shows that the age of these records comes from `init`.
    until("all records have this mark", || {
        let (_, out, _) = done(guarded(&servers, &["members"]).args(EACH_NODE));
        out.split_whitespace().filter(|word| *word == "init").count() == 3
    });
}

#[tokio::test]
async fn a_run_over_new_servers_says_both_ways_out_at_once() {
    let servers = new_servers(3).await;
    let long = |words: &[&str]| {
        let mut command = guarded(&servers, words);
        command.env("QUORUMLOCK_MAX_TTL", "1h");
        command
    };
    // The command fails once it knows that a quorum is in quarantine, and not at its timeout. At
    // that moment, the third node may have no record yet.
    until("each has a record", || {
        let (code, _, err) = done(&mut long(&["run", "job", "--timeout", "30min", "--", "true"]));
        assert!(code == 69 && err.contains("quarantined for"), "{code} {err}");
        assert!(err.contains("use a longer timeout") && err.contains("`quorumlock init`"), "{err}");
        servers.iter().all(|server| !server.record("id").is_empty())
    });
    let (code, out, _) = done(long(&["init", "--yes"]).args(EACH_NODE));
    let told = "nothing was done, because a client came before: 0 of 3 nodes vote; a quorum votes in ";
    assert!(code == 69 && out.starts_with(told), "{code} {out}");
}

#[tokio::test]
async fn servers_that_all_have_a_record_are_left_as_they_are() {
    let servers = new_servers(3).await;
    servers.iter().for_each(Server::make_old);
    let ids = || servers.iter().map(|server| server.record("id")).collect::<Vec<_>>();
    let before = ids();
    let (code, out, _) = done(guarded(&servers, &["init", "--yes", "--json"]).args(EACH_NODE));
    assert!(code == 0 && out.contains("\"done\":false") && out.contains("\"refused\":null"), "{out}");
    assert!(out.contains("\"votes\":3"), "{out}");
    assert_eq!(ids(), before);
    let (code, out, _) = done(guarded(&servers, &["init", "--yes"]).args(EACH_NODE));
    let told = "nothing was done: all nodes have been used before, and 3 of 3 nodes vote\n";
    assert_eq!((code, out.as_str()), (0, told));
}

#[tokio::test]
async fn init_refuses_all_servers_if_one_is_not_new() {
    let mut servers = new_servers(3).await;
    servers[1].make_old();
    let init = |servers: &[Server]| done(&mut guarded(servers, &["init", "--yes", "--connect-timeout", IN_VAIN]));
    let (code, out, err) = init(&servers);
    assert!(code == 69 && out.is_empty() && err.contains("it has a record"), "{code} {err}");
    servers[1].command(&["FLUSHALL"]);
    let (code, _, err) = init(&servers);
    assert!(code == 69 && err.contains("FLUSHALL, FLUSHDB or SWAPDB ran there"), "it forgot locks: {code} {err}");
    servers[1].command(&["CONFIG", "RESETSTAT"]);
    servers[2].take("job", "somebody");
    let (code, _, err) = init(&servers);
    assert!(code == 69 && err.contains("has keys of these locks") && err.contains("job"), "{code} {err}");
    servers[2].command(&["DEL", "quorumlock:{job}"]);
    servers[0].kill();
    let (code, _, err) = init(&servers);
    assert!(code == 69 && err.contains("Connection refused"), "{code} {err}");
    let (code, _, err) = done(&mut guarded(&servers, &["init", "--connect-timeout", IN_VAIN]));
    assert!(code == 69 && err.contains("Connection refused") && !err.contains("say --yes"), "it asks in vain: {err}");
    assert!(have_no_record(&servers[1..]), "nothing was written");
}

#[tokio::test]
async fn another_list_is_told_by_init_with_both_sides() {
    let servers = new_servers(3).await;
    servers[1].make_old();
    // In the last turn, all servers have records.
    for (says, differs) in [
        ("default 60000 4 other:1", "ours has 3 nodes, theirs has 1 node: "),
        ("jobs 60000 4 other:1", "ours is \"default\", theirs is \"jobs\"; give one of the lists other servers"),
        ("default 60000 4 other:1", "; one list is wrong, perhaps ours: stop its clients (theirs ends in 10 min"),
    ] {
        servers[1].put_in_force(says, 600_000);
        let (code, out, err) = done(guarded(&servers, &["init", "--yes"]).args(EACH_NODE));
        let told = format!("another list is in force on 127.0.0.1:{}: ", servers[1].port());
        assert!(code == 69 && out.is_empty() && err.contains(&told) && err.contains(differs), "{code} {out}{err}");
        assert!(err.ends_with("\n  nothing was done\n") && !err.contains("a quorum votes"), "{err}");
        if differs.contains("jobs") {
            servers.iter().step_by(2).for_each(Server::make_old);
        }
    }
}

/// With a max_ttl of zero, servers vote at once, even without `init`.
#[tokio::test]
async fn flushed_servers_with_max_ttl_of_zero_are_initialized() {
    let servers = new_servers(3).await;
    servers.iter().for_each(|server| _ = server.command(&["FLUSHALL"]));
    let (code, _, err) = done(guarded(&servers, &["init", "--yes"]).args(EACH_NODE));
    assert!(code == 69 && err.contains("it is not new: FLUSHALL"), "{code} {err}");
    let (code, out, err) = done(guarded(&servers, &["init", "--yes", "--max-ttl", "0"]).args(EACH_NODE));
    assert_eq!((code, out.as_str()), (0, "3 nodes vote as of now\n"), "{err}");
}

#[tokio::test]
async fn init_asks_first_and_writes_nothing_without_a_yes() {
    let servers = new_servers(3).await;
    let (code, out, err) = done(guarded(&servers, &["init"]).args(EACH_NODE));
    assert!(code == 1 && out.is_empty() && err.contains("say --yes") && err.contains("nothing was done"), "{err}");
    let (code, out, _) = done(guarded(&servers, &["init", "--json"]).args(EACH_NODE));
    assert!(code == 1 && out.contains("\"done\":false") && out.contains("say --yes"), "{out}");
    let mut asked = Asked::start(guarded(&servers, &["init"]).args(EACH_NODE));
    asked.answers("n\n");
    let (code, out, err) = asked.done();
    assert!(code == 1 && out.is_empty() && err.contains("Are these servers new"), "{err}");
    assert!(have_no_record(&servers));
    let mut asked = Asked::start(guarded(&servers, &["init"]).args(EACH_NODE));
    asked.answers("y\n");
    let (code, out, err) = asked.done();
    assert!(code == 0 && out.contains("3 nodes vote as of now"), "{out}{err}");
}
