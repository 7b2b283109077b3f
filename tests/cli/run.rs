//! `quorumlock run`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use super::{Background, IN_VAIN, bare, done, line_of, over, run, runs, until, until_released};
use crate::common::program::command;
use crate::common::server::Server;
use crate::common::{new_servers, servers};

/// Repeats the command until it ends with `code`, and returns its output. If the machine stalls,
/// the command may end with 69, because a quorum answered or granted too late.
fn ends_with(code: i32, mut command: impl FnMut() -> Command) -> (String, String) {
    let mut told = (String::new(), String::new());
    until("a quorum answers in time", || {
        let (ended, out, err) = done(&mut command());
        let is_late = ended == 69 && ["no answer", "came too late"].iter().any(|told| err.contains(told));
        assert!(ended == code || is_late, "{ended}: {out}{err}");
        told = (out, err);
        ended == code
    });
    told
}

/// A script that writes its pid to a file, and runs until it is ended.
const FOR_EVER: &str = "echo $$ > $0/pid; while :; do sleep 0.02; done";

/// A timeout for locks that must be acquired. The default is 15 s, and a machine may stall for
/// longer.
const HOUR: [&str; 2] = ["--timeout", "1h"];

/// The lines of standard error, without the warning on max_ttl and the note on nodes that connect
/// slowly.
fn said(err: &str) -> Vec<&str> {
    let others = ["max_ttl is zero", "waiting for a quorum of nodes, "];
    err.lines().filter(|line| !others.iter().any(|other| line.contains(other))).collect()
}

#[tokio::test]
async fn the_command_gets_name_and_token_and_its_status_is_ours() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "echo $QUORUMLOCK_NAME $QUORUMLOCK_FENCING_TOKEN; exit 7";
    let (code, out, err) = done(&mut run(&servers, "jobs/nightly", &HOUR, script, folder.path()));
    assert_eq!(code, 7, "{err}");
    let token = |out: &str| out.trim().strip_prefix("jobs/nightly ").unwrap().parse::<u64>().unwrap();
    assert!(token(&out) > 0);
    let (_, again, _) = done(&mut run(&servers, "jobs/nightly", &HOUR, script, folder.path()));
    assert!(token(&again) > token(&out), "tokens grow");
}

#[tokio::test]
async fn several_names_are_held_all_or_none() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = r#"echo "$QUORUMLOCK_NAME" > $0/names; "$@""#;
    let options = ["--ttl", "600s", "--timeout", "1h"];
    let program = over(&servers).get_program().to_owned();
    let (_, err) = ends_with(75, || {
        let mut outer = over(&servers);
        outer.args(["run", "b", "a", "b"]).args(options).args(["--", "sh", "-c", script]).arg(folder.path());
        outer.arg(&program).args(["run", "a", "-n", "--", "true"]);
        outer
    });
    assert!(err.contains("cannot acquire \"a\""), "{err}");
    assert_eq!(std::fs::read_to_string(folder.path().join("names")).unwrap(), "a\nb\n");
    let mut after = over(&servers);
    assert_eq!(done(after.args(["run", "a"]).args(HOUR).args(["--", "true"])).0, 0);
}

#[tokio::test]
async fn run_of_several_names_reports_which_one_is_held() {
    let servers = servers(3).await;
    servers.iter().for_each(|server| server.take("h1", "somebody"));
    for wait in [&["-n"][..], &["--timeout", IN_VAIN]] {
        let mut err = String::new();
        until("it is told which is held", || {
            let tries = || {
                let mut command = over(&servers);
                command.args(["run", "h0", "h1", "h2"]).args(wait).args(["--", "true"]);
                command
            };
            err = ends_with(75, tries).1;
            err.contains("\"h1\" is held by somebody")
        });
        assert!(!err.contains("\"h0\" is held") && !err.contains("\"h2\" is held"), "{err}");
    }
}

#[tokio::test]
async fn bad_lock_names_are_refused_before_any_node_is_asked() {
    let nobody = ["--nodes", "redis://127.0.0.1:1", "--timeout", "1h"];
    let many: Vec<_> = (0..1_001).map(|number| number.to_string()).collect();
    let long: Vec<_> = (0..200).map(|number| format!("{number}{}", "x".repeat(1_000))).collect();
    for (names, says) in [
        (vec!["a".to_owned(), String::new()], "a lock's name is empty"),
        (many, "more than 1000 names"),
        (vec!["a".to_owned(), "b\nc".to_owned()], "\"b\\nc\" has a line feed"),
        (long, "bytes together"),
    ] {
        let (code, _, err) = done(bare().arg("run").args(names).args(nobody).args(["--", "true"]));
        assert!(code == 64 && err.contains(says), "{err}");
    }
}

/// While `run a b` waits for `b`, it keeps `a`.
#[tokio::test]
async fn waiter_behind_a_set_reports_the_holder() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let _holder = Background::start(&mut run(&servers, "b", &HOUR, FOR_EVER, folder.path()));
    until("it runs", || folder.path().join("pid").exists());
    let mut set = over(&servers);
    let set = Background::start(set.args(["run", "a", "b", "--timeout", "1h", "--", "true"]));
    let told = "waiting for \"a\", for 5 s at most; it is held by";
    let late = || done(over(&servers).args(["run", "a", "--timeout", IN_VAIN, "--", "true"]));
    until("it is said", || matches!(late(), (75, _, err) if err.contains(told)));
    drop(set);
}

#[tokio::test]
async fn a_command_that_does_not_start_frees_the_lock() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let mut number = 0;
    // `run` waits for its release for only 200 ms, which may be too short on a busy machine.
    until("the lock is free afterwards", || {
        number += 1;
        let name = format!("job/{number}");
        let runs = || {
            let mut command = over(&servers);
            command.args(["run", &name, "--ttl", "600s"]).args(HOUR).arg("--");
            command
        };
        let (code, _, err) = done(runs().arg("no-such-program"));
        assert!(code == 127 && err.contains("cannot run no-such-program"), "{err}");
        let is_free = || done(over(&servers).args(["run", &name, "--timeout", IN_VAIN, "--", "true"])).0 == 0;
        if !is_free() {
            return false;
        }
        let (code, _, err) = done(runs().arg(folder.path()));
        assert!(code == 126, "{err}");
        is_free()
    });
}

#[tokio::test]
async fn missing_interpreter_of_a_script_is_named() {
    let (servers, folder) = (servers(1).await, tempfile::tempdir().unwrap());
    let script = folder.path().join("job");
    // Let another process write the file. Otherwise a process that another test starts now could
    // inherit the open file, and the file could not be executed.
    let write = "printf '#!/no/such-interpreter -x\\n' > $0 && chmod +x $0";
    assert!(command("sh").args(["-c", write]).arg(&script).status().unwrap().success());
    let (code, _, err) = done(over(&servers).args(["run", "job"]).args(HOUR).arg("--").arg(&script));
    let says = format!("cannot run {}: its interpreter /no/such-interpreter: No such file", script.display());
    assert!(code == 127 && err.contains(&says), "{code}: {err}");
}

#[tokio::test]
async fn a_signals_end_is_told_as_128_and_its_number() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    assert_eq!(done(&mut run(&servers, "job", &HOUR, "kill -KILL $$", folder.path())).0, 137);
}

#[tokio::test]
async fn eight_at_a_time_lose_no_increment_of_a_plain_file() {
    let (servers, folder) = (servers(5).await, tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("n"), "0\n").unwrap();
    // Each run reads, waits and writes. Without the lock, most increments would be lost.
    let script = "n=$(cat $0/n); sleep 0.01; echo $((n + 1)) > $0/n";
    let path = folder.path();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let (code, _, err) = done(&mut run(&servers, "job", &HOUR, script, path));
                    assert_eq!(code, 0, "{err}");
                }
            });
        }
    });
    assert_eq!(line_of(&path.join("n")), "24");
}

#[tokio::test]
async fn run_that_times_out_exits_with_75_and_names_the_holder() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let _holder = Background::start(&mut run(&servers, "job", &HOUR, FOR_EVER, folder.path()));
    line_of(&folder.path().join("pid"));
    for timeout in ["0", IN_VAIN] {
        let (out, err) = ends_with(75, || {
            let mut command = over(&servers);
            command.args(["run", "job", "--timeout", timeout, "--", "echo", "ran"]);
            command
        });
        assert_eq!(out, "", "{err}");
        assert!(err.contains("held by"), "{err}");
        assert!(timeout == IN_VAIN || !err.contains("waiting for \"job\""), "{err}");
    }
    let mut waits = Background::start(over(&servers).args(["run", "job"]).args(HOUR).args(["--", "true"]));
    waits.says("waiting for \"job\", for 60 min at most; it is held by");
}

#[tokio::test]
async fn run_without_waiting_tries_once() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let tried = |code, option| ends_with(code, || run(&servers, "job", &[option], "echo ran", folder.path()));
    assert_eq!(tried(0, "-n").0, "ran\n");
    servers.iter().for_each(|server| server.take("job", "somebody/else"));
    for option in ["-n", "--no-wait"] {
        let (out, err) = tried(75, option);
        assert_eq!(out, "", "{err}");
        assert!(err.contains("held by somebody/else") && !err.contains("waiting for \"job\""), "{err}");
    }
}

#[tokio::test]
async fn no_wait_option_overrides_the_timeout_of_the_file() {
    let (servers, folder) = (servers(1).await, tempfile::tempdir().unwrap());
    servers[0].take("job", "somebody/else");
    let file = folder.path().join("nodes.toml");
    std::fs::write(&file, format!("timeout = \"1h\"\n[[nodes]]\nurl = \"{}\"\n", servers[0].url())).unwrap();
    ends_with(75, || {
        let mut command = over(&[]);
        command.args(["run", "job", "-n", "--config"]).arg(&file).args(["--", "true"]);
        command
    });
}

#[tokio::test]
async fn conflict_exits_with_the_requested_code() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let tried = |code, options: &[&str]| ends_with(code, || run(&servers, "job", options, "exit 3", folder.path()));
    // `run` returns the exit code of its command unchanged.
    tried(3, &["-n", "-E", "9"]);
    servers.iter().for_each(|server| server.take("job", "somebody/else"));
    for (options, code) in [(&["-n", "-E", "9"][..], 9), (&["--timeout", IN_VAIN, "--conflict-exit-code", "255"], 255)]
    {
        let (_, err) = tried(code, options);
        assert!(err.contains("held by somebody/else"), "{options:?}: {err}");
        assert!(err.contains("others hold it") && !err.contains("split the votes"), "a quorum names one: {err}");
    }
    let (_, err) = tried(0, &["--no-wait", "--conflict-exit-code=0"]);
    assert_eq!(said(&err), ["quorumlock: \"job\" is held by another client: the command is not run"]);
}

#[test]
fn unavailable_quorum_is_no_conflict() {
    let nodes = ["--nodes", "redis://127.0.0.1:1", "--connect-timeout", "300ms"];
    let (code, _, err) = done(bare().args(["run", "job", "-n", "-E", "9"]).args(nodes).args(["--", "true"]));
    assert_eq!(code, 69, "{err}");
}

#[tokio::test]
async fn waiter_for_nodes_without_a_vote_reports_the_reason() {
    let servers = new_servers(1).await;
    let url = servers[0].url();
    let mut command = bare();
    command.args(["run", "job", "--nodes", &url, "--timeout", "1h", "--", "true"]);
    let mut waits = Background::start(&mut command);
    waits.says(&format!(
        "waiting for a quorum of nodes, and then for \"job\", for 60 min at most; 0 of 1 node votes: {url} is quarantined"
    ));
}

#[test]
fn run_without_a_quorum_exits_with_69_and_a_reason_per_node() {
    let nodes = "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3";
    let (code, out, err) =
        done(bare().args(["run", "job", "--nodes", nodes, "--connect-timeout", IN_VAIN, "--", "echo", "ran"]));
    assert_eq!((code, out.as_str()), (69, ""));
    assert!(nodes.split(',').all(|node| err.contains(&format!("\n  {node}: down"))), "{err}");
}

#[test]
fn run_timeout_bounds_connecting_too() {
    let nodes = "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3";
    // With an hour for connecting, only `--timeout` can end the command in time.
    let cases: [&[&str]; 2] = [&[], &["--connect-timeout", "1h"]];
    for connecting in cases {
        let mut command = bare();
        command.args(["run", "job", "--nodes", nodes, "--timeout", "500ms"]).args(connecting);
        let (code, _, err) = done(command.args(["--", "true"]));
        assert!(code == 69 && err.contains("no quorum within 500 ms"), "{err}");
        assert!(err.contains("\n  --timeout waits longer for nodes"), "{err}");
    }
}

#[test]
fn waiter_for_down_nodes_names_them() {
    let nodes = "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3";
    let (code, _, err) = done(bare().args(["run", "job", "--nodes", nodes, "--timeout", IN_VAIN, "--", "true"]));
    assert_eq!(code, 69, "{err}");
    let mut waits = Background::start(bare().args(["run", "job", "--nodes", nodes]).args(HOUR).args(["--", "true"]));
    waits.says(
        "waiting for a quorum of nodes, for 60 min at most; 0 of 3 nodes vote: redis://127.0.0.1:1 is down: Connection \
         refused; ",
    );
}

#[tokio::test]
async fn an_explanation_that_several_nodes_share_is_given_once() {
    let (servers, folder) = (new_servers(3).await, tempfile::tempdir().unwrap());
    let quarantined = |timeout: &str| {
        let mut command = over(&servers);
        command.env("QUORUMLOCK_MAX_TTL", "1h").args(["run", "job", "--timeout", timeout, "--", "true"]);
        command
    };
    let explained = |said: &str| {
        assert_eq!(said.matches("this server is new, has restarted or lost its record").count(), 1, "{said}");
        // A quorum is two nodes. The third node may not be connected yet.
        assert!((2..=3).contains(&said.matches("quarantined for").count()), "{said}");
    };
    let (code, _, err) = done(&mut quarantined("1min"));
    assert_eq!(code, 69);
    explained(&err);
    let file = folder.path().join("waits");
    let _waits = Background::start(quarantined("2h").stderr(std::fs::File::create(&file).unwrap()));
    let mut said = String::new();
    until("it says what it waits for", || {
        said = std::fs::read_to_string(&file).unwrap();
        said.contains("and then for \"job\"") && said.ends_with('\n')
    });
    explained(&said);
}

#[tokio::test]
async fn signals_are_passed_on() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "trap 'exit 7' USR1; echo $$ > $0/pid; while :; do sleep 0.02; done";
    let mut told = Background::start(&mut run(&servers, "job", &HOUR, script, folder.path()));
    line_of(&folder.path().join("pid"));
    told.send(Signal::USR1);
    assert_eq!(told.done().0, 7);
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        std::fs::remove_file(folder.path().join("pid")).unwrap();
        let mut told = Background::start(&mut run(&servers, "job", &HOUR, FOR_EVER, folder.path()));
        line_of(&folder.path().join("pid"));
        told.send(signal);
        assert_eq!(told.done().0, code);
    }
}

#[tokio::test]
async fn a_signal_while_waiting_ends_the_wait_and_leaves_nothing() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let mut holder = Background::start(&mut run(&servers, "job", &HOUR, FOR_EVER, folder.path()));
    line_of(&folder.path().join("pid"));
    let mut waiter = Background::start(over(&servers).args(["run", "job"]).args(HOUR).args(["--", "echo", "ran"]));
    // Once the waiter is connected, the node has two clients of this library.
    until("the waiter is connected", || {
        servers[0].command(&["CLIENT", "LIST"]).matches("name=quorumlock").count() >= 2
    });
    waiter.send(Signal::TERM);
    let (code, out, _) = waiter.done();
    assert_eq!((code, out.as_str()), (143, ""));
    holder.send(Signal::TERM);
    assert_eq!(holder.done().0, 143);
    until_released(&servers, "job");
}

#[tokio::test]
async fn killing_run_kills_the_command_too() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let mut killed = Background::start(&mut run(&servers, "job", &HOUR, FOR_EVER, folder.path()));
    let pid = line_of(&folder.path().join("pid"));
    assert!(runs(&pid));
    killed.send(Signal::KILL);
    until("the command is gone", || !runs(&pid));
}

#[tokio::test]
async fn taken_lock_ends_the_commands_processes_with_76() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "sleep 1000 & echo $! > $0/child; wait";
    let options = ["--ttl", "15s", "--timeout", "1h"];
    let robbed = Background::start(&mut run(&servers, "job", &options, script, folder.path()));
    let child = line_of(&folder.path().join("child"));
    assert!(runs(&child));
    for server in &servers {
        server.take("job", "somebody/else");
    }
    let (code, _, err) = robbed.done();
    assert!(code == 76 && err.contains("was lost") && err.contains("was stopped"), "{code}: {err}");
    until("the command's child is gone", || !runs(&child));
}

#[tokio::test]
async fn a_run_that_loses_its_quorum_says_nothing_of_the_library() {
    let (mut servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let options = ["--ttl", "6s", "--kill-grace", "100ms", "--timeout", "1h"];
    let lost = Background::start(&mut run(&servers, "job", &options, FOR_EVER, folder.path()));
    line_of(&folder.path().join("pid"));
    servers[..2].iter_mut().for_each(Server::kill);
    let (code, _, err) = lost.done();
    assert!(code == 76 && !err.contains("try_run"), "{code}: {err}");
}

#[tokio::test]
async fn loss_unnoticed_until_the_commands_end_exits_with_76() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "echo $$ > $0/pid; until [ -e $0/go ]; do sleep 0.02; done";
    let options = ["--ttl", "60s", "--timeout", "1h"];
    let robbed = Background::start(&mut run(&servers, "job", &options, script, folder.path()));
    line_of(&folder.path().join("pid"));
    // A quorum is two nodes. A third node that was not connected holds the lock only after the
    // first renewal.
    let held = servers.iter().filter(|server| server.forget("job")).count();
    assert!(held >= 2, "{held}");
    std::fs::write(folder.path().join("go"), "").unwrap();
    let (code, _, err) = robbed.done();
    assert!(code == 76 && err.contains("was lost while the command ran"), "{code}: {err}");
}

/// When the holds end, in milliseconds since the epoch, by the servers' clocks. (All clocks here
/// are the machine's.)
fn ends(servers: &[Server]) -> Vec<u128> {
    servers.iter().map(|server| server.ends("job")).collect()
}

/// Stops all servers soon after a renewal, before the next renewal. Returns when the first hold
/// ends.
fn stop_after_renewal(servers: &[Server], renewal: Duration) -> u128 {
    loop {
        let before = ends(servers);
        until("the lock is renewed", || ends(servers).iter().zip(&before).all(|(now, before)| now > before));
        let began = Instant::now();
        let ends = ends(servers);
        servers.iter().for_each(Server::stop);
        if began.elapsed() < renewal / 2 {
            return ends.into_iter().min().unwrap();
        }
        servers.iter().for_each(Server::resume);
    }
}

/// The times in a file, in milliseconds since the epoch.
fn times(file: &Path) -> Vec<u128> {
    let text = std::fs::read_to_string(file).unwrap();
    let nanoseconds = text.lines().filter_map(|line| line.parse::<u128>().ok());
    nanoseconds.map(|nanoseconds| nanoseconds / 1_000_000).collect()
}

#[tokio::test]
async fn command_is_killed_before_the_first_key_ends_if_nodes_hang() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "trap 'date +%s%N >> $0/asked' TERM; while :; do date +%s%N >> $0/alive; sleep 0.01; done";
    // With this node timeout, a renewal has failed well before the grace begins.
    // The grace is long enough for a shell that is slow to run its trap.
    let options = ["--ttl", "20s", "--kill-grace", "8s", "--node-timeout", "1s", "--timeout", "1h"];
    let mut stubborn = Background::start(&mut run(&servers, "job", &options, script, folder.path()));
    line_of(&folder.path().join("alive"));
    let end = stop_after_renewal(&servers, Duration::from_secs(6));
    until("the command was stopped", || stubborn.child().try_wait().unwrap().is_some());
    servers.iter().for_each(Server::resume);
    let (code, _, err) = stubborn.done();
    let (asked, killed) = err.split_once("quorumlock: the command did not end by SIGTERM").expect(&err);
    assert!(code == 76 && asked.contains("could not be renewed") && killed.contains("SIGKILL"), "{code}: {err}");
    // The message names each node: a node did not answer, or is down after several timeouts.
    assert!(servers.iter().all(|server| asked.contains(&format!("\n  {}: ", server.url()))), "{err}");
    let (asked, alive) = (times(&folder.path().join("asked")), times(&folder.path().join("alive")));
    let (asked, last) = (asked.first().unwrap(), alive.last().unwrap());
    assert!(asked < last && *last < end, "asked to end at {asked}, alive at {last}, the key ended at {end}");
    assert!(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() >= *last);
}

#[tokio::test]
async fn run_without_proc_names_the_file_it_cannot_start() {
    let namespace = ["--user", "--map-root-user", "--mount"];
    let hides = "mount -t tmpfs none /proc && exec \"$@\"";
    if !command("unshare").args(namespace).args(["sh", "-c", hides, "sh", "true"]).status().is_ok_and(|it| it.success())
    {
        eprintln!("skipped: nothing can be mounted here (unshare)");
        return;
    }
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let own = run(&servers, "job", &[], "true", folder.path());
    let mut hidden = command("unshare");
    hidden.args(namespace).args(["sh", "-c", hides, "sh"]).arg(own.get_program()).args(own.get_args());
    hidden.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let (code, _, err) = done(hidden.stdout(Stdio::piped()).stderr(Stdio::piped()));
    assert!(code == 126 && err.contains("cannot run /proc/self/exe: No such file"), "{code}: {err}");
}

#[tokio::test]
async fn a_release_that_no_quorum_confirms_is_told_in_one_line() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "echo > $0/held; while [ ! -e $0/go ]; do sleep 0.01; done";
    let options = ["--ttl", "600s", "--node-timeout", "1s", "--timeout", "1h"];
    let own = Background::start(&mut run(&servers, "job", &options, script, folder.path()));
    line_of(&folder.path().join("held"));
    servers[1..].iter().for_each(Server::stop);
    std::fs::write(folder.path().join("go"), "").unwrap();
    let (code, _, err) = own.done();
    servers.iter().for_each(Server::resume);
    let told = "quorumlock: the lock on \"job\" may stay for up to 10 min: its release was not confirmed by a quorum";
    assert_eq!((code, said(&err)), (0, vec![told]));
}

#[test]
fn a_run_without_a_quorum_says_so_at_once() {
    let nodes = "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3";
    super::until("it says so before its timeout, which is short", || {
        let (code, _, err) = done(bare().args(["run", "job", "--nodes", nodes, "--timeout", "900ms", "--", "true"]));
        assert!(code == 69 && !err.contains("shut down"), "{err}");
        err.contains("waiting for a quorum of nodes, for 900 ms at most; 0 of 3 nodes vote: ")
    });
}

#[tokio::test]
async fn a_password_that_is_missing_is_asked_for_and_no_user() {
    let server = Server::with(&["--requirepass", "pw"]).await;
    let (code, _, err) = done(bare().args(["run", "job", "--nodes", &server.url(), "--", "true"]));
    assert!(code == 69 && err.contains("the server needs a password"), "{err}");
    assert!(err.contains("\n  give the password: ") && !err.contains("right user"), "{err}");
}
