//! `quorumlock members`, and docs/members.md: its commands work, and its errors are those that are
//! told.

use std::process::Command;

use serde_json::Value;

use super::{Background, IN_VAIN, at_once, bare, done, over, until};
use crate::common::clockwork::aged_servers;
use crate::common::server::Server;
use crate::common::servers;

const PAGE: &str = include_str!("../../docs/members.md");
/// The nodes of the page.
const NAMES: [&str; 6] =
    ["redis://a:6379", "redis://b:6379", "redis://c:6379", "redis://d:6379", "redis://e:6379", "redis://f:6379"];

fn json(command: &mut Command) -> (i32, Value) {
    let (code, out, err) = done(command);
    (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")))
}

fn urls(servers: &[Server]) -> String {
    servers.iter().map(Server::url).collect::<Vec<_>>().join(",")
}

/// A client that stays, with locks of ten seconds: what it enrols lasts for 25 to 30 s.
fn client(nodes: &str, timeout: &str) -> Command {
    let mut command = bare();
    command.args(["run", "job", "--ttl", "10s", "--max-ttl", "10s", "--timeout", timeout, "--nodes", nodes]);
    command.args(["--", "sleep", "1000"]);
    command
}

/// A client of all nodes, once they have its list and know which tokens were dealt.
fn connected(nodes: &str, count: usize) -> Background {
    let client = Background::start(&mut client(nodes, "1h"));
    until("the nodes have its list and know", || {
        let (_, seen) = json(bare().args(["members", "show", "--json", "--nodes", nodes]));
        let known = seen["nodes"].as_array().unwrap().iter().filter(|node| node["knows_tokens"] == true);
        seen["verdict"] == "one" && known.count() == count
    });
    client
}

/// Run ids, times and ports differ from run to run.
fn blurred(text: &str) -> String {
    let mut blurred = String::new();
    for word in text.split_whitespace() {
        let word = match word.split_once("..") {
            Some((_, rest)) => format!("run..{rest}"),
            None => word.replace(|char: char| char.is_ascii_digit(), "#"),
        };
        let mut word = format!("{word} ");
        while word.contains("##") {
            word = word.replace("##", "#");
        }
        blurred += &word;
    }
    blurred
}

/// Whether the page has this error, where these servers are its nodes.
fn on_the_page(servers: &[Server], said: &str) -> bool {
    let named =
        servers.iter().zip(NAMES).fold(said.to_owned(), |said, (server, name)| said.replace(&server.url(), name));
    let part = |line: &str| blurred(line);
    let errors = PAGE.split("```text").skip(1).filter_map(|rest| rest.split("```").next());
    let named = part(&named);
    errors.map(part).any(|error| named.contains(error.trim()))
}

#[tokio::test]
async fn the_commands_of_the_page_work() {
    let servers = aged_servers(6).await;
    let client = connected(&urls(&servers[..3]), 3);
    until("a token was dealt", || servers[..3].iter().any(|server| bounds(server).0 > 0));
    drop(client);
    // As after the time that the page says to wait.
    servers.iter().for_each(|server| _ = server.command(&["DEL", "quorumlock:node:roster"]));
    let mut ran = 0;
    for line in PAGE.lines().map(str::trim).filter(|line| line.starts_with("quorumlock ")) {
        let real =
            servers.iter().zip(NAMES).fold(line.to_owned(), |line, (server, name)| line.replace(name, &server.url()));
        let (code, out, err) = done(bare().args(real.split(' ').skip(1)));
        assert!(code == 0 && !out.is_empty(), "{line}: {code}\n{out}{err}");
        ran += 1;
    }
    assert_eq!(ran, 9);
    let high = bounds(&servers[0]).0;
    for server in &servers[3..] {
        assert!(bounds(server).1 >= high, "no token is below those that were dealt");
    }
}

/// The highest ballot that a node knows, and up to which it grants none.
fn bounds(server: &Server) -> (u64, u64) {
    let told = server.command(&["HMGET", "quorumlock:node", "high", "floor"]);
    let (high, floor) = told.split_once(' ').unwrap();
    (high.parse().unwrap(), floor.parse().unwrap())
}

#[tokio::test]
async fn what_nodes_have_is_shown_with_a_verdict() {
    let servers = aged_servers(4).await;
    let (all, three) = (urls(&servers), urls(&servers[..3]));
    let show = |nodes: &str| json(bare().args(["members", "show", "--json", "--nodes", nodes]));
    let (code, seen) = show(&three);
    assert_eq!((code, &seen["verdict"]), (0, &"nobody".into()));
    let _client = connected(&three, 3);
    let (code, seen) = show(&three);
    assert_eq!((code, &seen["verdict"]), (0, &"one".into()));
    let node = &seen["nodes"][0];
    assert_eq!((&node["n"], &node["protocol"], &node["max_ttl_ms"]), (&3.into(), &3.into(), &10_000.0.into()));
    assert!((1.0..=30_000.0).contains(&node["lasts_ms"].as_f64().unwrap()) && node["retired_ms"].is_null(), "{node}");
    let mut known: Vec<_> = node["servers"].as_array().unwrap().iter().map(|it| it["node"].as_str().unwrap()).collect();
    known.sort_unstable();
    let mut expected: Vec<_> = servers[..3].iter().map(Server::url).collect();
    expected.sort_unstable();
    assert_eq!(known, expected);
    let (code, seen) = show(&all);
    assert_eq!((code, &seen["verdict"], &seen["differs"][0]), (1, &"but".into(), &servers[3].url().into()));
    let (code, out, _) = done(bare().args(["members", "show", "--max-ttl", "2h", "--nodes", &all]));
    assert!(code == 1 && out.contains("differs from the others: no client has enrolled there"), "{out}");
    assert!(out.contains("acquires nothing: ") && out.contains("theirs has 3 nodes, this one 4"), "{out}");
    assert!(out.contains("4 of 4 nodes are quarantined, and vote on no claim for up to another "), "{out}");
}

#[tokio::test]
async fn a_list_that_is_not_the_clients_is_told_to_be_another() {
    let servers = servers(4).await;
    assert_eq!(done(over(&servers[..3]).args(["run", "job", "--", "true"])).0, 0);
    let show = |nodes: &[&Server]| {
        let nodes: Vec<_> = nodes.iter().map(|server| server.url()).collect();
        let (code, out, _) = done(over(&[]).args(["members", "show", "--nodes", &nodes.join(",")]));
        (code, out)
    };
    let [a, b, c, d] = &servers[..] else { panic!("four servers") };
    let (code, out) = show(&[a, b, d]);
    assert!(code == 1 && out.contains("a client with this list counts not all of these nodes: "), "{out}");
    assert!(out.contains("(none of these nodes)") && !out.contains("see that all clients reach it"), "{out}");
    let (code, out) = show(&[a, b]);
    assert!(code == 1 && out.contains("a client with this list acquires nothing: "), "{out}");
    assert_eq!(show(&[a, b, c]).0, 0);
    let again = c.url().replace("127.0.0.1", "localhost");
    let (code, out, _) =
        done(over(&servers[..3]).args(["members", "show", "--nodes", &format!("{},{again}", urls(&servers[..3]))]));
    assert!(code == 64 && out.contains("one server is behind two addresses"), "{out}");
}

#[tokio::test]
async fn without_a_quorum_that_answers_it_is_69() {
    let mut servers = servers(3).await;
    servers[0].kill();
    servers[1].kill();
    let (code, out, _) = done(over(&servers).args(["members", "show"]));
    assert!(code == 69 && out.contains("Connection refused") && out.contains("no quorum of nodes tells"), "{out}");
    let (code, out, err) = done(over(&servers).args(["members", "retire", &servers[0].url()]));
    assert!(code == 69 && out.is_empty() && err.contains("did not confirm it"), "{err}");
    let (code, out, err) = done(over(&servers).args(["members", "retire", &servers[2].url()]));
    assert!(code == 0 && out.contains("is retired"), "one node is enough: {err}");
}

#[tokio::test]
async fn whom_nobody_can_retire_is_told() {
    let servers = servers(2).await;
    for (url, said) in [
        ("redis://127.0.0.1:1", "is none of these nodes"),
        ("127.0.0.1:1", "lacks its scheme"),
        ("http://a", "unknown"),
        ("", "scheme"),
    ] {
        for verb in ["retire", "reset"] {
            let (code, out, err) = done(over(&servers).args(["members", verb, url]));
            assert!(code == 64 && out.is_empty() && err.contains(said), "{verb} {url:?}: {code} {err}");
        }
    }
    let (code, _, err) = done(bare().args(["members", "show"]));
    assert!(code == 64 && err.contains("no node is configured"), "{err}");
    let secret = servers[0].url().replace("redis://", "redis://:secret@");
    let (code, out, _) = done(over(&servers).args(["members", "retire", &secret]));
    assert!(code == 0 && !out.contains("secret"), "{out}");
}

#[tokio::test]
async fn whoever_has_only_retired_nodes_acquires_nothing_until_one_too_many_is_taken_back() {
    let servers = servers(3).await;
    let tried = |connecting: &str| {
        done(over(&servers).args(["run", "job", "-n", "--connect-timeout", connecting, "--ttl", "10m", "--", "true"]))
    };
    assert_eq!(tried("1h").0, 0);
    for server in &servers[..2] {
        let (code, out, err) = done(over(&servers).args(["members", "retire", &server.url(), "--yes"]));
        assert!(code == 0 && out.contains("nothing rests on it"), "{out}{err}");
    }
    let (code, _, err) = tried(IN_VAIN);
    assert!(code == 69 && on_the_page(&servers, &err.replace(&servers[0].url(), "redis://c:6379")), "{err}");
    let (code, seen) = json(over(&servers).args(["status", "--json"]));
    assert_eq!((code, &seen["votes"]), (69, &1.into()), "{seen}");
    for name in [None, Some("job")] {
        let (code, out, _) = done(over(&servers).arg("status").args(name));
        assert!(code == 69 && out.contains("up, but it was retired"), "{out}");
        assert!(out.contains("1 of 3 nodes vote; a quorum is 2: no lock can be acquired\n"), "{out}");
        assert!(!out.contains("free; ") && !out.contains("others can"), "{out}");
    }
    let (code, told) = json(over(&servers).args(["members", "reset", &servers[0].url(), "--json"]));
    assert!(code == 0 && told["was_retired_ms"].as_f64().is_some() && told["others_ms"].is_null(), "{told}");
    assert_eq!(tried("1h").0, 0, "two of three");
}

#[tokio::test]
async fn a_roster_of_another_list_stays_and_is_told() {
    let servers = aged_servers(5).await;
    let _client = connected(&urls(&servers[..3]), 3);
    let others = urls(&servers[2..]);
    let (code, out, _) = done(bare().args(["members", "reset", &servers[2].url(), "--nodes", &others]));
    assert!(
        code == 0
            && out.contains("was not retired")
            && out.contains("have servers that are none of these nodes, and stay"),
        "{out}"
    );
    let (code, _, err) = done(&mut client(&others, IN_VAIN));
    assert!([64, 69, 75].contains(&code), "{code}: {err}");
}

#[tokio::test]
async fn the_errors_of_the_page_are_those_that_are_told() {
    let mut servers = aged_servers(6).await;
    let run = |nodes: &str| done(&mut client(nodes, IN_VAIN));
    let client = connected(&urls(&servers[..3]), 3);
    at_once([&servers[2..5], &servers[..5]], |list| {
        let (code, _, err) = run(&urls(list));
        assert!(code == 69 && on_the_page(&servers, &err), "{err}");
    });
    let teach = |new: &Server, old: &str| done(bare().args(["members", "teach", &new.url(), "--nodes", old]));
    let (code, _, err) = teach(&servers[0], &urls(&servers[..3]));
    assert!(code == 64 && on_the_page(&servers, &err), "{err}");
    let (code, out, err) = teach(&servers[5], &urls(&servers[..3]));
    assert!(code == 69 && out.is_empty() && on_the_page(&servers, &err), "{err}");
    drop(client);
    servers[0].command(&["DEL", "quorumlock:node:roster"]);
    servers[1].kill();
    servers[2].kill();
    let (code, out, err) = teach(&servers[5], &urls(&servers[..3]));
    assert!(code == 69 && out.is_empty() && on_the_page(&servers, &err), "{err}");
    assert!(err.contains("it knows") && err.contains("Connection refused"), "{err}");
    assert_eq!(bounds(&servers[5]), (0, 0), "nothing was written");
}
