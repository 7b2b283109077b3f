//! Programs in other languages that use the agent: the tests of the Python client, and the programs
//! of `examples/serve`. Tests are skipped if the language is missing; `scripts/test` says so.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Background, bare_at, done, over, until, with_nodes};
use crate::common::program::command;
use crate::common::server::Server;
use crate::common::servers;

/// Whether the program cannot be started here.
fn is_missing(program: &str) -> bool {
    let is_missing =
        command("sh").args(["-c", "command -v \"$0\" >/dev/null", program]).status().is_ok_and(|it| !it.success());
    if is_missing {
        eprintln!("SKIPPED: {program} is missing");
    }
    is_missing
}

fn folder_of(parts: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(parts)
}

/// Runs a class of `clients/python/test_quorumlock.py`. Its tests start agents over these servers.
async fn run_python(class: &str) {
    if is_missing("python3") {
        return;
    }
    let servers = servers(3).await;
    let mut python = with_nodes(bare_at("python3".as_ref()), &servers);
    python.current_dir(folder_of("clients/python")).env("PYTHONDONTWRITEBYTECODE", "1");
    python.env("QUORUMLOCK_BIN", env!("CARGO_BIN_EXE_quorumlock"));
    python.args(["-m", "unittest", "-v", &format!("test_quorumlock.{class}")]);
    // Not `done`, whose limit is for one condition: each condition of these tests has its own limit.
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn python_locks_waits_and_releases() {
    run_python("Plain").await;
}

#[tokio::test]
async fn python_learns_of_losses_and_frees_locks_of_the_dead() {
    run_python("Loss").await;
}

#[tokio::test]
async fn interrupted_python_leaves_no_lock() {
    run_python("Interrupts").await;
}

#[tokio::test]
async fn python_does_jobs_once_and_leads() {
    run_python("Jobs").await;
}

#[tokio::test]
async fn python_with_asyncio_does_the_same() {
    run_python("Asyncio").await;
}

#[test]
fn python_client_has_the_version_of_the_crate() {
    let project = std::fs::read_to_string(folder_of("clients/python/pyproject.toml")).unwrap();
    assert!(project.contains(&format!("version = \"{}\"", env!("CARGO_PKG_VERSION"))), "{project}");
}

/// An agent on a socket in this folder.
fn agent(servers: &[Server], folder: &Path) -> (Background, PathBuf) {
    let socket = folder.join("agent.sock");
    let agent = Background::start(over(servers).args(["serve", "--socket"]).arg(&socket));
    until("the agent listens", || UnixStream::connect(&socket).is_ok());
    (agent, socket)
}

/// Runs the program for a moment, which must release its lock. Then runs it for an hour and kills
/// the agent, which the program must notice.
async fn check_example(program: impl Fn() -> Command, [moment, hour]: [&[&str]; 2], lost: &str) {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let (mut running, socket) = agent(&servers, folder.path());
    let start = |work: &[&str]| {
        let mut command = program();
        command.env("QUORUMLOCK_AGENT", &socket).arg("job").args(work);
        command
    };
    let (code, out, err) = done(&mut start(moment));
    assert!(code == 0 && out.starts_with("token "), "{code}: {out}{err}");
    let (code, _, err) = done(over(&servers).args(["run", "job", "--", "true"]));
    assert_eq!(code, 0, "{err}");
    let mut works = Background::start(&mut start(hour));
    let first = works.first_line();
    running.child().kill().unwrap();
    works.says(lost);
    let (code, out, err) = works.done();
    assert!(code != 0, "{first}: {out}{err}");
}

#[tokio::test]
async fn example_for_node_releases_and_stops_at_a_loss() {
    if is_missing("node") {
        return;
    }
    let program = || {
        let mut node = bare_at("node".as_ref());
        node.arg(folder_of("examples/serve/lock.mjs"));
        node
    };
    check_example(program, [&["0.1"], &["3600"]], "stopped").await;
}

#[tokio::test]
async fn example_for_go_releases_and_stops_at_a_loss() {
    if is_missing("go") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let built = folder.path().join("lock");
    let (code, _, err) =
        done(bare_at("go".as_ref()).args(["build", "-o"]).arg(&built).arg(folder_of("examples/serve/lock.go")));
    assert_eq!(code, 0, "{err}");
    check_example(|| bare_at(&built), [&["100ms"], &["1h"]], "stopped").await;
}

#[tokio::test]
async fn example_for_shell_releases_and_stops_at_a_loss() {
    if is_missing("curl") || is_missing("setsid") {
        return;
    }
    let program = || bare_at(&folder_of("examples/serve/lock.sh"));
    let work = |then| ["sh", "-c", then];
    check_example(program, [&work("echo token $TOKEN"), &work("echo token $TOKEN; exec sleep 3600")], "lock is lost")
        .await;
}

/// A `curl` whose lock has ended at the first `keep`. A later one would give it an hour.
const CURL_OF_A_LOST_LOCK: &str = r#"#!/bin/sh
case $* in
  */keep)
    [ -e "$0.kept" ] && exec echo '{"until_ms":3600000}'
    touch "$0.kept"
    echo '{"error":"lost","message":"the lock was lost","reason":"revoked"}' ;;
  *) echo '{"id":"5f1c","token":7,"until_ms":19000}' ;;
esac
"#;

#[test]
fn example_for_shell_stops_if_the_lock_has_ended() {
    if is_missing("setsid") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let curl = folder.path().join("curl");
    std::fs::write(&curl, CURL_OF_A_LOST_LOCK).unwrap();
    std::fs::set_permissions(&curl, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut example = bare_at(&folder_of("examples/serve/lock.sh"));
    let (code, _, err) = done(example.args(["job", "sleep", "3600"]).env("PATH", path));
    assert!(code != 0 && err.contains("the lock is lost"), "{code}: {err}");
}
