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
mod languages;
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
mod quorum_lost;
mod regions;
mod release;
mod replaced;
mod run;
mod sandbox;
mod screen;
mod secrets;
mod serve;
mod shared;
mod signals;
mod status;
mod terminal;
mod tickets;
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

/// A timeout for commands that must fail by their timeout. It is long enough for them to connect
/// first, even on a busy machine. A command that must succeed gets an hour.
const IN_VAIN: &str = "5s";

/// Options for commands that report each node, if no node hangs: the commands wait until they know
/// the state of all nodes. Do not use these options if a quorum is down: the commands would wait
/// for the quorum.
const EACH_NODE: [&str; 4] = ["--connect-timeout", "50s", "--node-timeout", "20s"];

/// The command without nodes. Of the caller's variables `QUORUMLOCK_*`, the command gets only the
/// transport.
fn bare() -> Command {
    bare_at(env!("CARGO_BIN_EXE_quorumlock").as_ref())
}

/// As `bare`, with this executable.
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

/// The command over `servers`, without a quarantine: a server that restarts votes at once.
fn over(servers: &[Server]) -> Command {
    with_nodes(bare(), servers)
}

fn with_nodes(mut command: Command, servers: &[Server]) -> Command {
    let nodes: Vec<_> = servers.iter().map(Server::url).collect();
    command.env("QUORUMLOCK_NODES", nodes.join(",")).env("QUORUMLOCK_MAX_TTL", "0");
    // The default timeout is too short if the machine stalls.
    command.env("QUORUMLOCK_TIMEOUT", "1h");
    command
}

/// `quorumlock run NAME OPTIONS -- sh -c SCRIPT FOLDER`: in the script, `$0` is the folder. The
/// command has a process group of its own. So if the tests run on a terminal, the terminal sends it
/// no signals.
fn run(servers: &[Server], name: &str, options: &[&str], script: &str, folder: &Path) -> Command {
    let mut command = over(servers);
    command.args(["run", name]).args(options).args(["--", "sh", "-c", script]).arg(folder);
    command.process_group(0);
    command
}

/// Runs the command. Returns its exit code, its standard output and its standard error.
fn done(command: &mut Command) -> (i32, String, String) {
    Background::start(command).done()
}

/// Runs a command that tries only once, until a quorum of nodes answers in time. A try, or a
/// release by force, waits for answers for 2 s at most, whatever the options are, and a busy
/// machine may stall for longer.
fn tried(command: &mut Command) -> (i32, String, String) {
    let mut ended = done(command);
    until("a quorum answers in time", || {
        let is_late = ended.0 == 69 && ended.2.contains("no answer");
        if is_late {
            ended = done(command);
        }
        !is_late
    });
    ended
}

/// Takes a lock away from its holder, as an operator does.
fn take_away(servers: &[Server], name: &str) {
    let (code, out, err) = tried(over(servers).args(["release", name, "--force", "--yes"]));
    assert_eq!(code, 0, "{out}{err}");
}

/// Waits until a file has a whole line, and returns this line.
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

/// Waits until a quorum of the servers has freed the name. The other servers may get the release
/// later, or never if the client has ended. A lock whose ttl has passed does not count as freed:
/// the server still stores its end.
fn until_released(servers: &[Server], name: &str) {
    let is_free = |server: &&Server| server.ends(name) == 0 && server.holder(name).is_none();
    until(&format!("{name} is released"), || servers.iter().filter(is_free).count() > servers.len() / 2);
}

/// Waits until each server has the list of a client. A client does not wait for the last server.
fn until_listed(servers: &[Server]) {
    until("a list is in force on each node", || servers.iter().all(|server| !server.record("list").is_empty()));
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

/// Tests all cases at the same time, since most cases wait.
fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, test: impl Fn(T) + Sync) {
    let test = &test;
    std::thread::scope(|scope| cases.into_iter().for_each(|case| _ = scope.spawn(move || test(case))));
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

thread_local! {
    /// The start time of each process whose pid this test has read. When the process has ended,
    /// another process may get its pid.
    static BEGAN: RefCell<HashMap<String, String>> = RefCell::default();
}

/// Stores the start time of the process with this pid. Does nothing if the text is no pid.
fn note(pid: &str) {
    if let Some((_, began)) = stat(pid) {
        BEGAN.with_borrow_mut(|noted| noted.insert(pid.to_owned(), began));
    }
}

/// Whether the process whose pid this test has read runs. Zombies and other processes with the same
/// pid do not count.
fn runs(pid: &str) -> bool {
    stat(pid).is_some_and(|(state, began)| !["Z", "X"].contains(&&*state) && is_noted(pid, &began))
}

/// As `runs`, but a zombie counts.
fn exists(pid: &str) -> bool {
    stat(pid).is_some_and(|(_, began)| is_noted(pid, &began))
}

/// Whether the pid was not noted, or was noted with this start time.
fn is_noted(pid: &str, began: &str) -> bool {
    BEGAN.with_borrow(|noted| noted.get(pid).is_none_or(|noted| noted == began))
}

/// The state of a process, and its start time.
fn stat(pid: &str) -> Option<(String, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned);
    Some((fields.next()?, fields.nth(18)?))
}

/// A child process of a test. Dropping this kills the child.
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

    /// The child's standard output. The first call begins to read the pipe.
    fn out(&mut self) -> &Said {
        self.out.get_or_insert_with(|| Said::by(self.child.stdout.take()))
    }

    fn err(&mut self) -> &Said {
        self.err.get_or_insert_with(|| Said::by(self.child.stderr.take()))
    }

    /// Waits until standard error contains `what`. Returns all text of standard error up to this
    /// moment.
    fn says(&mut self, what: &str) -> String {
        self.err().comes_to(what)
    }

    fn first_line(&mut self) -> String {
        let text = self.out().comes_to("\n");
        text.lines().next().unwrap().to_owned()
    }

    /// Waits until the child has ended, and until no other process has its pipes open.
    fn done(mut self) -> (i32, String, String) {
        let mut ended: Option<ExitStatus> = None;
        let in_time = comes_true(|| {
            ended = ended.or_else(|| self.child.try_wait().unwrap());
            // Read both pipes from the start: a full pipe would keep the child from ending.
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

/// The text that a child writes to one of its pipes. A thread reads the pipe at once.
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
