//! The command, as a shell sees it: processes, signals, files and exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

#[path = "../common/mod.rs"]
mod common;

mod alerts;
mod bench;
mod blocked;
mod demo;
mod doctor;
mod elect;
mod encrypted;
mod environment;
mod log;
mod manifests;
mod members;
mod metrics;
mod once;
mod packaging;
mod password_file;
mod permits;
mod prometheus;
mod regions;
mod release;
mod replaced;
mod retiring;
mod run;
mod sandbox;
mod screen;
mod secrets;
mod shared;
mod status;
mod teaching;
mod terminal;
mod transport;
mod unlisted;
mod unwell;
mod usage;
mod watch;

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::PATIENCE;
use common::server::Server;
use quorumlock::Transport;
use rustix::process::{Pid, Signal, kill_process};

/// The command without nodes: nothing of the caller's environment reaches it but which transport is
/// tested.
fn bare() -> Command {
    bare_at(env!("CARGO_BIN_EXE_quorumlock").as_ref())
}

/// The same where its executable is that file.
fn bare_at(executable: &Path) -> Command {
    let mut command = Command::new(executable);
    let ours = |(name, _): &(OsString, OsString)| name.to_string_lossy().starts_with("QUORUMLOCK_");
    for (name, _) in std::env::vars_os().filter(ours) {
        command.env_remove(name);
    }
    let transport = common::transport();
    if transport != Transport::default() {
        command.env("QUORUMLOCK_TRANSPORT", transport.name());
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The command over `servers`, without the restart guard, which fresh servers would fail.
fn over(servers: &[Server]) -> Command {
    with_nodes(bare(), servers)
}

fn with_nodes(mut command: Command, servers: &[Server]) -> Command {
    let nodes: Vec<_> = servers.iter().map(Server::url).collect();
    command.env("QUORUMLOCK_NODES", nodes.join(",")).env("QUORUMLOCK_MAX_TTL", "0");
    command
}

/// `quorumlock run NAME OPTIONS -- sh -c SCRIPT FOLDER`, so that the script has the folder in `$0`.
fn run(servers: &[Server], name: &str, options: &[&str], script: &str, folder: &Path) -> Command {
    let mut command = over(servers);
    command.args(["run", name]).args(options).args(["--", "sh", "-c", script]).arg(folder);
    command
}

/// How it ended, and what it said.
fn done(command: &mut Command) -> (i32, String, String) {
    told(command.output().unwrap())
}

fn told(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// What a file says once it says something whole: a line.
fn line_of(file: &Path) -> String {
    let mut text = String::new();
    until(&format!("{} has a line", file.display()), || {
        text = std::fs::read_to_string(file).unwrap_or_default();
        text.ends_with('\n')
    });
    text.trim().to_owned()
}

/// Waits until `condition` holds, and fails with `what` if it never does.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Whether a process runs: a zombie that its parent has not noticed yet does not.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// A child of a test, killed with it.
struct Background(Option<Child>);

impl Background {
    fn start(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }

    fn send(&mut self, signal: Signal) {
        send(self.child(), signal);
    }

    /// Waits for its end, and for that of whoever else writes where it wrote.
    fn done(mut self) -> (i32, String, String) {
        let child = self.0.take().unwrap();
        let pid = Pid::from_child(&child);
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait_with_output()));
        let output = receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            let _ = kill_process(pid, Signal::KILL);
            panic!("it does not end");
        });
        told(output.unwrap())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
