//! `quorumlock run --once-per` and `--at-least`.

use std::process::Command;

use rustix::process::Signal;

use super::status::looked;
use super::{Background, IN_VAIN, done, exists, line_of, over, tried, until, until_released};
use crate::common::server::Server;
use crate::common::servers;

/// `quorumlock run OPTIONS -- sh -c SCRIPT`.
fn run(servers: &[Server], options: &[&str], script: &str) -> Command {
    let mut command = over(servers);
    command.arg("run").args(options).args(["--", "sh", "-c", script]);
    command
}

const HOURLY: [&str; 3] = ["report", "--once-per", "55m"];

#[tokio::test]
async fn first_run_of_a_period_works_and_later_runs_are_skipped() {
    let servers = servers(3).await;
    let (code, out, err) = tried(&mut run(&servers, &HOURLY, "echo $QUORUMLOCK_NAME"));
    assert_eq!((code, out.as_str()), (0, "report\n"), "{err}");
    // On a busy machine, the nodes may be too late to report the end of the period.
    until("the end of the period is told", || {
        let (code, out, err) = tried(&mut run(&servers, &HOURLY, "echo again"));
        assert_eq!((code, out.as_str()), (0, ""), "{err}");
        assert!(err.contains("\"report\" was done in this period already"), "{err}");
        err.contains("; the period ends in 5")
    });
    let (code, out, _) = done(&mut run(&servers, &[&HOURLY[..], &["-E", "3"]].concat(), "echo again"));
    assert_eq!((code, out.as_str()), (3, ""));
    let (code, out, _) = looked(over(&servers).args(["status", "report"]));
    assert!(code == 0 && out.contains("held by"), "{out}");
    // To run the job again in the same period, an operator releases the name by force.
    let (code, _, err) = done(over(&servers).args(["release", "report", "--force", "--now", "--yes"]));
    assert_eq!(code, 0, "{err}");
    let (code, out, _) = tried(&mut run(&servers, &HOURLY, "echo again"));
    assert_eq!((code, out.as_str()), (0, "again\n"));
}

#[tokio::test]
async fn failed_run_may_be_repeated_within_the_period() {
    let servers = servers(3).await;
    for (script, expected) in [("exit 3", 3), ("kill -9 $$", 137)] {
        let (code, _, err) = tried(&mut run(&servers, &HOURLY, script));
        assert_eq!(code, expected, "{err}");
    }
    let mut missing = over(&servers);
    let (code, _, err) = done(missing.arg("run").args(HOURLY).args(["--", "/nowhere/to/be/found"]));
    assert!(code == 127 || code == 126, "{code}: {err}");
    let (code, out, err) = tried(&mut run(&servers, &HOURLY, "echo done"));
    assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
}

#[tokio::test]
async fn name_held_as_a_lock_is_not_reported_as_done() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let began = folder.path().join("began");
    let _holder =
        Background::start(&mut run(&servers, &["report"], &format!("touch {}; exec sleep 1000", began.display())));
    until("it is held", || began.exists());
    let (code, out, err) = tried(&mut run(&servers, &HOURLY, "echo done"));
    assert!(code == 64 && out.is_empty() && err.contains("\"report\" is held as a lock"), "{code}: {out}{err}");
}

#[tokio::test]
async fn forced_release_frees_a_done_period_only_with_now() {
    let servers = servers(3).await;
    assert_eq!(tried(&mut run(&servers, &HOURLY, "true")).0, 0);
    let (_, out, _) = looked(over(&servers).args(["status", "report"]));
    assert!(out.contains("done once in a period: it was done, or is being done"), "{out}");
    let (code, out, err) = done(over(&servers).args(["release", "report", "--force", "--yes"]));
    assert!(code == 0 && out.contains("not free") && out.contains("--now frees it at once"), "{code}: {out}{err}");
    let (code, out, err) = done(over(&servers).args(["release", "report", "--force", "--now", "--yes"]));
    assert!(code == 0 && out.contains("\"report\" released"), "{code}: {out}{err}");
    assert_eq!(tried(&mut run(&servers, &HOURLY, "echo again")).1, "again\n");
}

#[tokio::test]
async fn lock_with_at_least_outlives_its_command_until_a_signal() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let file = folder.path().join("pid");
    let script = format!("echo $$ > {}; exit 3", file.display());
    let mut keeps = Background::start(&mut run(&servers, &["job", "--at-least", "1h"], &script));
    let pid = line_of(&file);
    until("the command has ended, and that was noticed", || !exists(&pid));
    let (code, _, err) = done(&mut run(&servers, &["job", "--timeout", IN_VAIN], "true"));
    assert_eq!(code, 75, "{err}");
    keeps.send(Signal::TERM);
    assert_eq!(keeps.done().0, 3, "the code is the command's");
    // Check the release itself: the next run waits for longer than the ttl, and would also acquire
    // without a release.
    until_released(&servers, "job");
    assert_eq!(done(&mut run(&servers, &["job"], "true")).0, 0);
    assert_eq!(done(&mut run(&servers, &["job", "--at-least", "100ms"], "true")).0, 0);
}

#[tokio::test]
async fn a_signal_that_ended_the_command_ends_at_least_too() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let begun = folder.path().join("begun");
    let script = format!("touch {}; while :; do sleep 0.02; done", begun.display());
    let mut told = Background::start(&mut run(&servers, &["job", "--at-least", "1h"], &script));
    until("the command has begun", || begun.exists());
    told.send(Signal::TERM);
    assert_eq!(told.done().0, 143);
    until_released(&servers, "job");
}

#[tokio::test]
async fn once_per_refuses_sets_short_periods_and_other_kinds() {
    let servers = servers(1).await;
    for (options, told) in [
        (&["a", "b", "--once-per", "1h"][..], "--once-per takes one name"),
        (&["a", "--once-per", "10s"], "the period is 10 s, shorter than the ttl (30 s)"),
        (&["a", "--once-per", "1h", "--shared"], "cannot be used with"),
        (&["a", "--once-per", "1h", "--permits", "2"], "cannot be used with"),
    ] {
        let (code, _, err) = done(&mut run(&servers, options, "true"));
        assert!(code == 64 && err.contains(told), "{code}: {err}");
    }
    for option in ["--once-per", "--at-least"] {
        let (code, _, err) = done(over(&servers).args(["elect", "a", option, "1h", "--", "true"]));
        assert!(code == 64 && err.contains("an election has neither"), "{code}: {err}");
    }
}
