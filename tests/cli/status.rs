//! `quorumlock status`.

use std::process::Command;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;

use super::unwell::{guarded, quarantined};
use super::{Background, EACH_NODE, IN_VAIN, at_once, done, line_of, over, run};
use crate::common::proxy::{Proxy, Way};
use crate::common::server::Server;
use crate::common::{new_servers, servers};

/// Runs `status` until each node that is not down has answered in time. `status` waits for a node's
/// answer for 2 s at most, whatever the options are, and a busy machine may stall for longer. Do
/// not use this if a node hangs.
pub(super) fn looked(command: &mut Command) -> (i32, String, String) {
    let mut ended = done(command);
    super::until("each node answers in time", || {
        let late = ended.1.contains("no answer");
        if late {
            ended = done(command);
        }
        !late
    });
    ended
}

fn json(command: &mut Command) -> (i32, Value) {
    let (code, out, err) = looked(command);
    (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")))
}

/// `quorumlock status WORDS`, which waits until it knows the state of each node.
fn status(servers: &[Server], words: &[&str]) -> Command {
    let mut command = over(servers);
    command.arg("status").args(words).args(EACH_NODE);
    command
}

#[tokio::test]
async fn a_node_that_is_down_is_told_with_its_reason() {
    let mut servers = servers(3).await;
    servers[1].kill();
    let (code, out, _) = looked(&mut status(&servers, &[]));
    assert_eq!(code, 0);
    let line = |port: u16| out.lines().find(|line| line.contains(&format!(":{port} "))).unwrap().to_owned();
    assert!(line(servers[0].port()).ends_with("up") && line(servers[1].port()).ends_with("down"), "{out}");
    assert!(out.contains(&format!("{}: down: Connection refused\n", servers[1].url())), "{out}");
    assert!(
        out.contains("2 of 3 nodes vote; a quorum is 2: the next failure stops all locks\nno list is in force"),
        "{out}"
    );
    let (code, seen) = json(&mut status(&servers, &["--json"]));
    assert_eq!((code, &seen["votes"], &seen["quorum_votes"]), (0, &2.into(), &true.into()));
    assert_eq!((&seen["nodes"][1]["state"], &seen["nodes"][1]["version"]), (&"down".into(), &Value::Null));
    assert_eq!((&seen["nodes"][0]["counts"], &seen["nodes"][1]["counts"]), (&true.into(), &false.into()));
    assert!(seen["nodes"][0]["round_trip_ms"].as_f64().unwrap() > 0.0);
    assert!(seen["nodes"][0]["version"].is_string() && seen["nodes"][0]["uptime_seconds"].is_u64());
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_are_far_away_are_waited_for() {
    let servers = servers(3).await;
    let far = join_all(servers.iter().map(|server| Proxy::start(server.port()))).await;
    far.iter().for_each(|proxy| proxy.both(Way::Delay(Duration::from_millis(350))));
    let urls: Vec<_> = far.iter().map(Proxy::url).collect();
    let (code, seen) = json(&mut status(&servers, &["--json", "--nodes", &urls.join(",")]));
    assert_eq!((code, &seen["votes"]), (0, &3.into()), "{seen}");
    assert!(seen["nodes"][0]["round_trip_ms"].as_f64().unwrap() > 690.0, "{seen}");
}

#[tokio::test]
async fn status_with_a_majority_down_works_and_exits_with_69() {
    let mut servers = servers(3).await;
    servers[1].kill();
    servers[2].kill();
    let (code, seen) = json(over(&servers).args(["status", "job", "--json"]));
    assert_eq!((code, &seen["quorum_votes"], &seen["agreed"]), (69, &false.into(), &false.into()));
    assert_eq!(seen["nodes"][0]["state"], "up");
    let (_, out, _) = done(over(&servers).arg("status"));
    assert!(out.contains("nobody knows which clients use these nodes: 1 of 3 answered"), "{out}");
}

#[tokio::test]
async fn status_with_wait_ends_at_a_quorum_or_reports_that_none_voted() {
    let mut servers = servers(3).await;
    servers[1..].iter_mut().for_each(Server::kill);
    at_once([("text", "1 of 3 nodes vote"), ("json", "\"votes\":1")], |(form, shows)| {
        let mut command = over(&servers);
        command.args(["status", "--wait", IN_VAIN]).args((form == "json").then_some("--json"));
        let (code, out, err) = done(&mut command);
        assert!(code == 69 && err.contains("no quorum of nodes voted within 5 s"), "{code}: {out}{err}");
        assert!(out.contains(shows), "it shows them all the same: {out}");
    });
    let mut command = over(&servers);
    let mut waits = Background::start(command.args(["status", "job", "--wait", "1h"]));
    super::until("it waits", || {
        // `status` writes nothing to the server, so look for its connection.
        servers[0].command(&["CLIENT", "LIST"]).lines().count() > 1
    });
    assert!(waits.child().try_wait().unwrap().is_none());
    servers[1].restart().await;
    let (code, out, err) = waits.done();
    assert!(code == 0 && out.contains("2 of 3 nodes vote; a quorum is 2"), "{out}{err}");
    assert!(out.contains("nobody can tell who holds it yet: 1 of 3 nodes wait for a client"), "{out}");
    let (code, _, err) = done(over(&servers).args(["status", "--wait", "--all"]));
    assert!(code == 64 && err.contains("cannot be used with"), "{code}: {err}");
}

#[tokio::test]
async fn status_with_wait_lasts_until_quarantines_have_ended() {
    let servers = new_servers(3).await;
    // The servers must be younger than max_ttl when the first command asks for their uptime.
    let brief = |words: &[&str]| done(over(&servers).env("QUORUMLOCK_MAX_TTL", "30s").args(words));
    // The command ends once it knows that a quorum is in quarantine.
    let (code, _, err) = brief(&["run", "job", "--timeout", "10s", "--ttl", "6s", "--", "true"]);
    assert!(code == 69 && err.contains("quarantined for"), "{code}: {err}");
    let (code, out, err) = brief(&["status", "--wait"]);
    assert!(code == 0 && out.contains("nodes vote; a quorum is 2"), "{code}: {out}{err}");
    let (code, out, err) = done(guarded(&quarantined(3).await).args(["status", "--wait", "100ms"]));
    assert!(code == 69 && out.contains("0 of 3 nodes vote") && err.contains("within 100 ms"), "{code}: {out}{err}");
}

#[tokio::test]
async fn a_node_that_may_have_forgotten_is_quarantined() {
    let servers = quarantined(3).await;
    let (code, seen) = json(guarded(&servers).args(["status", "--json"]).args(EACH_NODE));
    assert_eq!((code, &seen["votes"]), (69, &0.into()));
    let node = &seen["nodes"][0];
    assert_eq!(node["state"], "quarantined");
    assert!(node["why"].as_str().unwrap().contains("restarted"));
    assert!(node["quarantine_ms"].as_f64().unwrap() > 1e6);
    let (_, out, _) = looked(guarded(&servers).arg("status").args(EACH_NODE));
    assert!(out.contains("quarantined for") && out.contains("no lock can be acquired"), "{out}");
}

#[tokio::test]
async fn a_held_name_is_shown_with_holder_count_time_and_fence() {
    let (servers, folder) = (servers(5).await, tempfile::tempdir().unwrap());
    let (_, free) = json(&mut status(&servers, &["job", "--json"]));
    assert_eq!((&free["held"], &free["agreed"], &free["holder"]), (&false.into(), &true.into(), &Value::Null));
    let script = "echo $QUORUMLOCK_FENCING_TOKEN > $0/token; exec sleep 1000";
    let mut holder = Background::start(&mut run(&servers, "job", &["--timeout", "1h"], script, folder.path()));
    let token = line_of(&folder.path().join("token"));
    let (code, held) = json(&mut status(&servers, &["job", "--json"]));
    assert_eq!((code, &held["held"], &held["count"]), (0, &true.into(), &1.into()));
    assert_eq!(held["fence"].to_string(), token);
    let pid = format!("/{}/", holder.child().id());
    assert!(held["holder"].as_str().unwrap().contains(&pid), "{held}");
    assert!((1.0..=30_000.0).contains(&held["remaining_ms"].as_f64().unwrap()), "{held}");
    let (_, out, _) = looked(&mut status(&servers, &["job"]));
    assert!(out.contains("job is held by") && out.contains(&token), "{out}");
    let table: Vec<_> = out.lines().take_while(|line| !line.is_empty()).collect();
    assert!(table.len() == 6 && table.iter().all(|line| line.chars().count() <= 80), "{out}");
}

/// Waits until each node reports this many waiters for `job`.
fn in_line(servers: &[crate::common::server::Server], count: u32) {
    super::until(&format!("{count} wait in the queue"), || {
        let (_, seen) = json(over(servers).args(["status", "job", "--json"]));
        seen["nodes"].as_array().unwrap().iter().all(|node| node["waiting"] == count)
    });
}

#[tokio::test]
async fn the_line_is_shown() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "echo > $0/in; exec sleep 1000";
    let _holder = Background::start(&mut run(&servers, "job", &["--timeout", "1h"], script, folder.path()));
    super::until("it is held", || folder.path().join("in").exists());
    let (_, alone) = json(&mut status(&servers, &["job", "--json"]));
    assert_eq!((&alone["waiting"], &alone["turn"]), (&0.into(), &Value::Null));
    let options = ["--timeout", "1h"];
    let _one = Background::start(&mut run(&servers, "job", &options, "true", folder.path()));
    let _other = Background::start(&mut run(&servers, "job", &options, "true", folder.path()));
    in_line(&servers, 2);
    super::until("the text says so", || looked(&mut status(&servers, &["job"])).1.contains("2 wait in the queue"));
}

#[tokio::test]
async fn waiter_killed_at_the_head_of_the_line_keeps_nobody_out() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "echo > $0/in; until [ -e $0/go ]; do sleep 0.01; done";
    let holder = Background::start(&mut run(&servers, "job", &["--timeout", "1h"], script, folder.path()));
    super::until("it is held", || folder.path().join("in").exists());
    let options = ["--timeout", "1h"];
    let mut dead = Background::start(&mut run(&servers, "job", &options, "true", folder.path()));
    in_line(&servers, 1);
    let next = Background::start(&mut run(&servers, "job", &options, "echo inside", folder.path()));
    in_line(&servers, 2);
    dead.send(rustix::process::Signal::KILL);
    dead.child().wait().unwrap();
    std::fs::write(folder.path().join("go"), "").unwrap();
    let _ = holder.done();
    assert_eq!(next.done().1, "inside\n");
}

#[tokio::test]
async fn holders_note_is_shown_and_reported_to_a_refused_caller() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "echo > $0/in; exec sleep 1000";
    let note = ["--describe", "deploy #812", "--timeout", "1h"];
    let _holder = Background::start(&mut run(&servers, "job", &note, script, folder.path()));
    super::until("it is held", || folder.path().join("in").exists());
    super::until("the nodes know it", || {
        let (_, seen) = json(&mut status(&servers, &["job", "--json"]));
        seen["says"] == "deploy #812" && seen["held_for_ms"].as_f64().unwrap() > 0.0
    });
    let (_, out, _) = looked(&mut status(&servers, &["job"]));
    assert!(out.contains("its holder says \"deploy #812\", and has held it for"), "{out}");
    // On a busy machine, the nodes may answer a single try too late.
    super::until("whoever tries once is told so", || {
        let (code, _, err) = done(&mut run(&servers, "job", &["--timeout", "0"], "true", folder.path()));
        assert_ne!(code, 0, "{err}");
        code == 75 && err.contains("its holder says \"deploy #812\"")
    });
    let (code, _, err) = done(&mut run(&servers, "other", &["--describe", "a\nb"], "true", folder.path()));
    assert!(code == 64 && err.contains("control character"), "{code}: {err}");
}

#[tokio::test]
async fn status_of_all_shows_every_held_name() {
    let (mut servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let (code, out, _) = looked(&mut status(&servers, &["--all"]));
    assert_eq!((code, &*out), (0, "0 names are held\n"));
    let script = "echo > $0/two; exec sleep 1000";
    let options = ["job/2", "--describe", "deploy #812", "--timeout", "1h"];
    let _two = Background::start(&mut run(&servers, "job/1", &options, script, folder.path()));
    super::until("they are held", || folder.path().join("two").exists());
    super::until("the nodes know it", || {
        let (_, seen) = json(&mut status(&servers, &["--all", "--json"]));
        let names = seen["names"].as_array().unwrap().clone();
        names.len() == 2 && names.iter().all(|name| name["says"] == "deploy #812" && name["remaining_ms"].is_number())
    });
    let (code, out, _) = looked(&mut status(&servers, &["--all"]));
    let rows: Vec<_> = out.lines().collect();
    assert!(code == 0 && rows[1].starts_with("job/1 ") && rows[2].starts_with("job/2 "), "{out}");
    assert!(rows[2].ends_with("deploy #812") && out.ends_with("2 names are held\n"), "{out}");
    let (_, out, _) = looked(&mut status(&servers, &["--all", "--limit", "1"]));
    assert!(out.contains("more than 1 name is held; --limit shows more") && !out.contains("job/2"), "{out}");
    servers[0].kill();
    let (code, out, _) = looked(&mut status(&servers, &["--all"]));
    assert!(code == 0 && out.contains("not read: ") && out.contains("2 names are held"), "{out}");
    servers[1].kill();
    let (code, seen) = json(over(&servers).args(["status", "--all", "--json", "--connect-timeout", "300ms"]));
    assert_eq!((code, &seen["complete"]), (69, &false.into()));
    let (code, out, _) = done(over(&servers).args(["status", "--all", "--connect-timeout", "300ms"]));
    assert!(code == 69 && out.contains("nobody can tell which") && !out.contains("0 names"), "{out}");
    let (code, _, err) = done(over(&servers).args(["status", "job", "--all"]));
    assert!(code == 64 && err.contains("cannot be used with"), "{code}: {err}");
}

#[tokio::test]
async fn status_of_all_reports_what_differs_in_another_list() {
    let servers = servers(3).await;
    servers[2].put_in_force("default 60000 4 other:1", 600_000);
    let (code, out, err) = looked(&mut status(&servers, &["--all"]));
    let first = format!("another list is in force on 127.0.0.1:{}: ours has 3 nodes", servers[2].port());
    assert!(code == 69 && out.starts_with(&first) && !out.contains("0 names"), "{out}{err}");
}
