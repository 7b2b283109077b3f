//! Processes that a command of `quorumlock run` leaves behind.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use super::elect::elect;
use super::job_control::{FOREGROUND, shell};
use super::{Background, at_once, done, exists, line_of, run, runs, take_away, until, until_released};
use crate::common::servers;

/// Starts a child, a session leader, an orphan and a daemon. They ignore SIGTERM, and write their
/// pids into the folder. The command itself ends at once by SIGTERM.
const FAMILY: &str = r#"
    stay='trap "" TERM; echo $$ > $0; while :; do sleep 0.05; done'
    sh -c "$stay" $0/child &
    setsid sh -c "$stay" $0/session &
    (sh -c "$stay" $0/orphan &)
    (setsid sh -c "$stay" $0/daemon &)
    wait"#;

/// Waits until all processes of the family run, and returns their pids.
fn family(folder: &Path) -> Vec<String> {
    let pids = ["child", "session", "orphan", "daemon"].map(|name| line_of(&folder.join(name))).to_vec();
    assert!(pids.iter().all(|pid| runs(pid)));
    pids
}

#[tokio::test]
async fn a_lost_lock_ends_all_that_the_command_started() {
    let servers = servers(3).await;
    let held: [(&str, &str, &[&str]); 5] = [
        ("plain", "plain", &["--ttl", "15s"]),
        ("job", "elect", &["--ttl", "15s"]),
        ("shared", "shared", &["--ttl", "15s", "--shared"]),
        ("permits/0", "permits", &["--ttl", "15s", "--permits", "1"]),
        ("one", "one", &["other", "--ttl", "15s"]),
    ];
    at_once(held, |(name, given, options)| {
        let folder = tempfile::tempdir().unwrap();
        let mut own = match given {
            "elect" => elect(&servers, options, FAMILY, folder.path()),
            _ => run(&servers, given, options, FAMILY, folder.path()),
        };
        let mut robbed = Background::start(&mut own);
        let pids = family(folder.path());
        take_away(&servers, name);
        robbed.says("was lost");
        let (code, _, err) = robbed.done();
        assert!(code == 76 && err.contains("the command was stopped"), "{given}: {code}: {err}");
        assert!(!pids.iter().any(|pid| runs(pid)), "{given}: {err}");
    });
}

#[tokio::test]
async fn a_lost_lock_ends_all_of_it_on_a_terminal_too() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let robbed = shell(&run(&servers, "job", &["--ttl", "15s"], FAMILY, folder.path()), FOREGROUND, folder.path());
    let pids = family(folder.path());
    take_away(&servers, "job");
    assert_eq!(line_of(&folder.path().join("code")), "76");
    assert!(!pids.iter().any(|pid| runs(pid)));
    robbed.ends();
}

/// The worker needs a second to clear up after SIGTERM. The command's shell ends at once.
const CLEARS_UP: &str = r#"
    sh -c 'trap "sleep 1; echo > $0/cleared; exit" TERM; echo $$ > $0/worker; while :; do sleep 0.02; done' $0
    true"#;

#[tokio::test]
async fn waiter_enters_after_signalled_processes_have_cleared_up() {
    let servers = servers(3).await;
    let held: [(&str, &[&str], &[&str]); 4] = [
        ("plain", &["--ttl", "120s"], &[]),
        ("job", &["--ttl", "120s"], &[]),
        ("permits", &["--ttl", "120s", "--permits", "1"], &["--permits", "1"]),
        ("shared", &["--ttl", "120s", "--shared"], &[]),
    ];
    at_once(held, |(name, options, later)| {
        let folder = tempfile::tempdir().unwrap();
        let mut own = match name {
            "job" => elect(&servers, options, CLEARS_UP, folder.path()),
            _ => run(&servers, name, options, CLEARS_UP, folder.path()),
        };
        // With this ttl, the processes have a grace of 24 s.
        let mut told = Background::start(&mut own);
        line_of(&folder.path().join("worker"));
        let later = [later, &["--timeout", "1h"]].concat();
        let next = Background::start(&mut run(&servers, name, &later, "cat $0/cleared", folder.path()));
        told.send(Signal::TERM);
        assert_eq!(told.done().0, 143);
        let (code, _, err) = next.done();
        assert_eq!(code, 0, "{name}: it entered before that: {err}");
    });
}

#[tokio::test]
async fn signalled_processes_are_killed_after_their_grace() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let options = ["--ttl", "60s", "--kill-grace", "500ms"];
    let mut told = Background::start(&mut run(&servers, "job", &options, FAMILY, folder.path()));
    let pids = family(folder.path());
    told.send(Signal::TERM);
    let (code, _, err) = told.done();
    assert!(code == 143 && !pids.iter().any(|pid| runs(pid)), "{code}: {err}");
    until_released(&servers, "job");
}

#[tokio::test]
async fn processes_that_outlive_sigterm_are_told_of() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let options = ["--ttl", "60s", "--kill-grace", "30s"];
    let mut told = Background::start(&mut run(&servers, "job", &options, FAMILY, folder.path()));
    let pids = family(folder.path());
    told.send(Signal::TERM);
    let err = told.says("(--kill-grace)\n");
    let waits = "quorumlock: got SIGTERM: the command has ended; waiting for the processes that it started";
    assert!(err.contains(waits) && err.contains("which are killed 30 s after its end"), "{err}");
    assert!(pids.iter().all(|pid| runs(pid)) && servers.iter().any(|server| server.holder("job").is_some()));
    for pid in &pids {
        kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    }
    assert_eq!(told.done().0, 143);
    until_released(&servers, "job");
}

#[tokio::test]
async fn child_of_a_command_that_lost_its_lock_has_its_grace() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let options = ["--ttl", "45s", "--kill-grace", "20s"];
    let robbed = Background::start(&mut run(&servers, "job", &options, CLEARS_UP, folder.path()));
    line_of(&folder.path().join("worker"));
    take_away(&servers, "job");
    let (code, _, err) = robbed.done();
    assert_eq!(code, 76, "{err}");
    assert!(folder.path().join("cleared").exists(), "{err}");
}

#[tokio::test]
async fn processes_that_outlive_a_finished_command_go_on() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script =
        "setsid sleep 100 > /dev/null 2>&1 & echo $! > $0/session; sleep 100 > /dev/null 2>&1 & echo $! > $0/child";
    let (code, _, err) = done(&mut run(&servers, "job", &[], script, folder.path()));
    assert_eq!(code, 0, "{err}");
    for name in ["session", "child"] {
        let pid = line_of(&folder.path().join(name));
        assert!(runs(&pid), "{name}");
        kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    }
    until_released(&servers, "job");
}

/// On SIGHUP, a command may read its configuration again and go on. So `run` must not kill
/// processes that go on long after the signal.
#[tokio::test]
async fn daemon_that_outlives_its_command_after_a_sighup_goes_on() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let daemon = "setsid sh -c 'trap \"\" HUP; echo $$ > $0/session; exec sleep 100' $0 > /dev/null 2>&1 &";
    let script =
        format!("trap 'echo > $0/read' HUP; {daemon} echo $$ > $0/pid; until [ -e $0/go ]; do sleep 0.02; done");
    let options = ["--ttl", "60s", "--kill-grace", "500ms"];
    let mut told = Background::start(&mut run(&servers, "job", &options, &script, folder.path()));
    let [daemon, _] = ["session", "pid"].map(|name| line_of(&folder.path().join(name)));
    told.send(Signal::HUP);
    line_of(&folder.path().join("read"));
    // Wait for longer than the grace.
    std::thread::sleep(Duration::from_secs(1));
    std::fs::write(folder.path().join("go"), "").unwrap();
    let (code, _, err) = told.done();
    assert!(code == 0 && runs(&daemon), "{code}: {err}");
    kill_process(Pid::from_raw(daemon.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// `run` cannot open any file any more, so it cannot list the processes.
#[tokio::test]
async fn lock_is_kept_while_processes_cannot_be_seen() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let options = ["--ttl", "60s", "--kill-grace", "500ms"];
    let script = format!("echo $$ > $0/command; {FAMILY}");
    let mut told = Background::start(&mut run(&servers, "job", &options, &script, folder.path()));
    let (pids, command) = (family(folder.path()), line_of(&folder.path().join("command")));
    let limited = Some(Pid::from_child(told.child()));
    let none = Rlimit { current: Some(0), ..getrlimit(Resource::Nofile) };
    let before = prlimit(limited, Resource::Nofile, none).unwrap();
    told.send(Signal::TERM);
    until("the command has ended", || !runs(&command));
    // `run` lists the processes every 500 ms, so it tries several times within 2 s.
    std::thread::sleep(Duration::from_secs(2));
    assert!(told.child().try_wait().unwrap().is_none());
    assert!(servers.iter().filter(|server| server.holder("job").is_some()).count() >= 2);
    prlimit(limited, Resource::Nofile, before).unwrap();
    let (code, _, err) = told.done();
    assert!(code == 143 && !pids.iter().any(|pid| runs(pid)), "{code}: {err}");
}

/// A chain of processes in a session of its own: each process starts the next one, and ends. All
/// ignore SIGTERM.
const CHAIN: &str = r#"
    trap "" TERM
    next() {
        [ -e "$0" ] || exit
        : > "$0.beats"
        [ $1 -lt 200 ] || exec sh "$0"
        next $(($1 + 1)) &
    }
    next 0"#;

#[tokio::test]
async fn processes_that_start_each_other_end_with_a_lost_lock() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let [chain, beats] = ["chain", "chain.beats"].map(|name| folder.path().join(name));
    std::fs::write(&chain, CHAIN).unwrap();
    let script = "setsid sh $0/chain > /dev/null 2>&1 & while :; do sleep 0.05; done";
    let robbed = Background::start(&mut run(&servers, "job", &["--ttl", "15s"], script, folder.path()));
    until("they run", || beats.exists());
    take_away(&servers, "job");
    let (code, _, err) = robbed.done();
    std::fs::remove_file(&beats).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let goes_on = beats.exists();
    // Without this file, the chain ends.
    std::fs::remove_file(&chain).unwrap();
    assert!(code == 76 && !goes_on && !err.contains("goes on"), "{code} {goes_on}: {err}");
}

#[tokio::test]
async fn orphans_are_reaped_while_the_lock_is_kept() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script =
        "echo $$ > $0/command; (sh -c 'echo $$ > $0/orphan; until [ -e $0/go ]; do sleep 0.02; done' $0 &); exit 3";
    let mut keeps = Background::start(&mut run(&servers, "job", &["--at-least", "1h"], script, folder.path()));
    let [orphan, command] = ["orphan", "command"].map(|name| line_of(&folder.path().join(name)));
    let run = keeps.child().id();
    until("the command has ended", || !exists(&command));
    until("it is an orphan", || parent(&orphan) == run);
    std::fs::write(folder.path().join("go"), "").unwrap();
    until("it is reaped", || !exists(&orphan));
    keeps.send(Signal::TERM);
    assert_eq!(keeps.done().0, 3);
}

pub(super) fn parent(pid: &str) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").map_or(0, |(_, rest)| rest.split(' ').nth(1).unwrap().parse().unwrap())
}
