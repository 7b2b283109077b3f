//! `quorumlock members retire`: it says what is left, and asks where that is no quorum and clients
//! run.

use std::io::{Seek, Write};

use serde_json::Value;

use super::terminal::Asked;
use super::{Background, done, line_of, over, run, until};
use crate::common::clockwork::aged_servers;
use crate::common::server::Server;
use crate::common::servers;

#[tokio::test]
async fn who_retires_so_many_that_no_quorum_is_left_is_asked_first() {
    let servers = servers(3).await;
    assert_eq!(done(over(&servers).args(["run", "job", "--ttl", "10m", "--", "true"])).0, 0);
    let retire = |node: usize| {
        let mut command = over(&servers);
        command.args(["members", "retire", &servers[node].url()]);
        command
    };
    let (code, out, err) = done(&mut retire(0));
    assert!(code == 0 && out.contains("2 of 3 nodes vote then") && !err.contains("[y/N]"), "{out}{err}");
    let (code, out, err) = done(&mut retire(1));
    assert!(code == 1 && out.is_empty() && err.contains("nothing was retired"), "{code} {out}{err}");
    let lost = "1 of 3 nodes votes then: clients of this list acquire nothing, and lose the locks that they hold";
    assert!(err.contains(lost) && err.contains("say --yes") && !err.contains("[y/N]"), "{err}");
    assert_eq!(done(over(&servers).args(["members", "show"])).0, 0, "it was not");
    let (code, out, _) = done(retire(1).arg("--json"));
    let told: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}"));
    assert_eq!((code, &told["retired_ms"], &told["votes"]), (1, &Value::Null, &1.into()), "{told}");
    assert_eq!(told["refused"], format!("{lost}; say --yes"));
    let mut asked = Asked::start(&mut retire(1));
    asked.answers("n\n");
    let (code, out, err) = asked.done();
    assert!(code == 1 && out.is_empty() && err.contains(&format!("{lost}. Retire it? [y/N] ")), "{err}");
    let mut asked = Asked::start(&mut retire(1));
    asked.answers("y\n");
    let (code, out, err) = asked.done();
    assert!(code == 0 && out.contains(lost), "{out}{err}");
    let (code, out, _) = done(over(&servers).args(["members", "show"]));
    assert!(code == 69 && out.contains("1 of 3 nodes votes"), "{out}");
}

#[tokio::test]
async fn a_list_on_standard_input_is_left_to_whoever_reads_it() {
    let servers = servers(3).await;
    assert_eq!(done(over(&servers).args(["run", "job", "--ttl", "10m", "--", "true"])).0, 0);
    let mut list = tempfile::tempfile().unwrap();
    list.write_all(b"one\ntwo\n").unwrap();
    list.rewind().unwrap();
    let retire = |node: usize| {
        let mut command = over(&servers);
        command.args(["members", "retire", &servers[node].url()]).stdin(list.try_clone().unwrap());
        done(&mut command).0
    };
    assert_eq!([0, 1, 2].map(retire), [0, 1, 1]);
    assert_eq!((&list).stream_position().unwrap(), 0, "nothing was read");
}

#[tokio::test]
async fn a_node_that_restarted_just_now_does_not_vote_then() {
    let (mut servers, folder) = (aged_servers(3).await, tempfile::tempdir().unwrap());
    let options = ["--ttl", "20s"];
    let _client =
        Background::start(&mut run(&servers, "job", &options, "echo > $0/in; exec sleep 1000", folder.path()));
    line_of(&folder.path().join("in"));
    let asked = |servers: &[Server], words: &[&str]| done(over(servers).args(words).args(["--max-ttl", "40m"]));
    let (_, out, err) = asked(&servers, &["status"]);
    assert!(out.contains("3 of 3 nodes vote"), "{out}{err}");
    servers[2].kill();
    servers[2].restart().await;
    until("it is enrolled", || asked(&servers, &["members", "show"]).0 == 0);
    let (code, out, err) = asked(&servers, &["members", "retire", &servers[1].url()]);
    assert!(code == 1 && out.is_empty() && err.contains("nothing was retired"), "{code} {out}{err}");
    let (_, rest) =
        err.split_once("1 of 3 nodes votes then: clients of this list acquire nothing for another ").expect(&err);
    assert!(rest.contains(" min, since 1 is quarantined, and lose the locks that they hold"), "{err}");
}

#[tokio::test]
async fn a_node_that_is_down_is_not_among_those_that_are_left() {
    let mut servers = servers(3).await;
    assert_eq!(done(over(&servers).args(["run", "job", "--ttl", "10m", "--", "true"])).0, 0);
    servers[0].kill();
    let retire = ["members", "retire", &servers[1].url(), "--json"];
    assert_eq!(done(over(&servers).args(retire)).0, 1);
    let (code, out, err) = done(over(&servers).args(retire).arg("--yes"));
    let told: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!((code, &told["votes"], &told["quorum"]), (0, &1.into(), &2.into()), "{told}");
    let (code, out, _) = done(over(&servers).args(["members", "show"]));
    assert!(code == 69 && !out.contains("the nodes have one list"), "{out}");
}

#[tokio::test]
async fn a_holder_whose_nodes_were_retired_is_told_so() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let options = ["--ttl", "6s"];
    let holder = Background::start(&mut run(&servers, "job", &options, "echo > $0/in; exec sleep 1000", folder.path()));
    line_of(&folder.path().join("in"));
    for server in &servers[..2] {
        assert_eq!(done(over(&servers).args(["members", "retire", &server.url(), "--yes"])).0, 0);
    }
    let (code, _, err) = holder.done();
    assert!(code == 76 && err.contains("was retired") && err.contains("members reset"), "{err}");
    assert!(!err.contains("not enrolled"), "{err}");
}

#[tokio::test]
async fn a_node_whose_place_another_has_is_not_said_to_count_again() {
    let servers = servers(4).await;
    let [a, b, c, d] = &servers[..] else { panic!("four servers") };
    let (old, new) = ([a, b, c].map(Server::url).join(","), [a, b, d].map(Server::url).join(","));
    let on = |nodes: &str, words: &[&str]| done(over(&[]).args(words).args(["--nodes", nodes]));
    assert_eq!(on(&old, &["members", "retire", &c.url()]).0, 0);
    let (code, _, err) = done(over(&[]).env("QUORUMLOCK_NODES", &new).args(["run", "job", "--", "true"]));
    assert_eq!(code, 0, "{err}");
    let (code, out, _) = on(&old, &["members", "reset", &c.url()]);
    assert!(
        code == 0 && out.contains("is retired no more") && out.contains("servers that are none of these nodes"),
        "{out}"
    );
    assert!(!out.contains("again within 10 s"), "{out}");
    let (code, _, err) = on(&new, &["members", "retire", &c.url()]);
    assert!(code == 64 && err.contains("or give the list that has it"), "{err}");
}
