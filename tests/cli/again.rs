//! `--again`: after `run` has lost its lock, it acquires the lock again and runs the command anew.

use std::path::Path;

use rustix::process::Signal;

use super::{Background, done, line_of, over, run, runs, until};
use crate::common::server::Server;
use crate::common::servers;

/// Writes each token to a file, and leaves a process behind. If the process that the previous start
/// left behind still runs, creates the file `overlap`. Another process may have got the pid, so the
/// script compares the argument too.
const SCRIPT: &str = "grep -qs 7311 /proc/$(cat $0/left)/cmdline && touch $0/overlap
    sleep 7311 & echo $! > $0/left
    echo $QUORUMLOCK_FENCING_TOKEN >> $0/tokens
    wait";

fn tokens(folder: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(folder.join("tokens")).unwrap_or_default();
    text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(|line| line.trim().parse().unwrap()).collect()
}

/// Starts `quorumlock SUBCOMMAND job OPTIONS --again`, and takes its lock away once the command
/// runs.
fn robbed(servers: &[Server], words: &[&str], folder: &Path) -> Background {
    let mut command = over(servers);
    command.args(words).args(["--again", "--ttl", "12s", "--timeout", "1h", "--", "sh", "-c", SCRIPT]).arg(folder);
    let running = Background::start(&mut command);
    until("it runs", || tokens(folder).len() == 1);
    let left = line_of(&folder.join("left"));
    servers.iter().for_each(|server| server.take("job", "somebody/else"));
    until("the command has ended, and what it left", || !runs(&left));
    running
}

#[tokio::test]
async fn command_runs_anew_after_a_loss_with_a_higher_token() {
    let servers = servers(3).await;
    for words in [&["run", "job"][..], &["run", "job", "beside"], &["elect", "job", "--value", "10.0.0.7"]] {
        let folder = tempfile::tempdir().unwrap();
        let mut running = robbed(&servers, words, folder.path());
        assert!(running.child().try_wait().unwrap().is_none(), "{words:?}");
        servers.iter().for_each(|server| assert!(server.forget("job")));
        until("it runs again", || tokens(folder.path()).len() == 2);
        let tokens = tokens(folder.path());
        assert!(tokens[1] > tokens[0] && !folder.path().join("overlap").exists(), "{words:?}: {tokens:?}");
        running.send(Signal::TERM);
        let (code, _, err) = running.done();
        assert!(code == 143 && err.contains("the command was stopped; waiting for \"job\""), "{code}: {err}");
    }
}

#[tokio::test]
async fn signal_ends_the_wait_after_a_loss() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let mut running = robbed(&servers, &["run", "job"], folder.path());
    running.send(Signal::INT);
    assert_eq!(running.done().0, 130);
    assert_eq!(tokens(folder.path()).len(), 1);
    assert!(servers.iter().all(|server| server.holder("job").as_deref() == Some("somebody/else")));
}

#[tokio::test]
async fn command_that_ends_by_itself_is_not_run_again() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let (code, out, err) = done(&mut run(&servers, "job", &["--again"], "echo once; exit 3", folder.path()));
    assert_eq!((code, out.as_str()), (3, "once\n"), "{err}");
    let (code, _, err) = done(&mut run(&servers, "job", &["--again", "--once-per", "1h"], "true", folder.path()));
    assert!(code == 64 && err.contains("cannot be used with"), "{code}: {err}");
}

#[tokio::test]
async fn command_that_was_asked_to_end_is_not_run_again() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "trap 'echo >> $0/asked' TERM; echo >> $0/runs; while :; do sleep 0.02; done";
    let mut running = Background::start(&mut run(&servers, "job", &["--again", "--ttl", "15s"], script, folder.path()));
    line_of(&folder.path().join("runs"));
    running.send(Signal::TERM);
    line_of(&folder.path().join("asked"));
    servers.iter().for_each(|server| assert_eq!(server.command(&["FLUSHALL"]), "OK"));
    let (code, _, err) = running.done();
    assert!(code == 76 && err.contains("it was stopped by SIGKILL"), "{code}: {err}");
    assert_eq!(std::fs::read_to_string(folder.path().join("runs")).unwrap(), "\n");
}
