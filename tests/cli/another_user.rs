//! A command of `quorumlock run` that runs as another user, because of sudo or a setuid program.
//! `run` has no right to send signals to such a command.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use super::elect::elect;
use super::{Background, line_of, run, runs, take_away, until};
use crate::common::program;
use crate::common::server::Server;
use crate::common::servers;

const NOBODY: u32 = 65_534;

/// Becomes root, as sudo does, and goes on until it is killed.
const AS_ROOT: &str = "exec $0/become --reuid=0 --regid=0 --clear-groups sh -c 'echo $$ > $0/pid; exec sleep 100' $0";

/// A folder with a program that makes its caller root; `None` if tests may not make such a program.
fn with_setuid() -> Option<tempfile::TempDir> {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can start one user's command that becomes another");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let program = folder.path().join("become");
    // Let another process copy the file. Otherwise a process that another test starts now could
    // inherit the open file, and the file could not be executed.
    assert!(program::command("cp").arg("/usr/bin/setpriv").arg(&program).status().unwrap().success());
    std::fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    Some(folder)
}

fn started(mut command: Command, folder: &Path) -> Background {
    // Use no pipes: a process that outlives the command would keep pipes open.
    let err = File::create(folder.join("err")).unwrap();
    Background::start(command.uid(NOBODY).gid(NOBODY).stdout(Stdio::null()).stderr(err))
}

/// The pid of the process that became root, once the process is `sleep`.
fn sleeper(folder: &Path) -> String {
    let pid = line_of(&folder.join("pid"));
    let named = || std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
    until("its shell became sleep", named);
    pid
}

fn says(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("err")).unwrap()
}

fn kill(pid: &str) {
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_command_that_cannot_be_signalled_is_named_and_kept_locked() {
    let Some(folder) = with_setuid() else { return };
    let servers = servers(3).await;
    for make in [run, |servers: &[Server], _: &str, options: &[&str], script: &str, folder: &Path| {
        elect(servers, options, script, folder)
    }] {
        let command = make(&servers, "job", &["--ttl", "15s"], AS_ROOT, folder.path());
        let mut told = started(command, folder.path());
        let pid = sleeper(folder.path());
        told.send(Signal::TERM);
        let named = format!("process {pid} (sleep) of user root cannot be signalled");
        until("it is said", || says(folder.path()).contains(&named));
        until("this server holds it too", || servers[0].ends("job") > 0);
        let ends = servers[0].ends("job");
        until("the lock is renewed", || servers[0].ends("job") > ends);
        assert!(runs(&pid));
        kill(&pid);
        let (code, ..) = told.done();
        assert_eq!(code, 137, "{}", says(folder.path()));
        std::fs::remove_file(folder.path().join("pid")).unwrap();
    }
}

#[tokio::test]
async fn a_lost_lock_is_76_though_the_command_goes_on() {
    let Some(folder) = with_setuid() else { return };
    let servers = servers(3).await;
    let told = started(run(&servers, "job", &["--ttl", "12s"], AS_ROOT, folder.path()), folder.path());
    let pid = sleeper(folder.path());
    take_away(&servers, "job");
    let (code, ..) = told.done();
    let err = says(folder.path());
    assert!(code == 76 && runs(&pid), "{code}: {err}");
    assert!(!err.contains("was stopped") && !err.contains("got SIGTERM"), "{err}");
    assert!(err.contains(&format!("process {pid} (sleep) of user root goes on")), "{err}");
    kill(&pid);
}

#[tokio::test]
async fn loss_ends_own_processes_and_names_those_of_another_user() {
    let Some(folder) = with_setuid() else { return };
    let servers = servers(3).await;
    let script = format!("sleep 100 & echo $! > $0/child; ({AS_ROOT}) & wait");
    // The shell must end by SIGTERM within the grace.
    let options = ["--ttl", "30s", "--kill-grace", "10s"];
    let told = started(run(&servers, "job", &options, &script, folder.path()), folder.path());
    let (child, pid) = (line_of(&folder.path().join("child")), sleeper(folder.path()));
    take_away(&servers, "job");
    let (code, ..) = told.done();
    let err = says(folder.path());
    assert!(code == 76 && runs(&pid) && !runs(&child), "{code}: {err}");
    assert!(
        err.contains("the command was stopped") && err.contains(&format!("process {pid} (sleep) of user root goes on")),
        "{err}"
    );
    kill(&pid);
}
