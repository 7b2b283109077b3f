//! Standard error or output that takes no more text: a full pipe that nobody reads, or a terminal
//! after Ctrl-S.

use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Mode, OFlags, fcntl_setfl, open};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, tcflow, tcsetwinsize};

use super::{Background, bare, line_of, over, runs, until};
use crate::common::server::Server;
use crate::common::servers;

/// A pipe that is full.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    for chunk in [4_096, 1] {
        let full = std::iter::repeat_with(|| writer.write(&vec![b'.'; chunk])).find_map(Result::err).unwrap();
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
    }
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    (reader, writer)
}

/// A terminal that was stopped, as by Ctrl-S: the terminal's end and the program's end.
fn stopped_terminal() -> (File, OwnedFd) {
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&keyboard).unwrap();
    unlockpt(&keyboard).unwrap();
    let path = ptsname(&keyboard, Vec::new()).unwrap();
    let terminal: OwnedFd = open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    tcsetwinsize(&terminal, super::screen::size(80, 24)).unwrap();
    tcflow(&terminal, Action::OOff).unwrap();
    (File::from(keyboard), terminal)
}

/// `quorumlock WORDS -v --ttl 12s -- ..`, with a command that writes its pid to FOLDER/NAME.
fn holder(servers: &[Server], name: &str, words: &[&str], folder: &Path, stderr: impl Into<Stdio>) -> Background {
    let mut command = over(servers);
    let script = format!("echo $$ > $0/{name}; while :; do sleep 0.02; done");
    command.args(words).args(["-v", "--ttl", "12s", "--timeout", "1h", "--", "sh", "-c", &script]).arg(folder);
    Background::start(command.stderr(stderr))
}

/// The owner of a name, and the latest end of the hold on any node, in milliseconds of the wall
/// clock.
fn hold(servers: &[Server], name: &str) -> (String, u128) {
    let holds = servers.iter().filter_map(|server| server.hold(name));
    let (owner, _, left) = holds.max_by_key(|(.., left)| *left).expect("it is held");
    (owner, SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() + u128::from(left))
}

#[tokio::test]
async fn command_whose_output_nobody_reads_ends_as_by_sigpipe() {
    let (servers, (reader, writer)) = (servers(3).await, pipe().unwrap());
    drop(reader);
    let ended = over(&servers).arg("status").stdout(writer).output().unwrap();
    assert_eq!(ended.status.code(), Some(141));
    // A note says which nodes are slow, if any is.
    assert!(!String::from_utf8_lossy(&ended.stderr).contains("roken pipe"), "{ended:?}");
}

#[tokio::test]
async fn blocked_standard_error_delays_no_renewal_and_no_kill() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let (unread, full) = full_pipe();
    let (_keyboard, stopped) = stopped_terminal();
    let commands: [(&str, &[&str]); 5] = [
        ("plain", &["run", "plain"]),
        ("set", &["run", "set", "set2"]),
        ("shared", &["run", "shared", "--shared"]),
        ("permit", &["run", "permit", "--permits", "1"]),
        ("office", &["elect", "office", "--value", "10.0.0.7"]),
    ];
    let piped = commands.map(|(name, words)| holder(&servers, name, words, folder.path(), full.try_clone().unwrap()));
    let stopped = [("tty", &["run", "tty"]), ("ttyoffice", &["elect", "ttyoffice"])]
        .map(|(name, words)| holder(&servers, name, words, folder.path(), stopped.try_clone().unwrap()));
    let names = ["plain", "set", "shared", "permit", "office", "tty", "ttyoffice"];
    let pids = names.map(|name| line_of(&folder.path().join(name)));
    let locks = ["plain", "set", "shared", "permit/0", "office", "tty", "ttyoffice"];
    let first = locks.map(|name| hold(&servers, name));
    assert_ne!(servers[1].command(&["CLIENT", "KILL", "SKIPME", "yes"]), "0");
    for (name, (owner, end)) in locks.iter().zip(first) {
        until(&format!("{name} is renewed beyond its ttl"), || {
            let (now_owner, now_end) = hold(&servers, name);
            assert_eq!(now_owner, owner);
            now_end > end + 5_000
        });
    }
    assert!(pids.iter().all(|pid| runs(pid)));
    servers.iter().for_each(|server| assert_eq!(server.command(&["FLUSHALL"]), "OK"));
    for holder in piped.into_iter().chain(stopped) {
        assert_eq!(holder.done().0, 76);
    }
    assert!(!pids.iter().any(|pid| runs(pid)));
    drop(unread);
}

#[tokio::test]
async fn messages_dropped_at_a_blocked_pipe_are_counted() {
    let (servers, folder) = (servers(1).await, tempfile::tempdir().unwrap());
    let (mut unread, full) = full_pipe();
    // The names are so long that `run` cannot buffer two messages with all names.
    let names: Vec<_> = (0..150).map(|number| format!("{number}{}", "x".repeat(860))).collect();
    let script = "echo > $0/runs; until [ -e $0/go ]; do sleep 0.02; done";
    let mut command = over(&servers);
    command.arg("run").args(names).args(["-v", "--timeout", "1h", "--", "sh", "-c", script]).arg(folder.path());
    // The node is stopped, so the first message waits for room in the pipe before the messages on
    // the node and the lock come.
    servers[0].stop();
    let mut holder = Background::start(command.stderr(full));
    drop(command);
    let pid = holder.child().id();
    until("its first message waits", || waits_in_a_pipe(pid, 2));
    servers[0].resume();
    line_of(&folder.path().join("runs"));
    let reader = std::thread::spawn(move || {
        let mut said = String::new();
        unread.read_to_string(&mut said).map(|_| said)
    });
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(holder.done().0, 0);
    let said = reader.join().unwrap().unwrap();
    let told = said.lines().find(|line| line.contains("dropped, because standard error accepted no more"));
    assert!(told.is_some_and(|told| told.starts_with("quorumlock: ")), "{}", said.trim_start_matches('.'));
}

#[tokio::test]
async fn a_program_that_cannot_be_run_ends_though_nobody_reads_why() {
    let servers = servers(1).await;
    let (_unread, full) = full_pipe();
    let mut run = over(&servers);
    run.args(["run", "job", "--timeout", "1h", "--", "no-such-program"]).stderr(full);
    let run = Background::start(&mut run);
    assert_eq!(run.done().0, 127);
}

#[test]
fn demo_on_a_stopped_terminal_ends_in_time_and_by_signals() {
    for (seconds, signal, code) in [("1", None, 0), ("600", Some(Signal::TERM), 143)] {
        let (_keyboard, stopped) = stopped_terminal();
        let mut demo = bare();
        demo.args(["demo", "--json", "--seconds", seconds]).env("TERM", "xterm-256color").stderr(stopped);
        let mut demo = Background::start(&mut demo);
        if let Some(signal) = signal {
            let parent = demo.child().id().to_string();
            until("its workers run", || super::demo::workers_of(&parent).len() == 2);
            demo.send(signal);
        }
        assert_eq!(demo.done().0, code);
    }
}

#[test]
fn bench_on_a_stopped_terminal_ends_by_itself() {
    let (_keyboard, stopped) = stopped_terminal();
    let mut bench = bare();
    bench.args(["bench", "uncontended", "--pairs", "20", "--json"]).env("TERM", "xterm-256color").stderr(stopped);
    assert_eq!(Background::start(&mut bench).done().0, 0);
}

#[test]
fn results_that_nobody_reads_keep_no_signal_from_ending_it() {
    for words in [&["demo", "--json", "--seconds", "1"][..], &["sandbox", "--masters", "1"]] {
        let (_unread, full) = full_pipe();
        let mut command = Background::start(bare().args(words).stdout(full));
        let pid = command.child().id();
        until("it waits until its results are read", || waits_in_a_pipe(pid, 1));
        command.send(Signal::TERM);
        assert_eq!(command.done().0, 143, "{words:?}");
    }
}

/// Whether a thread of the process waits for room in a pipe: standard output (`to` is 1) or
/// standard error (2).
fn waits_in_a_pipe(pid: u32, to: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let write_of = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("syscall")).ok();
    threads.filter_map(|thread| write_of(thread.ok()?)).any(|call| call.starts_with(&format!("1 {to:#x} ")))
}

#[tokio::test]
async fn watch_on_a_terminal_that_takes_nothing_ends_by_signals() {
    let servers = servers(1).await;
    let (_keyboard, stopped) = stopped_terminal();
    let mut watch = over(&servers);
    let end = || Stdio::from(stopped.try_clone().unwrap());
    watch.args(["watch", "job"]).env("TERM", "xterm-256color").stdin(end()).stdout(end()).stderr(end());
    let mut watch = Background::start(&mut watch);
    until("it asks the node", || servers[0].command(&["CLIENT", "LIST"]).contains("name=quorumlock"));
    watch.send(Signal::TERM);
    assert_eq!(watch.done().0, 143);
}
