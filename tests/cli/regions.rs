//! The parts of docker/compose.yaml: services that work under one lock, and relays that delay the
//! messages to servers.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::status::looked;
use super::{Background, bare, done, until};
use crate::common::port::Port;
use crate::common::server::Server;
use crate::common::servers;

/// Starts a relay that listens at these ports, with one port for each server.
pub(super) fn far(servers: &[Server], ports: &[Port], round_trip: &str) -> Background {
    let routes = ports.iter().zip(servers).map(|(port, server)| {
        let (listens, leads_to) = (port.number(), server.port());
        format!("{listens}=localhost:{leads_to}@{round_trip}")
    });
    Background::start(bare().arg("relay").args(routes))
}

fn near(servers: &[Server]) -> String {
    named(servers.iter().map(Server::url))
}

/// These addresses with the nodes' names, which are the same in all regions.
fn named(addresses: impl IntoIterator<Item = String>) -> String {
    let nodes = addresses.into_iter().enumerate().map(|(node, address)| format!("{address}?name=n{node}"));
    nodes.collect::<Vec<_>>().join(",")
}

/// A service over `nodes` with its counter in `folder`.
fn service(nodes: &str, folder: &Path) -> Command {
    let mut command = bare();
    command.envs([("QUORUMLOCK_NODES", nodes), ("QUORUMLOCK_MAX_TTL", "0")]);
    command.args(["demo-service", "--workers", "2", "--pause", "5ms", "--folder"]).arg(folder);
    command
}

/// The value of the counter, which all services of the folder share.
fn counter(folder: &Path) -> u64 {
    let text = std::fs::read_to_string(folder.join("counter")).unwrap_or_default();
    text.split_whitespace().next().map_or(0, |count| count.parse().unwrap())
}

fn grows(folder: &Path, by: u64) {
    let enough = counter(folder) + by;
    until("the counter grows", || counter(folder) >= enough);
}

/// Ends a service by SIGTERM, and returns its summary.
fn ended(mut service: Background) -> Value {
    service.send(Signal::TERM);
    let (code, out, err) = service.done();
    assert_eq!(code, 0, "{out}{err}");
    serde_json::from_str(&out).unwrap()
}

fn number(summary: &Value, field: &str) -> u64 {
    summary[field].as_u64().unwrap_or_else(|| panic!("{field} in {summary}"))
}

#[tokio::test]
async fn near_and_far_services_share_one_lock_without_overlaps() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let ports = [Port::take(), Port::take(), Port::take()];
    let mut relay = far(&servers, &ports, "10ms");
    let through = named(ports.each_ref().map(|port| format!("redis://127.0.0.1:{}", port.number())));
    let other = Background::start(&mut service(&through, folder.path()));
    // On a busy machine, a service may get no turn while the other runs. So each also runs alone:
    // one at the beginning, and one at the end.
    grows(folder.path(), 5);
    let one = Background::start(&mut service(&near(&servers), folder.path()));
    grows(folder.path(), 40);
    let other = ended(other);
    grows(folder.path(), 5);
    let summaries = [other, ended(one)];
    assert!(summaries.iter().all(|summary| number(summary, "sections") > 0), "{summaries:?}");
    for field in ["overlaps", "rejected_tokens"] {
        assert_eq!(summaries.each_ref().map(|summary| number(summary, field)), [0, 0], "{field}");
    }
    let sections: u64 = summaries.iter().map(|summary| number(summary, "sections")).sum();
    assert_eq!(sections, counter(folder.path()), "no section is missing in the counter");
    assert_eq!(number(&summaries[1], "counter"), sections);
    relay.send(Signal::TERM);
    assert_eq!(relay.done().0, 143);
}

#[tokio::test]
async fn a_service_that_is_killed_leaves_nobody_inside() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    for _ in 0..5 {
        // With a short ttl, the locks that the killed service leaves behind end soon.
        let mut killed = Background::start(service(&near(&servers), folder.path()).env("QUORUMLOCK_TTL", "1s"));
        grows(folder.path(), 3);
        killed.send(Signal::KILL);
    }
    let next = Background::start(&mut service(&near(&servers), folder.path()));
    grows(folder.path(), 10);
    assert_eq!(number(&ended(next), "overlaps"), 0);
}

/// Another process holds the file lock `inside`, as a second holder of an unsafe lock would.
#[tokio::test]
async fn a_service_that_meets_somebody_inside_fails() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let inside = std::fs::File::create(folder.path().join("inside")).unwrap();
    rustix::fs::flock(&inside, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let mut service = Background::start(&mut service(&near(&servers), folder.path()));
    grows(folder.path(), 3);
    service.send(Signal::TERM);
    let (code, out, err) = service.done();
    assert_eq!(code, 1, "{out}{err}");
    assert!(number(&serde_json::from_str(&out).unwrap(), "overlaps") > 0, "{out}");
}

/// Gives the server the user of docker/redis.conf, and returns the address with this user.
fn least_rights(server: &Server) -> String {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docker/redis.conf");
    let text = std::fs::read_to_string(file).unwrap();
    let rights = text.lines().find_map(|line| line.strip_prefix("user locks ")).unwrap();
    let words: Vec<_> = ["ACL", "SETUSER", "locks"].into_iter().chain(rights.split(' ')).collect();
    assert_eq!(server.command(&words), "OK");
    let password = words.iter().find_map(|word| word.strip_prefix('>')).unwrap();
    format!("redis://locks:{password}@127.0.0.1:{}", server.port())
}

#[tokio::test]
async fn commands_need_no_rights_beyond_the_compose_file() {
    let servers = servers(3).await;
    let nodes: Vec<_> = servers.iter().map(least_rights).collect();
    for words in [
        "demo --seconds 1 --json",
        "run one two --timeout 1h -- true",
        "run permits --permits 2 --timeout 1h -- true",
        "run readers --shared --timeout 1h -- true",
        "run period --once-per 40s --timeout 1h -- true",
        "elect leader --value me --timeout 1h -- true",
        "release one --force --yes",
        "release two --force --yes --now",
        "status one",
        "status --all",
        "members",
        "init --yes",
    ] {
        let mut command = bare();
        command.envs([("QUORUMLOCK_NODES", nodes.join(",").as_str()), ("QUORUMLOCK_MAX_TTL", "0")]);
        let (code, out, err) = looked(command.args(words.split(' ')));
        assert_eq!(code, 0, "{words}: {out}{err}");
        for server in &servers {
            assert_eq!(server.command(&["ACL", "LOG"]), "", "{words}");
        }
    }
    // Show that the check above can fail: the log records a login with a wrong password.
    let (code, out, _) = done(bare().args(["status", "--nodes", &nodes[0].replace("locks:", "locks:x")]));
    assert_eq!(code, 69, "{out}");
    assert!(servers[0].command(&["ACL", "LOG"]).contains("auth"));
}

#[test]
fn relay_reports_a_bad_route_and_a_taken_port() {
    let (code, _, err) = done(bare().args(["relay", "7001"]));
    assert_eq!(code, 64);
    assert!(err.contains("7001=redis-eu:6379@80ms"), "{err}");
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let route = format!("{}=localhost:1@0", taken.local_addr().unwrap().port());
    let (code, _, err) = done(bare().args(["relay", &route]));
    assert_eq!(code, 69);
    assert!(err.contains("cannot listen on"), "{err}");
}
