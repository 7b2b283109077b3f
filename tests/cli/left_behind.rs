//! What a command of `quorumlock run` leaves behind.

use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::elect::elect;
use super::job_control::{FOREGROUND, shell};
use super::{Background, at_once, command, done, line_of, over, run, runs, until};
use crate::common::server::Server;
use crate::common::servers;

/// A child, a session of its own, an orphan and a daemon. They heed no SIGTERM, and write their pids
/// into the folder. The command itself ends at once when it is asked to.
const FAMILY: &str = r#"
    stay='trap "" TERM; echo $$ > $0; while :; do sleep 0.05; done'
    sh -c "$stay" $0/child &
    setsid sh -c "$stay" $0/session &
    (sh -c "$stay" $0/orphan &)
    (setsid sh -c "$stay" $0/daemon &)
    wait"#;

/// Waits until all of the family run.
fn family(folder: &Path) -> Vec<String> {
    let pids = ["child", "session", "orphan", "daemon"].map(|name| line_of(&folder.join(name))).to_vec();
    assert!(pids.iter().all(|pid| runs(pid)));
    pids
}

fn take_away(servers: &[Server], name: &str) {
    let (code, _, err) = done(over(servers).args(["release", name, "--force", "--yes"]));
    assert_eq!(code, 0, "{err}");
}

fn exists(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

#[tokio::test]
async fn a_lost_lock_ends_all_that_the_command_started() {
    let servers = servers(3).await;
    let held: [(&str, &str, &[&str]); 5] = [
        ("plain", "plain", &["--ttl", "6s"]),
        ("job", "elect", &["--ttl", "6s"]),
        ("shared", "shared", &["--ttl", "6s", "--shared"]),
        ("permits/0", "permits", &["--ttl", "6s", "--permits", "1"]),
        ("one", "one", &["other", "--ttl", "6s"]),
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
    let robbed = shell(&run(&servers, "job", &["--ttl", "6s"], FAMILY, folder.path()), FOREGROUND, folder.path());
    let pids = family(folder.path());
    take_away(&servers, "job");
    assert_eq!(line_of(&folder.path().join("code")), "76");
    assert!(!pids.iter().any(|pid| runs(pid)));
    robbed.ends();
}

/// Asks a worker to end, which needs a second for it. Its shell ends at once.
const CLEARS_UP: &str = r#"
    sh -c 'trap "sleep 1; echo > $0/cleared; exit" TERM; echo $$ > $0/worker; while :; do sleep 0.02; done' $0
    true"#;

#[tokio::test]
async fn nobody_enters_while_what_a_signal_ended_clears_up() {
    let servers = servers(3).await;
    let held: [(&str, &[&str], &[&str]); 4] = [
        ("plain", &["--ttl", "60s"], &[]),
        ("job", &["--ttl", "60s"], &[]),
        ("permits", &["--ttl", "60s", "--permits", "1"], &["--permits", "1"]),
        ("shared", &["--ttl", "60s", "--shared"], &[]),
    ];
    at_once(held, |(name, options, later)| {
        let folder = tempfile::tempdir().unwrap();
        let mut own = match name {
            "job" => elect(&servers, options, CLEARS_UP, folder.path()),
            _ => run(&servers, name, options, CLEARS_UP, folder.path()),
        };
        // Its grace is 12 s.
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
async fn what_does_not_clear_up_in_its_grace_is_killed() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let options = ["--ttl", "60s", "--kill-grace", "500ms"];
    let mut told = Background::start(&mut run(&servers, "job", &options, FAMILY, folder.path()));
    let pids = family(folder.path());
    told.send(Signal::TERM);
    let (code, _, err) = told.done();
    assert!(code == 143 && !pids.iter().any(|pid| runs(pid)), "{code}: {err}");
    assert_eq!(servers[0].holder("job"), None);
}

#[tokio::test]
async fn what_a_lost_command_started_has_its_grace() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let options = ["--ttl", "18s", "--kill-grace", "8s"];
    let robbed = Background::start(&mut run(&servers, "job", &options, CLEARS_UP, folder.path()));
    line_of(&folder.path().join("worker"));
    take_away(&servers, "job");
    let (code, _, err) = robbed.done();
    assert_eq!(code, 76, "{err}");
    assert!(folder.path().join("cleared").exists(), "{err}");
}

#[tokio::test]
async fn what_goes_on_after_the_commands_end_is_left_alone() {
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
    assert_eq!(servers[0].holder("job"), None);
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

fn parent(pid: &str) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").map_or(0, |(_, rest)| rest.split(' ').nth(1).unwrap().parse().unwrap())
}

/// As the first process of a container it is everybody's parent in the end.
#[tokio::test]
async fn as_the_first_process_it_reaps_orphans() {
    let namespace = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"];
    if !command("unshare").args(namespace).arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no namespaces can be made here (unshare)");
        return;
    }
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = r"
        for number in 1 2 3 4 5; do (sh -c 'echo $$ >> $0/orphans' $0 &); done
        until [ $(cat $0/orphans | wc -l) = 5 ]; do sleep 0.02; done
        for pid in $(cat $0/orphans); do while [ -e /proc/$pid ]; do sleep 0.02; done; done
        echo $PPID; exit 7";
    let own = run(&servers, "job", &[], script, folder.path());
    let mut first = command("unshare");
    first.args(namespace).arg(own.get_program()).args(own.get_args());
    first.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let (code, out, err) = done(first.stdout(Stdio::piped()).stderr(Stdio::piped()));
    assert_eq!((code, out.as_str()), (7, "1\n"), "{err}");
}
