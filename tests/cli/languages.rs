//! Programs in other languages that use the agent: the tests of the Python client, and the programs
//! of `examples/serve`. Tests are skipped if the language is missing; `scripts/test` says so.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{Background, EACH_NODE, bare_at, done, over, tried, until, with_nodes};
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
    // Do not use `done`: its time limit is for one condition, and these tests check many.
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

/// Runs the program for 5 s after another holder, because a lock that was handed over must be
/// renewed early. The program must release the lock. Then starts the program for an hour, and kills
/// the agent: the program must notice that. The lock's name, `id`, is also a field of the agent's
/// answers.
async fn check_example(program: impl Fn() -> Command, [seconds, hour]: [&[&str]; 2], lost: &str) {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let (mut running, socket) = agent(&servers, folder.path());
    let start = |work: &[&str]| Background::start(program().env("QUORUMLOCK_AGENT", &socket).arg("id").args(work));
    let holds = ["run", "id", "--", "sh", "-c", "echo held; exec cat"];
    let mut holder = Background::start(over(&servers).args(holds).stdin(Stdio::piped()));
    holder.first_line();
    let works = start(seconds);
    let mut status = over(&servers);
    status.args(["status", "id"]).args(EACH_NODE);
    until("it waits", || done(&mut status).1.contains("1 waits in the queue"));
    drop(holder.child().stdin.take());
    let (code, out, err) = works.done();
    assert!(code == 0 && out.starts_with("token "), "{code}: {out}{err}");
    let (code, _, err) = tried(over(&servers).args(["run", "id", "--timeout", "0", "--", "true"]));
    assert_eq!(code, 0, "{err}");
    let mut works = start(hour);
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
    check_example(program, [&["5"], &["3600"]], "stopped").await;
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
    check_example(|| bare_at(&built), [&["5s"], &["1h"]], "stopped").await;
}

#[tokio::test]
async fn example_for_shell_releases_and_stops_at_a_loss() {
    if is_missing("curl") || is_missing("setsid") {
        return;
    }
    let program = || bare_at(&folder_of("examples/serve/lock.sh"));
    let work = |then| ["sh", "-c", then];
    let [seconds, hour] = [work("echo token $TOKEN; exec sleep 5"), work("echo token $TOKEN; exec sleep 3600")];
    check_example(program, [&seconds, &hour], "lock is lost").await;
}

/// A fake `curl`: at the first `keep`, the lock has ended. A second `keep` would report an hour.
const CURL_OF_A_LOST_LOCK: &str = r#"#!/bin/sh
case $* in
  */keep)
    [ -e "$0.kept" ] && exec echo '{"until_ms":3600000}'
    touch "$0.kept"
    echo '{"error":"lost","message":"the lock was lost","reason":"revoked"}' ;;
  *) echo '{"id":"5f1c","token":7,"until_ms":19000}' ;;
esac
"#;

/// The signal reaches the script and its keeper. The work ignores the signal, and still needs the
/// keeper.
#[test]
fn example_for_shell_stops_at_a_loss_after_a_signal() {
    if is_missing("setsid") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let curl = folder.path().join("curl");
    std::fs::write(&curl, CURL_OF_A_LOST_LOCK).unwrap();
    std::fs::set_permissions(&curl, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut example = bare_at(&folder_of("examples/serve/lock.sh"));
    example.args(["job", "sh", "-c", "trap '' TERM; echo works; exec sleep 3600"]).env("PATH", path).process_group(0);
    let mut works = Background::start(&mut example);
    works.first_line();
    kill_process_group(Pid::from_child(works.child()), Signal::TERM).unwrap();
    let (code, _, err) = works.done();
    assert!(code != 0 && err.contains("the lock is lost"), "{code}: {err}");
}
