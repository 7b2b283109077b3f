//! `quorumlock run` in a container, in which processes have other pids than outside.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::left_behind::parent;
use super::{Background, command, done, line_of, run, runs};
use crate::common::servers;

/// The command that makes a container, without a program to run in it; `None` if tests may not make
/// containers. `within` adds the program.
fn container(options: &[&str]) -> Option<Command> {
    let unshare = || {
        let mut unshare = command("unshare");
        unshare.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]).args(options);
        unshare
    };
    if unshare().arg("true").status().is_ok_and(|status| status.success()) {
        return Some(unshare());
    }
    eprintln!("skipped: no namespaces can be made here (unshare)");
    None
}

/// Adds the program of `own` to the command that makes the container. This program becomes the
/// first process of the container.
fn within<'a>(first: &'a mut Command, own: &Command) -> &'a mut Command {
    first.arg(own.get_program()).args(own.get_args());
    first.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    first.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped())
}

/// Sends a signal to the first process of the container.
fn tell(container: &mut Background, signal: Signal) {
    let unshare = container.child().id();
    let children = std::fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children")).unwrap();
    let first = Pid::from_raw(children.trim().parse().unwrap()).unwrap();
    kill_process(first, signal).unwrap();
}

/// The first process of a container becomes the parent of all orphans in the container.
#[tokio::test]
async fn run_as_the_first_process_reaps_orphans() {
    let Some(mut first) = container(&["--mount-proc"]) else { return };
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = r"
        for number in 1 2 3 4 5; do (sh -c 'echo $$ >> $0/orphans' $0 &); done
        until [ $(cat $0/orphans | wc -l) = 5 ]; do sleep 0.02; done
        for pid in $(cat $0/orphans); do while [ -e /proc/$pid ]; do sleep 0.02; done; done
        echo $PPID; exit 7";
    let own = run(&servers, "job", &["--timeout", "1h"], script, folder.path());
    let (code, out, err) = done(within(&mut first, &own));
    assert_eq!((code, out.as_str()), (7, "1\n"), "{err}");
}

/// In this container, /proc shows the host's processes. `run` has pid 1, but a process of the host
/// whose parent is the host's pid 1 is no child of `run`.
#[tokio::test]
async fn processes_of_the_host_are_not_waited_for() {
    let Some(mut first) = container(&[]) else { return };
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "echo $PPID > $0/run; while :; do sleep 0.02; done";
    let own = run(&servers, "job", &["--timeout", "1h"], script, folder.path());
    let mut told = Background::start(within(&mut first, &own));
    assert_eq!(line_of(&folder.path().join("run")), "1");
    let orphan = command("sh").args(["-c", "setsid sleep 100 > /dev/null 2>&1 & echo $!"]).output().unwrap().stdout;
    let orphan = String::from_utf8(orphan).unwrap().trim().to_owned();
    if parent(&orphan) == 1 {
        tell(&mut told, Signal::TERM);
        let (code, _, err) = told.done();
        assert!(code == 143 && runs(&orphan), "{code}: {err}");
    } else {
        eprintln!("skipped: orphans of this process are another's than the first one's");
    }
    kill_process(Pid::from_raw(orphan.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// A shell has a child, and then becomes `run`. The child ends, and a process of the command gets
/// the child's pid.
#[tokio::test]
async fn number_of_a_former_child_that_comes_again_is_the_commands() {
    let Some(mut first) = container(&["--mount-proc"]) else { return };
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = r#"
        echo > $0/runs
        other=$(cat $0/other)
        while [ -e /proc/$other ]; do sleep 0.02; done
        echo $((other - 1)) > /proc/sys/kernel/ns_last_pid
        sh -c 'trap "sleep 1; echo > $0/cleared; exit" TERM; echo $$ > $0/again; while :; do sleep 0.02; done' $0 &
        wait"#;
    let own = run(&servers, "job", &["--ttl", "600s", "--timeout", "1h"], script, folder.path());
    let becomes = r#"(until [ -e $0/runs ]; do sleep 0.02; done) & echo $! > $0/other; exec "$@""#;
    first.args(["sh", "-c", becomes]).arg(folder.path());
    let mut told = Background::start(within(&mut first, &own));
    let [other, again] = ["other", "again"].map(|name| line_of(&folder.path().join(name)));
    tell(&mut told, Signal::TERM);
    let (code, _, err) = told.done();
    if other == again {
        assert!(code == 143 && folder.path().join("cleared").exists(), "{code}: {err}");
    } else {
        eprintln!("skipped: no process can be given a number here (ns_last_pid)");
    }
}
