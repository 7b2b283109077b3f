//! The command, as a shell sees it: processes, signals, files and exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

#[path = "../common/mod.rs"]
mod common;

mod again;
mod alerts;
mod another_user;
mod bench;
mod blocked;
mod clients;
mod container;
mod demo;
mod doctor;
mod elect;
mod encrypted;
mod environment;
mod init;
mod job_control;
mod left_behind;
mod lists;
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
mod run;
mod sandbox;
mod screen;
mod secrets;
mod shared;
mod signals;
mod status;
mod terminal;
mod transport;
mod tries;
mod unwell;
mod usage;
mod watch;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::PATIENCE;
use common::program::command;
use common::server::Server;
use quorumlock::Transport;
use rustix::process::{Pid, Signal, kill_process};

/// A timeout that passes in vain, of a command that has something else to do before it passes: long
/// enough for that on a busy machine. What is to succeed gets an hour.
const IN_VAIN: &str = "5s";

/// For what tells of each node where none hangs: it waits until it knows how all of them are. Not where a
/// quorum is down, which it would wait for.
const EACH_NODE: [&str; 4] = ["--connect-timeout", "50s", "--node-timeout", "20s"];

/// The command without nodes: nothing of the caller's environment reaches it but which transport is
/// tested.
fn bare() -> Command {
    bare_at(env!("CARGO_BIN_EXE_quorumlock").as_ref())
}

/// The same where its executable is that file.
fn bare_at(executable: &Path) -> Command {
    let mut command = command(executable);
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

/// The command over `servers`, without the restart guard: one that restarts votes at once.
fn over(servers: &[Server]) -> Command {
    with_nodes(bare(), servers)
}

fn with_nodes(mut command: Command, servers: &[Server]) -> Command {
    let nodes: Vec<_> = servers.iter().map(Server::url).collect();
    command.env("QUORUMLOCK_NODES", nodes.join(",")).env("QUORUMLOCK_MAX_TTL", "0");
    command
}

/// `quorumlock run NAME OPTIONS -- sh -c SCRIPT FOLDER`, so that the script has the folder in `$0`. In a
/// background group, should the tests have a terminal: it passes on whatever signal comes.
fn run(servers: &[Server], name: &str, options: &[&str], script: &str, folder: &Path) -> Command {
    let mut command = over(servers);
    command.args(["run", name]).args(options).args(["--", "sh", "-c", script]).arg(folder);
    command.process_group(0);
    command
}

/// How it ended, and what it said on its pipes.
fn done(command: &mut Command) -> (i32, String, String) {
    Background::start(command).done()
}

/// What a file says once it says something whole: a line.
fn line_of(file: &Path) -> String {
    let mut text = String::new();
    until(&format!("{} has a line", file.display()), || {
        text = std::fs::read_to_string(file).unwrap_or_default();
        text.ends_with('\n')
    });
    let line = text.trim();
    note(line);
    line.to_owned()
}

/// Waits until `condition` holds, and fails with `what` if it never does.
fn until(what: &str, condition: impl FnMut() -> bool) {
    assert!(comes_true(condition), "never came true: {what}");
}

fn comes_true(mut condition: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !condition() {
        if began.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Tests each case, all at once: most of them wait.
fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, test: impl Fn(T) + Sync) {
    let test = &test;
    std::thread::scope(|scope| cases.into_iter().for_each(|case| _ = scope.spawn(move || test(case))));
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

thread_local! {
    /// When the processes began whose pids this test has read: a pid may be another's later.
    static BEGAN: RefCell<HashMap<String, String>> = RefCell::default();
}

/// Remembers which process has that pid now, if it is one.
fn note(pid: &str) {
    if let Some((_, began)) = stat(pid) {
        BEGAN.with_borrow_mut(|noted| noted.insert(pid.to_owned(), began));
    }
}

/// Whether a process runs, the same as when its pid was read: a zombie that its parent has not noticed
/// yet does not.
fn runs(pid: &str) -> bool {
    let is_noted = |began| BEGAN.with_borrow(|noted| noted.get(pid).is_none_or(|noted| *noted == began));
    stat(pid).is_some_and(|(state, began)| !["Z", "X"].contains(&&*state) && is_noted(began))
}

/// The state of a process, and when it began.
fn stat(pid: &str) -> Option<(String, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned);
    Some((fields.next()?, fields.nth(18)?))
}

/// A child of a test, killed with it.
struct Background {
    child: Child,
    out: Option<Said>,
    err: Option<Said>,
}

impl Background {
    fn start(command: &mut Command) -> Self {
        Self::of(command.spawn().unwrap())
    }

    const fn of(child: Child) -> Self {
        Self { child, out: None, err: None }
    }

    fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    fn send(&mut self, signal: Signal) {
        send(self.child(), signal);
    }

    /// What it writes to standard output. Its pipe is read from the first call on.
    fn out(&mut self) -> &Said {
        self.out.get_or_insert_with(|| Said::by(self.child.stdout.take()))
    }

    fn err(&mut self) -> &Said {
        self.err.get_or_insert_with(|| Said::by(self.child.stderr.take()))
    }

    /// Waits until standard error has this. What it has by then.
    fn says(&mut self, what: &str) -> String {
        self.err().comes_to(what)
    }

    /// Waits for the first line of standard output.
    fn first_line(&mut self) -> String {
        let text = self.out().comes_to("\n");
        text.lines().next().unwrap().to_owned()
    }

    /// Waits for its end, and for that of whoever else writes where it wrote.
    fn done(mut self) -> (i32, String, String) {
        let mut ended: Option<ExitStatus> = None;
        let in_time = comes_true(|| {
            ended = ended.or_else(|| self.child.try_wait().unwrap());
            // Both are read from the beginning on: a pipe that is full would keep it from ending.
            let whole = [self.out().is_whole(), self.err().is_whole()];
            ended.is_some() && whole == [true, true]
        });
        let (out, err) = (self.out().text(), self.err().text());
        assert!(in_time, "it does not end ({ended:?}): {out}{err}");
        (ended.and_then(|status| status.code()).unwrap_or(-1), out, err)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a child writes to one of its pipes, read as it comes.
struct Said {
    bytes: Arc<Mutex<Vec<u8>>>,
    reading: Option<JoinHandle<()>>,
}

impl Said {
    fn by(pipe: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let kept = bytes.clone();
        let reading = pipe.map(|pipe| std::thread::spawn(move || read(pipe, &kept)));
        Self { bytes, reading }
    }

    fn is_whole(&self) -> bool {
        self.reading.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes.lock().unwrap().clone()).unwrap()
    }

    fn comes_to(&self, what: &str) -> String {
        let has = || String::from_utf8_lossy(&self.bytes.lock().unwrap()).contains(what);
        assert!(comes_true(has), "never said: {what}\n{}", self.text());
        self.text()
    }
}

fn read(mut pipe: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut part = [0; 4096];
    while let Ok(count @ 1..) = pipe.read(&mut part) {
        kept.lock().unwrap().extend_from_slice(&part[..count]);
    }
}
