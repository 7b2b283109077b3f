//! `quorumlock members`, and the commands of docs/members.md.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Background, EACH_NODE, IN_VAIN, bare, done, line_of, over, run, until, until_listed};
use crate::common::server::Server;
use crate::common::{new_servers, servers};

const PAGE: &str = include_str!("../../docs/members.md");

fn json(command: &mut Command) -> (i32, Value) {
    let (code, out, err) = done(command);
    (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")))
}

/// Repeats the command until each node has answered, because one run does not wait for a slow node.
/// Returns the exit code and the output.
fn shown(servers: &[Server]) -> (i32, Value) {
    let mut seen = (0, Value::Null);
    until("each node answers", || {
        seen = json(over(servers).args(["members", "--json"]).args(EACH_NODE));
        seen.1["nodes"].as_array().unwrap().iter().all(|node| node["why"].is_null())
    });
    seen
}

/// Waits until the command's text contains `told`. Returns the text, and the exit code.
fn text(servers: &[Server], options: &[&str], told: &str) -> (i32, String) {
    let mut seen = (0, String::new());
    until(told, || {
        let (code, out, _) = done(over(servers).arg("members").args(options).args(EACH_NODE));
        seen = (code, out);
        seen.1.contains(told)
    });
    seen
}

/// Starts a client that keeps its lock. Waits until the client has the lock, and its list is in
/// force on each server.
fn client(servers: &[Server], folder: &Path) -> Background {
    let _ = std::fs::remove_file(folder.join("in"));
    let client =
        Background::start(&mut run(servers, "job", &["--timeout", "1h"], "echo > $0/in; exec sleep 1000", folder));
    line_of(&folder.join("in"));
    until_listed(servers);
    client
}

#[tokio::test]
async fn the_commands_of_the_page_work() {
    let servers = new_servers(3).await;
    let mut ran = 0;
    for line in PAGE.lines().filter(|line| line.starts_with("quorumlock ")) {
        let mut command = over(&servers);
        command.args(line.split(' ').skip(1)).args(line.contains("init").then_some("--yes")).args(EACH_NODE);
        let (code, out, err) = done(&mut command);
        assert!(code == 0 && !out.is_empty(), "{line}: {code}\n{out}{err}");
        ran += 1;
    }
    assert_eq!(ran, 2);
}

#[tokio::test]
async fn nodes_that_no_client_has_used_have_no_record_and_no_list() {
    let servers = new_servers(3).await;
    let (code, seen) = shown(&servers);
    assert_eq!((code, &seen["verdict"]), (0, &"none".into()), "{seen}");
    assert!(seen["nodes"].as_array().unwrap().iter().all(|node| node["record"].is_null() && node["list"].is_null()));
    let all: Vec<_> = servers.iter().map(Server::url).collect();
    let told =
        format!("{}: no record: no client has used it since it started empty or lost its data\n", all.join(", "));
    let (_, out) = text(&servers, &[], &told);
    assert!(out.contains("no list is in force: clients of any list may come"), "{out}");
    assert!(servers.iter().all(|server| server.command(&["DBSIZE"]) == "0"), "to look writes nothing");
}

#[tokio::test]
async fn list_in_force_is_shown_with_its_time_and_servers() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let _client = client(&servers, folder.path());
    let (code, seen) = shown(&servers);
    assert_eq!((code, &seen["verdict"]), (0, &"this".into()), "{seen}");
    for (node, server) in seen["nodes"].as_array().unwrap().iter().zip(&servers) {
        assert_eq!(node["name"], format!("127.0.0.1:{}", server.port()));
        assert_eq!((&node["list"]["this"], &node["list"]["says"]), (&true.into(), &seen["list"]), "{node}");
        assert!((1.0..=15_000.0).contains(&node["list"]["left_ms"].as_f64().unwrap()), "{node}");
        assert_eq!(node["servers"], serde_json::json!([server.record("id")]));
        assert!(node["record"]["age_ms"].as_f64().unwrap() > 1e8 && node["record"]["synced"] == true, "{node}");
    }
    let (_, out) = text(&servers, &[], "this list is in force on 3 of 3 nodes");
    assert!(out.contains("this list: \"default\" of 3 nodes, max_ttl 0 s, protocol 4: 127.0.0.1:"), "{out}");
}

#[tokio::test]
async fn a_list_that_is_not_the_clients_is_told_to_be_another() {
    let (servers, folder) = (servers(5).await, tempfile::tempdir().unwrap());
    let _client = client(&servers[..3], folder.path());
    let (code, seen) = shown(&servers[2..]);
    assert_eq!((code, &seen["verdict"], &seen["nodes"][0]["list"]["this"]), (1, &"other".into(), &false.into()));
    let (code, out) = text(&servers[2..], &[], "list A: \"default\" of 3 nodes");
    assert!(code == 1 && out.contains("one list is wrong, perhaps ours"), "{out}");
    assert!(servers[..3].iter().all(|server| out.contains(&format!("127.0.0.1:{}", server.port()))), "{out}");
    let (code, out) = text(&servers[..3], &["--max-ttl", "2h"], "max_ttl 0 s");
    assert!(code == 1 && out.contains("max_ttl 2 h"), "{out}");
    let (code, out) = text(&servers[..3], &["--list", "jobs"], "ours is \"jobs\", theirs is \"default\"");
    assert_eq!(code, 1, "{out}");
}

#[tokio::test]
async fn members_without_a_quorum_exits_with_69() {
    let mut servers = servers(3).await;
    servers[0].kill();
    servers[1].kill();
    let (code, out, _) = done(over(&servers).arg("members"));
    assert!(code == 69 && out.contains("Connection refused") && out.contains("no quorum of nodes answers"), "{out}");
}

#[tokio::test]
async fn node_that_has_not_answered_is_told_as_in_status() {
    let servers = servers(3).await;
    servers[1].stop();
    for form in [None, Some("--json")] {
        // With the default --node-timeout (2 s), the node may count as down after these 5 s.
        let times = ["--connect-timeout", IN_VAIN, "--node-timeout", "20s"];
        let (_, out, err) = done(over(&servers).arg("members").args(times).args(form));
        let told = "no answer within 5 s, so it hangs or is far away; use a longer --connect-timeout to find out which";
        assert!(out.contains(told) && !out.contains("connecting"), "{out}{err}");
    }
}

#[tokio::test]
async fn members_of_a_bad_list_exits_with_64() {
    let servers = servers(2).await;
    let again = servers[0].url().replace("127.0.0.1", "localhost");
    let nodes = format!("{},{},{again}", servers[0].url(), servers[1].url());
    let (code, out, _) = done(over(&[]).args(["members", "--nodes", &nodes]).args(EACH_NODE));
    assert!(code == 64 && out.contains("one server is behind two addresses"), "{out}");
    let (code, _, err) = done(bare().arg("members"));
    assert!(code == 64 && err.contains("no node is configured"), "{err}");
    let twice = format!("{0}?name=one,{1}?name=one", servers[0].url(), servers[1].url());
    let (code, _, err) = done(over(&[]).args(["members", "--nodes", &twice]));
    assert!(code == 64 && err.contains("one"), "{err}");
    for retired in ["show", "retire", "reset", "teach"] {
        let (code, _, err) = done(over(&servers).args(["members", retired]));
        assert!(code == 64 && err.contains("unexpected argument"), "{retired}: {err}");
    }
}
