//! `quorumlock run` on a terminal: which process reads the terminal, and what Ctrl-C and Ctrl-Z do.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group};

use super::elect::elect;
use super::screen::Screen;
use super::{Background, comes_true, command, line_of, over, run, runs, until, until_released};
use crate::common::server::Server;
use crate::common::{PATIENCE, servers};

/// The characters that Ctrl-C and Ctrl-Z send.
pub(super) const INTERRUPT: &str = "\u{3}";
const SUSPEND: &str = "\u{1a}";

/// A shell with a terminal of its own. In the shell's script, `"$@"` is the command, and `$0` is
/// the folder. The script redirects the command's input and output, so the command uses the
/// terminal only by /dev/tty.
pub(super) fn shell(own: &Command, script: &str, folder: &Path) -> Screen {
    let mut shell = command("bash");
    shell.args(["-c", script]).arg(folder).arg(own.get_program()).args(own.get_args());
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    Screen::start(&shell, 80, 24)
}

/// The command in the foreground.
pub(super) const FOREGROUND: &str = r#""$@" < /dev/null > $0/out 2> $0/err; echo $? > $0/code"#;
/// The command under job control. After the command was suspended, a typed line continues it.
const JOB: &str = r#"set -m; "$@" < /dev/null > $0/out 2> $0/err; echo $? > $0/suspended; read; fg; echo $? > $0/code"#;

/// Writes its own pid and its parent's pid to files, and runs until it is ended.
const FOR_EVER: &str = "echo $$ > $0/pid; echo $PPID > $0/run; exec sleep 100";
/// As `FOR_EVER`, by a shell that starts one program after the other.
const BUSY: &str = "echo $$ > $0/pid; echo $PPID > $0/run; while :; do sleep 0.02; done";

fn is_stopped(pid: &str) -> bool {
    state(pid) == Some('T')
}

fn state(pid: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
}

/// Kills a process group, which would outlive a failed test.
fn ends_session(pid: &str) {
    kill_process_group(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}

fn left(server: &Server) -> u64 {
    server.hold("job").map_or(0, |(_, _, left)| left)
}

#[tokio::test]
async fn a_command_reads_the_terminal_and_ctrl_c_ends_it() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "echo $$ > $0/pid; head -n 1 < /dev/tty > $0/line; while :; do sleep 0.02; done";
    for own in [run(&servers, "job", &[], script, folder.path()), elect(&servers, &[], script, folder.path())] {
        let mut terminal = shell(&own, FOREGROUND, folder.path());
        let pid = line_of(&folder.path().join("pid"));
        terminal.types("a password\n");
        assert_eq!(line_of(&folder.path().join("line")), "a password");
        terminal.types(INTERRUPT);
        terminal.ends();
        let err = std::fs::read_to_string(folder.path().join("err")).unwrap();
        until_released(&servers, "job");
        assert!(!runs(&pid), "{err}");
        std::fs::remove_file(folder.path().join("line")).unwrap();
        std::fs::remove_file(folder.path().join("pid")).unwrap();
    }
}

#[tokio::test]
async fn ctrl_z_stops_both_and_fg_continues_both() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    // The child is in a session of its own, so signals of the terminal do not reach it.
    let script = &format!("setsid sh -c 'echo $$ > $0/child; exec sleep 100' $0 & {FOR_EVER}");
    let own = run(&servers, "job", &["--ttl", "60s"], script, folder.path());
    let mut terminal = shell(&own, JOB, folder.path());
    let pids = ["run", "pid", "child"].map(|name| line_of(&folder.path().join(name)));
    terminal.types(SUSPEND);
    assert_eq!(line_of(&folder.path().join("suspended")), "147", "128 + SIGSTOP");
    until("all are stopped", || pids.iter().all(|pid| is_stopped(pid)));
    terminal.types("\n");
    until("all go on", || !pids.iter().any(|pid| is_stopped(pid)));
    terminal.types(INTERRUPT);
    assert_eq!(line_of(&folder.path().join("code")), "130");
    terminal.ends();
    until_released(&servers, "job");
}

#[tokio::test]
async fn a_command_continued_after_its_lock_ended_is_killed() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = &format!("trap 'echo $? > $0/asked' TERM; {BUSY}");
    let mut terminal = shell(&run(&servers, "job", &["--ttl", "12s"], script, folder.path()), JOB, folder.path());
    let pid = line_of(&folder.path().join("pid"));
    terminal.types(SUSPEND);
    line_of(&folder.path().join("suspended"));
    until("the lock has ended", || servers.iter().all(|server| server.holder("job").is_none()));
    terminal.types("\n");
    assert_eq!(line_of(&folder.path().join("code")), "76");
    assert!(!runs(&pid) && !folder.path().join("asked").exists(), "there was no time left to ask");
    terminal.ends();
}

#[tokio::test]
async fn run_goes_on_while_its_command_does_not_stop() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script =
        "trap 'echo $$ > $0/asked' TSTP; sleep 100 & echo $PPID > $0/run; echo $$ > $0/pid; while :; do wait; done";
    let mut terminal = shell(&run(&servers, "job", &["--ttl", "12s"], script, folder.path()), JOB, folder.path());
    let (run, pid) = (line_of(&folder.path().join("run")), line_of(&folder.path().join("pid")));
    terminal.types(SUSPEND);
    assert_eq!(line_of(&folder.path().join("asked")), pid);
    until("this server holds it too", || servers[0].ends("job") > 0);
    let ends = servers[0].ends("job");
    until("the lock is renewed twice", || servers[0].ends("job") > ends + 5_000);
    assert!(!is_stopped(&run) && !is_stopped(&pid));
    terminal.types(INTERRUPT);
    assert_eq!(line_of(&folder.path().join("suspended")), "130");
    terminal.types("\n");
    terminal.ends();
}

#[tokio::test]
async fn run_stops_with_a_command_that_stops_itself() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "echo $PPID > $0/run; kill -TSTP $$; exit 7";
    let mut terminal = shell(&run(&servers, "job", &[], script, folder.path()), JOB, folder.path());
    let run = line_of(&folder.path().join("run"));
    assert_eq!(line_of(&folder.path().join("suspended")), "147", "128 + SIGSTOP");
    assert!(is_stopped(&run));
    terminal.types("\n");
    assert_eq!(line_of(&folder.path().join("code")), "7");
    terminal.ends();
    until_released(&servers, "job");
}

#[tokio::test]
async fn processes_started_during_a_suspension_stop_too() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let starts = "echo $$ > $0/pid; for one in $(seq 200); do sleep 100 & done; wait";
    let script = format!("setsid sh -c '{starts}' $0 & echo $PPID > $0/run; wait");
    let own = run(&servers, "job", &["--ttl", "60s"], &script, folder.path());
    let mut session = command("setsid");
    session.arg(own.get_program()).args(own.get_args());
    session.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut told = Background::start(&mut session);
    let [run, pid] = ["run", "pid"].map(|name| line_of(&folder.path().join(name)));
    told.send(Signal::TSTP);
    until("run is stopped", || is_stopped(&run));
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    // `seq` may have ended before `run` stopped the processes. The stopped shell cannot reap `seq`,
    // so `seq` is a zombie.
    let rests = |pid| matches!(state(pid), Some('T' | 'Z'));
    let all_rest = comes_true(|| children.split_whitespace().chain([pid.as_str()]).all(rests));
    if !all_rest {
        ends_session(&pid);
    }
    assert!(all_rest);
    told.send(Signal::CONT);
    told.send(Signal::TERM);
    assert_eq!(told.done().0, 143);
}

/// A supervisor pauses `run` for a moment, and sends only one SIGCONT.
#[tokio::test]
async fn sigcont_right_behind_sigtstp_is_not_lost() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let starts = "echo $$ > $0/pid; for one in $(seq 200); do sleep 100 & done; echo > $0/started; wait";
    let script = format!("setsid sh -c '{starts}' $0 & echo $PPID > $0/run; wait");
    let own = run(&servers, "job", &["--ttl", "60s"], &script, folder.path());
    let mut session = command("setsid");
    session.arg(own.get_program()).args(own.get_args());
    session.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut told = Background::start(&mut session);
    let [run, pid, _] = ["run", "pid", "started"].map(|name| line_of(&folder.path().join(name)));
    told.send(Signal::TSTP);
    // Wait until `run` stops the processes by SIGSTOP. `run` stops itself last.
    let began = Instant::now();
    while !is_stopped(&pid) && !is_stopped(&run) && began.elapsed() < PATIENCE {}
    told.send(Signal::CONT);
    let all_go_on = comes_true(|| {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        !children.split_whitespace().chain([run.as_str(), pid.as_str()]).any(is_stopped)
    });
    if !all_go_on {
        ends_session(&pid);
    }
    assert!(all_go_on);
    told.send(Signal::TERM);
    assert_eq!(told.done().0, 143);
}

#[tokio::test]
async fn a_background_job_that_reads_the_terminal_stops_as_a_whole() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "echo $$ > $0/pid; echo $PPID > $0/run; read line < /dev/tty; echo $line > $0/line";
    // Bash can continue a job only after it has noticed that the job stopped.
    let background = r#"set -m; "$@" < /dev/null > $0/out 2> $0/err &
        until [ -n "$(jobs -s)" ]; do sleep 0.02; done; echo > $0/seen; read; fg; echo $? > $0/code"#;
    let mut terminal = shell(&run(&servers, "job", &[], script, folder.path()), background, folder.path());
    let pids = ["run", "pid"].map(|name| line_of(&folder.path().join(name)));
    until("both are stopped", || pids.iter().all(|pid| is_stopped(pid)) && folder.path().join("seen").exists());
    terminal.types("\na line\n");
    assert_eq!(line_of(&folder.path().join("line")), "a line");
    assert_eq!(line_of(&folder.path().join("code")), "0");
    terminal.ends();
}

#[tokio::test]
async fn away_from_a_terminal_sigtstp_stops_both() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let own = run(&servers, "job", &["--ttl", "60s"], FOR_EVER, folder.path());
    let mut session = command("setsid");
    session.arg(own.get_program()).args(own.get_args());
    session.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut told = Background::start(&mut session);
    let pids = ["run", "pid"].map(|name| line_of(&folder.path().join(name)));
    told.send(Signal::TSTP);
    until("both are stopped", || pids.iter().all(|pid| is_stopped(pid)));
    told.send(Signal::CONT);
    until("both go on", || !pids.iter().any(|pid| is_stopped(pid)));
    told.send(Signal::TERM);
    assert_eq!(told.done().0, 143);
}

#[tokio::test]
async fn a_stopped_command_is_continued_to_end() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let mut told = Background::start(&mut run(&servers, "job", &[], FOR_EVER, folder.path()));
    let pid = line_of(&folder.path().join("pid"));
    let stop = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(stop, Signal::STOP).unwrap();
    until("it is stopped", || is_stopped(&pid));
    assert!(servers.iter().any(|server| left(server) > 0), "the lock is held for it");
    told.send(Signal::TERM);
    assert_eq!(told.done().0, 143);
}

#[tokio::test]
async fn ctrl_z_while_waiting_stops_and_fg_continues() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let mut holder = Background::start(&mut run(&servers, "job", &[], FOR_EVER, folder.path()));
    line_of(&folder.path().join("pid"));
    let mut own = over(&servers);
    own.args(["run", "job", "--timeout", "1h", "--", "true"]);
    let mut terminal = shell(&own, JOB, folder.path());
    until("it is connected", || servers[0].command(&["CLIENT", "LIST"]).matches("name=quorumlock").count() == 2);
    terminal.types(SUSPEND);
    line_of(&folder.path().join("suspended"));
    holder.send(Signal::TERM);
    holder.done();
    terminal.types("\n");
    assert_eq!(line_of(&folder.path().join("code")), "0");
    terminal.ends();
}
