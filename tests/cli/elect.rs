//! `quorumlock elect`.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::metrics::answer;
use super::{Background, IN_VAIN, done, over, until, until_released};
use crate::common::port::Port;
use crate::common::server::Server;
use crate::common::servers;

/// `quorumlock elect NAME OPTIONS -- sh -c SCRIPT FOLDER`.
pub(super) fn elect(servers: &[Server], options: &[&str], script: &str, folder: &Path) -> Command {
    let mut command = over(servers);
    command.args(["elect", "job"]).args(options).args(["--", "sh", "-c", script]).arg(folder);
    command.process_group(0);
    command
}

fn said(servers: &[Server]) -> Value {
    let (_, out, _) = done(over(servers).args(["status", "job", "--json"]));
    serde_json::from_str::<Value>(&out).unwrap()["says"].clone()
}

#[tokio::test]
async fn leader_value_is_shown_until_its_command_ends() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "echo $QUORUMLOCK_NAME $QUORUMLOCK_FENCING_TOKEN; until [ -e $0/go ]; do sleep 0.01; done";
    let first = Background::start(&mut elect(&servers, &["--value", "10.0.0.7:8080"], script, folder.path()));
    until("its value is seen", || said(&servers) == "10.0.0.7:8080");
    let options = ["--value", "10.0.0.8:8080", "--timeout", IN_VAIN];
    // On a busy machine, the nodes may answer too late when a candidate asks for the value.
    until("a candidate in vain is told the value", || {
        let (code, _, err) = done(&mut elect(&servers, &options, "true", folder.path()));
        assert_eq!(code, 75, "{err}");
        err.contains("says \"10.0.0.7:8080\"")
    });
    std::fs::write(folder.path().join("go"), "").unwrap();
    let (code, out, _) = first.done();
    let token = out.trim().strip_prefix("job ").unwrap().parse::<u64>().unwrap();
    assert!(code == 0 && token > 0, "{code}: {out}");
    // Check the release itself: the next candidate waits for longer than the ttl, and would also
    // win without a release.
    until_released(&servers, "job");
    let (code, later, _) = done(&mut elect(&servers, &[], script, folder.path()));
    assert!(code == 0 && later.trim().strip_prefix("job ").unwrap().parse::<u64>().unwrap() > token, "{later}");
    until_released(&servers, "job");
    until("the value is gone", || said(&servers) == Value::Null);
}

#[tokio::test]
async fn endpoint_names_the_leader_and_whether_this_process_leads() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let ports = [Port::take(), Port::take()].map(|port| (port.number(), port));
    let addresses = ports.each_ref().map(|(port, _)| port.to_string());
    let script = "until [ -e $0/go ]; do sleep 0.01; done";
    let started = |value: &str, address: &str| {
        let options = ["--value", value, "--http", address, "--timeout", "1h"];
        Background::start(&mut elect(&servers, &options, script, folder.path()))
    };
    let leads = |port: usize| answer(ports[port].0, "/leads");
    let object = |port: usize| serde_json::from_str::<Value>(&answer(ports[port].0, "/").1).unwrap_or_default();
    let first = started("one", &addresses[0]);
    until("the first leads", || leads(0) == (200, "{\"leads\":true}\n".to_owned()));
    let second = started("two", &addresses[1]);
    until("the second says that the first leads", || {
        let object = object(1);
        object["leader"]["value"] == "one" && object["leads"] == false
    });
    assert_eq!(leads(1).0, 503);
    until("the first says so too", || {
        let object = object(0);
        object["leader"]["value"] == "one" && object["leads"] == true
    });
    assert_eq!(answer(ports[0].0, "/other").0, 404);
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(first.done().0, 0);
    assert_eq!(second.done().0, 0);
    // Without a command, nobody leads, and no process says so.
    assert_eq!(leads(0).0, 0);
}

#[tokio::test]
async fn endpoint_that_cannot_be_opened_is_an_error() {
    let (servers, folder) = (servers(1).await, tempfile::tempdir().unwrap());
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (address, told) in [(&*address, "cannot be opened"), ("eu", "is no address; write a port")] {
        let (code, _, err) = done(&mut elect(&servers, &["--http", address], "true", folder.path()));
        assert!(code == 64 && err.contains(told) && err.contains("--http"), "{code}: {err}");
    }
}

#[tokio::test]
async fn endpoint_without_a_quorum_says_that_nobody_can_tell() {
    let (servers, folder, port) = (servers(3).await, tempfile::tempdir().unwrap(), Port::take());
    servers[..2].iter().for_each(Server::stop);
    let options = ["--http", &port.number().to_string(), "--timeout", "1h"];
    let _waits = Background::start(&mut elect(&servers, &options, "true", folder.path()));
    until("it says so", || {
        let (status, body) = answer(port.number(), "/");
        status == 503 && body.contains("nobody can tell who leads")
    });
}

#[tokio::test]
async fn elect_refuses_describe_a_second_name_and_a_long_value() {
    let (servers, folder) = (servers(1).await, tempfile::tempdir().unwrap());
    let long = "x".repeat(65_537);
    for (options, told) in [
        (["--describe", "x"], "an election has no --describe"),
        (["other", "--unfair"], "unexpected argument 'other'"),
        (["--value", &long], "65537 bytes; use at most 65536"),
    ] {
        let (code, _, err) = done(&mut elect(&servers, &options, "true", folder.path()));
        assert!(code == 64 && err.contains(told), "{code}: {err}");
    }
}
