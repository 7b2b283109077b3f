//! Signals that `quorumlock run` gets, and signals that its parent ignores.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::slice;

use super::elect::elect;
use super::{Background, command, done, line_of, over, run, runs, until, until_released};
use crate::common::servers;

/// Linux's numbers of all signals that end a process by default. Leaves out SIGKILL, SIGPIPE (Rust
/// programs ignore it), and the faults of the program itself: SIGILL, SIGBUS, SIGFPE, SIGSEGV.
fn ending() -> Vec<u32> {
    let named = [1, 2, 3, 5, 6, 10, 12, 14, 15, 16, 24, 25, 26, 27, 29, 30, 31];
    // The C library uses 32 and 33 itself, and musl also uses 34.
    named.into_iter().chain(35..=64).collect()
}

fn send(runs: &mut [Background], signal: u32) {
    let pids = runs.iter_mut().map(|run| run.child().id().to_string());
    // Send by the shell: rustix does not support real-time signals.
    let mut kill = command("sh");
    assert!(kill.args(["-c", "kill -$0 $*", &signal.to_string()]).args(pids).status().unwrap().success());
}

/// Sends a line, so that the script's `read` returns. A signal may come just after the shell has
/// checked for signals, and before it waits for a line. In this case the shell runs the trap only
/// after the next line. Opens the fifo for reading too: there may be no reader any more, and
/// opening must not wait.
fn wake(folder: &Path) {
    let mut fifo = File::options().read(true).write(true).open(folder.join("fifo")).unwrap();
    fifo.write_all(b"\n").unwrap();
}

#[tokio::test]
async fn run_and_elect_pass_on_every_signal_that_would_end_them() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let traps: String = ending().iter().map(|signal| format!("trap 'echo {signal} > $0/got' {signal}; ")).collect();
    // The script starts no program while it waits: a child that dash starts by vfork may take
    // dash's signals.
    let wait = "until [ -e $0/go ]; do read line <&3; done; exit 7";
    let script = format!("mkfifo $0/fifo; exec 3<> $0/fifo; {traps} echo $$ > $0/pid; {wait}");
    let held: [(&str, &[&str]); 4] = [("a", &[]), ("b", &["--shared"]), ("c", &["--permits", "1"]), ("d", &["e"])];
    let folders: Vec<_> = held.iter().map(|_| tempfile::tempdir().unwrap()).collect();
    let mut told: Vec<_> = held
        .iter()
        .zip(&folders)
        .map(|((name, options), folder)| Background::start(&mut run(&servers, name, options, &script, folder.path())))
        .collect();
    told.push(Background::start(&mut elect(&servers, &[], &script, folder.path())));
    let folders: Vec<_> = folders.iter().chain([&folder]).map(|folder| folder.path()).collect();
    folders.iter().for_each(|folder| drop(line_of(&folder.join("pid"))));
    for signal in ending() {
        send(&mut told, signal);
        for folder in &folders {
            let got = || std::fs::read_to_string(folder.join("got")).unwrap_or_default();
            until(&format!("the command got {signal}"), || {
                wake(folder);
                got() == format!("{signal}\n")
            });
        }
    }
    for (told, folder) in told.into_iter().zip(folders) {
        std::fs::write(folder.join("go"), "").unwrap();
        wake(folder);
        let (code, _, err) = told.done();
        assert_eq!(code, 7, "{err}");
    }
    ["a", "b", "c/0", "d", "e", "job"].iter().for_each(|name| until_released(&servers, name));
}

#[tokio::test]
async fn a_signal_that_ends_the_command_leaves_nothing_held() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    for signal in [14, 24, 30, 38] {
        let script = "sleep 100 & echo $! > $0/child; echo $$ > $0/pid; wait";
        let mut told = Background::start(&mut run(&servers, "job", &[], script, folder.path()));
        line_of(&folder.path().join("pid"));
        let child = line_of(&folder.path().join("child"));
        send(slice::from_mut(&mut told), signal);
        assert_eq!(told.done().0, 128 + i32::try_from(signal).unwrap());
        assert!(!runs(&child), "{signal} reached all of it");
        until_released(&servers, "job");
        for name in ["pid", "child"] {
            std::fs::remove_file(folder.path().join(name)).unwrap();
        }
    }
}

#[tokio::test]
async fn command_that_outlives_sigterm_is_named_once() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "trap 'echo > $0/asked' TERM; echo $$ > $0/pid; until [ -e $0/go ]; do sleep 0.02; done; exit 7";
    let mut told = Background::start(&mut run(&servers, "job", &["--ttl", "12s"], script, folder.path()));
    let pid = line_of(&folder.path().join("pid"));
    send(slice::from_mut(&mut told), 15);
    line_of(&folder.path().join("asked"));
    let err = told.says("ends it at once\n");
    let passed_on = format!("quorumlock: got SIGTERM: passed it on to the command (pid {pid}); waiting until it has");
    assert!(err.contains(&passed_on) && err.contains(&format!("`kill -KILL {pid}` ends it at once")), "{err}");
    send(slice::from_mut(&mut told), 15);
    until("this server holds it too", || servers[0].ends("job") > 0);
    let ends = servers[0].ends("job");
    // This takes 3 s at least, since the last renewal was at most 4 s ago. Within 3 s, a message on
    // the second signal would come.
    until("the lock is renewed for 3 s", || servers[0].ends("job") > ends + 7_000);
    std::fs::write(folder.path().join("go"), "").unwrap();
    let (code, _, err) = told.done();
    assert_eq!((code, err.matches("got SIGTERM").count()), (7, 1), "{err}");
}

#[tokio::test]
async fn a_signal_ends_the_wait_whichever_it_is() {
    let servers = servers(3).await;
    servers.iter().for_each(|server| server.take("job", "somebody/else"));
    for signal in [14, 29, 37] {
        let mut waiter = Background::start(over(&servers).args(["run", "job", "--timeout", "1h", "--", "true"]));
        until("it is connected", || servers[0].command(&["CLIENT", "LIST"]).contains("name=quorumlock"));
        send(slice::from_mut(&mut waiter), signal);
        assert_eq!(waiter.done().0, 128 + i32::try_from(signal).unwrap());
        until("it is gone", || !servers[0].command(&["CLIENT", "LIST"]).contains("name=quorumlock"));
    }
}

const IGNORED: &str = "--ignore-signal=CHLD";

/// The command, started by `env` with an option that ignores or blocks signals.
fn under(option: &str, own: &Command) -> Command {
    let mut parent = command("env");
    parent.arg(option).arg(own.get_program()).args(own.get_args());
    parent.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    parent.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    parent
}

#[tokio::test]
async fn the_code_is_the_commands_where_sigchld_was_ignored() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let commands = [
        run(&servers, "job", &[], "exit 7", folder.path()),
        run(&servers, "job", &["--shared"], "exit 7", folder.path()),
        run(&servers, "few", &["--permits", "2"], "exit 7", folder.path()),
        run(&servers, "job", &["other"], "exit 7", folder.path()),
        elect(&servers, &[], "exit 7", folder.path()),
    ];
    for command in &commands {
        let (code, _, err) = done(&mut under(IGNORED, command));
        assert_eq!(code, 7, "{err}");
    }
}

#[tokio::test]
async fn the_code_is_the_commands_where_sigchld_is_blocked() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    for own in [run(&servers, "job", &[], "exit 7", folder.path()), elect(&servers, &[], "exit 7", folder.path())] {
        let (code, _, err) = done(&mut under("--block-signal=CHLD", &own));
        assert_eq!(code, 7, "{err}");
    }
}

#[tokio::test]
async fn once_per_runs_once_under_an_ignored_sigchld() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let once = run(&servers, "report", &["--once-per", "55m"], "echo done", folder.path());
    assert_eq!(done(&mut under(IGNORED, &once)).1, "done\n");
    let (code, out, err) = done(&mut under(IGNORED, &once));
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
}

#[tokio::test]
async fn ignored_signals_stay_ignored_and_sigchld_does_not() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "grep SigIgn /proc/$$/status > $0/ignored; while :; do sleep 0.02; done";
    let command = run(&servers, "job", &[], script, folder.path());
    let mut told = Background::start(&mut under("--ignore-signal=CHLD,HUP,USR1,ALRM,40", &command));
    let ignored = line_of(&folder.path().join("ignored"));
    let mask = u64::from_str_radix(ignored.split_whitespace().nth(1).unwrap(), 16).unwrap();
    let is_ignored = |signal: u32| mask >> (signal - 1) & 1 == 1;
    let signals = [1, 10, 14, 40];
    assert!(signals.into_iter().all(is_ignored) && !is_ignored(17), "{ignored}");
    for signal in [1, 10, 14, 40, 15] {
        send(slice::from_mut(&mut told), signal);
    }
    assert_eq!(told.done().0, 143);
}
