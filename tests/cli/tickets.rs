//! `run --ticket`, `run --resume` and `release --ticket`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use super::regions::far;
use super::{Background, bare, done, line_of, over, take_away, tried, until, until_released};
use crate::common::port::Port;
use crate::common::server::Server;
use crate::common::servers;

/// The ticket ends so late that no test waits for its end.
const LONG: [&str; 2] = ["--ttl", "1h"];
/// No server listens here. With an hour to wait, a command that sends something does not end.
const NOBODY: [&str; 4] = ["--nodes", "redis://127.0.0.1:1", "--timeout", "1h"];
/// A command that runs until the test makes the file `go`.
const UNTIL_GO: &str = "echo $QUORUMLOCK_FENCING_TOKEN > $0/token; until [ -e $0/go ]; do sleep 0.02; done";

/// `quorumlock run WORDS -- sh -c SCRIPT FOLDER`.
fn runs(servers: &[Server], words: &[&str], script: &str, folder: &Path) -> Command {
    let mut command = over(servers);
    command.arg("run").args(words).args(["--", "sh", "-c", script]).arg(folder);
    command
}

/// The path of the ticket in this folder.
fn ticket_in(folder: &Path) -> String {
    folder.join("ticket").to_str().unwrap().to_owned()
}

/// Runs a command that leaves a ticket of the lock `job`. If a quorum was too late to confirm the
/// ticket, the lock is released: then runs the command again.
fn make_ticket(servers: &[Server], ttl: &str, file: &str) {
    let words = ["job", "--ttl", ttl, "--ticket", file];
    until("a ticket is made", || done(&mut runs(servers, &words, "true", Path::new("/"))).0 == 0);
}

#[tokio::test]
async fn lock_of_a_ticket_is_resumed_before_a_waiter_gets_it() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let (folder, file) = (folder.path(), ticket_in(folder.path()));
    let words = [&["job", "-v", "--ticket", &file][..], &LONG].concat();
    let first = Background::start(&mut runs(&servers, &words, UNTIL_GO, folder));
    let token = line_of(&folder.join("token")).parse::<u64>().unwrap();
    let entered = "[ -e $0/resumed ] && echo after || echo before";
    let mut waiter = Background::start(&mut runs(&servers, &["job"], entered, folder));
    waiter.says("waiting for \"job\"");
    fs::write(folder.join("go"), "").unwrap();
    let (code, out, err) = first.done();
    let ticket = fs::read_to_string(&file).unwrap();
    assert!(code == 0 && ticket.starts_with("quorumlock-ticket-1 "), "{code}: {err}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!(out + &err).contains(ticket.trim()), "{err}");
    let script = "echo $QUORUMLOCK_NAME $QUORUMLOCK_FENCING_TOKEN; touch $0/resumed";
    let (code, out, err) = done(&mut runs(&servers, &["-v", "--resume", &file], script, folder));
    assert!(code == 0 && !err.contains(ticket.trim()), "{code}: {err}");
    assert!(out.trim().strip_prefix("job ").unwrap().parse::<u64>().unwrap() > token, "{out}");
    let (code, out, err) = waiter.done();
    assert_eq!((code, out.as_str()), (0, "after\n"), "{err}");
}

#[tokio::test]
async fn failed_command_leaves_no_ticket_and_frees_the_name() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let file = ticket_in(folder.path());
    for (script, expected) in [("exit 3", 3), ("kill -KILL $$", 137), ("[ ! -e $0/ticket ]; exit $(($? + 4))", 4)] {
        fs::write(&file, "quorumlock-ticket-1 7 9 1700000000000 f00d host/1/u/3 9 p:{other}\n").unwrap();
        let words = [&["job", "--ticket", &file][..], &LONG].concat();
        let (code, _, err) = done(&mut runs(&servers, &words, script, folder.path()));
        assert!(code == expected && !Path::new(&file).exists(), "{code}: {err}");
        until_released(&servers, "job");
    }
}

#[tokio::test]
async fn older_ticket_stays_until_the_lock_is_acquired() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let file = ticket_in(folder.path());
    make_ticket(&servers, "1h", &file);
    let ticket = fs::read_to_string(&file).unwrap();
    let (code, _, err) = tried(&mut runs(&servers, &["job", "-n", "--ticket", &file], "true", folder.path()));
    assert!(code == 75 && fs::read_to_string(&file).unwrap() == ticket, "{code}: {err}");
    assert!(!err.contains(ticket.trim()), "{err}");
}

#[tokio::test]
async fn expired_ticket_is_refused_with_76_and_words() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let file = ticket_in(folder.path());
    make_ticket(&servers, "2s", &file);
    until("the hold has ended", || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        servers.iter().all(|server| server.ends("job") < now)
    });
    let (code, out, err) = tried(&mut runs(&servers, &["--resume", &file], "echo ran", folder.path()));
    assert!(code == 76 && out.is_empty(), "{code}: {out}{err}");
    let first = err.lines().find(|line| line.contains("is not held any more")).unwrap();
    assert!(first.contains("\"job\"") && first.ends_with("acquire the lock anew: quorumlock run NAME -- CMD"), "{err}");
    assert!(!err.contains(fs::read_to_string(&file).unwrap().trim()), "{err}");
}

#[tokio::test]
async fn ticket_that_was_resumed_is_refused_and_the_holder_stays() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let (folder, file) = (folder.path(), ticket_in(folder.path()));
    make_ticket(&servers, "1h", &file);
    let words = [&["--resume", &file][..], &LONG].concat();
    let holder = Background::start(&mut runs(&servers, &words, UNTIL_GO, folder));
    line_of(&folder.join("token"));
    let (code, out, err) = tried(&mut runs(&servers, &words, "echo ran", folder));
    assert!(code == 76 && out.is_empty() && err.contains("taken it over"), "{code}: {out}{err}");
    let (code, out, err) = tried(over(&servers).args(["release", "--ticket", &file]));
    assert!(code == 0 && out.starts_with("nothing was released: "), "{code}: {out}{err}");
    fs::write(folder.join("go"), "").unwrap();
    let (code, _, err) = holder.done();
    assert_eq!(code, 0, "{err}");
    until_released(&servers, "job");
}

#[tokio::test]
async fn resumed_lock_becomes_a_ticket_again() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let file = ticket_in(folder.path());
    make_ticket(&servers, "1h", &file);
    let first = fs::read_to_string(&file).unwrap();
    let words = [&["--resume", &file, "--ticket", &file][..], &LONG].concat();
    let (code, _, err) = done(&mut runs(&servers, &words, "true", folder.path()));
    assert_eq!(code, 0, "{err}");
    assert_ne!(fs::read_to_string(&file).unwrap(), first);
    // A command that fails under a resumed lock ends the lock.
    let (code, _, err) = done(&mut runs(&servers, &["--resume", &file], "exit 3", folder.path()));
    assert_eq!(code, 3, "{err}");
    until_released(&servers, "job");
}

#[tokio::test]
async fn release_of_a_ticket_frees_the_name_at_once() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let file = ticket_in(folder.path());
    make_ticket(&servers, "1h", &file);
    let release = |more: &[&str]| tried(over(&servers).args(["release", "--ticket", &file]).args(more));
    let (code, out, err) = release(&[]);
    assert_eq!((code, out.as_str()), (0, "\"job\" released\n"), "{err}");
    let (code, _, err) = tried(&mut runs(&servers, &["job", "-n"], "true", folder.path()));
    assert_eq!(code, 0, "{err}");
    let (code, out, err) = release(&["--json"]);
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["name"], &told["was_held"]), (0, &"job".into(), &false.into()), "{err}");
    let (code, _, err) = tried(&mut runs(&servers, &["--resume", &file], "true", folder.path()));
    assert_eq!(code, 76, "{err}");
}

#[tokio::test]
async fn release_of_a_ticket_without_a_quorum_fails_with_69() {
    let (mut servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let file = ticket_in(folder.path());
    make_ticket(&servers, "1h", &file);
    servers.iter_mut().take(2).for_each(Server::kill);
    let (code, out, err) = done(over(&servers).args(["release", "--ticket", &file, "--connect-timeout", "1s"]));
    assert!(code == 69 && out.is_empty() && err.contains("nothing was released"), "{code}: {out}{err}");
}

#[tokio::test]
async fn lost_lock_becomes_no_ticket_and_is_told_with_76() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let (folder, file) = (folder.path(), ticket_in(folder.path()));
    let words = [&["job", "--ticket", &file][..], &LONG].concat();
    let lost = Background::start(&mut runs(&servers, &words, UNTIL_GO, folder));
    line_of(&folder.join("token"));
    take_away(&servers, "job");
    fs::write(folder.join("go"), "").unwrap();
    let (code, _, err) = lost.done();
    assert!(code == 76 && !Path::new(&file).exists(), "{code}: {err}");
}

#[tokio::test]
async fn ticket_that_no_quorum_confirms_is_not_written() {
    let (mut servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let (folder, file) = (folder.path(), ticket_in(folder.path()));
    let words = [&["job", "--ticket", &file][..], &LONG].concat();
    let alone = Background::start(&mut runs(&servers, &words, UNTIL_GO, folder));
    line_of(&folder.join("token"));
    servers.iter_mut().take(2).for_each(Server::kill);
    fs::write(folder.join("go"), "").unwrap();
    let (code, _, err) = alone.done();
    assert!(code == 69 && !Path::new(&file).exists(), "{code}: {err}");
    assert!(err.contains("no ticket was written; the lock ends by its ttl"), "{err}");
}

#[tokio::test]
async fn ticket_that_cannot_be_written_frees_the_name() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let gone = folder.path().join("gone");
    fs::create_dir(&gone).unwrap();
    let file = ticket_in(&gone);
    let words = [&["job", "--ticket", &file][..], &LONG].concat();
    let (code, _, err) = done(&mut runs(&servers, &words, "rmdir $0/gone", folder.path()));
    assert!(code == 70 && err.contains("the ticket of \"job\" was not written to "), "{code}: {err}");
    assert!(err.contains("the lock is released") && !err.contains("quorumlock-ticket-1 "), "{err}");
    until_released(&servers, "job");
}

#[tokio::test]
async fn ticket_under_another_key_prefix_is_refused_with_64() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let file = ticket_in(folder.path());
    make_ticket(&servers, "1h", &file);
    let words = ["--resume", &file, "--key-prefix", "other:"];
    let (code, out, err) = tried(&mut runs(&servers, &words, "echo ran", folder.path()));
    assert!(code == 64 && out.is_empty() && err.contains("of another key prefix"), "{code}: {out}{err}");
}

#[test]
fn file_without_a_ticket_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = ticket_in(folder.path());
    let refused = |path: &str, why: &str| {
        for command in [&["run", "--resume"][..], &["release", "--ticket"]] {
            let nodes = if command[0] == "run" { &NOBODY[..] } else { &["--nodes", NOBODY[1]] };
            let after = if command[0] == "run" { &["--", "true"][..] } else { &[] };
            let (code, out, err) = done(bare().args(command).arg(path).args(nodes).args(after));
            assert!(code == 64 && out.is_empty() && err.contains(why), "{command:?} {path}: {code}: {out}{err}");
            assert!(err.contains("give a file that `quorumlock run --ticket` wrote"), "{err}");
            assert!(!err.contains("s3cret"), "{err}");
        }
    };
    refused(&file, "No such file");
    refused("-", "no ticket is read from standard input");
    refused(folder.path().to_str().unwrap(), "Is a directory");
    for text in [&b"s3cret"[..], b"", b"quorumlock-ticket-1 7 9 1700000000000 f00d s3cret/1/u/3 8 p:{a", b"\xff\xfe"] {
        fs::write(&file, text).unwrap();
        refused(&file, "this is no ticket, or only a part of one");
    }
}

#[test]
fn ticket_file_that_cannot_be_written_is_refused_first() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_str().unwrap();
    for (path, why) in [
        (here, "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("-", "standard output is the command's"),
        ("nofolder/", "this is a folder"),
        ("/proc/ticket", "cannot make a file in the folder /proc"),
        ("/nowhere/ticket", "cannot make a file in the folder /nowhere"),
    ] {
        let (code, _, err) = done(bare().args(["run", "job", "--ticket", path]).args(NOBODY).args(["--", "true"]));
        assert!(code == 64 && err.contains(&format!("--ticket {path}: ")) && err.contains(why), "{code}: {err}");
    }
}

#[test]
fn file_that_a_ticket_must_not_replace_is_refused_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let file = ticket_in(folder.path());
    for (text, why) in [
        ("s3cret", "this file has no ticket, and would be removed"),
        ("quorumlock-ticket-1 7 9 99999999999999 f00d host/1/u/3 9 p:{other}", "the ticket of \"other\""),
    ] {
        fs::write(&file, text).unwrap();
        let (code, _, err) = done(bare().args(["run", "job", "--ticket", &file]).args(NOBODY).args(["--", "true"]));
        assert!(code == 64 && err.contains(why) && !err.contains("s3cret"), "{code}: {err}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    let words = ["run", "job", "--ticket", "/tmp/a.prom", "--metrics-textfile", "/tmp/a.prom"];
    let (code, _, err) = done(bare().args(words).args(NOBODY).args(["--", "true"]));
    assert!(code == 64 && err.contains("name the same file"), "{code}: {err}");
}

#[tokio::test]
async fn ticket_that_another_run_has_written_is_not_replaced() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let file = ticket_in(folder.path());
    let words = [&["job", "--ticket", &file][..], &LONG].concat();
    let (code, _, err) = done(&mut runs(&servers, &words, "echo foreign > $0/ticket", folder.path()));
    assert!(code == 70 && fs::read_to_string(&file).unwrap() == "foreign\n", "{code}: {err}");
    until_released(&servers, "job");
}

#[tokio::test]
async fn command_that_cannot_be_run_uses_up_the_ticket_and_says_so() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let file = ticket_in(folder.path());
    make_ticket(&servers, "1h", &file);
    let (code, _, err) = done(over(&servers).args(["run", "--resume", &file, "--", "/nowhere/command"]));
    assert!(code == 127 && err.contains("its ticket is used up"), "{code}: {err}");
    until_released(&servers, "job");
}

#[tokio::test]
async fn resume_waits_for_far_nodes_if_a_near_node_has_no_hold() {
    let (servers, folder) = (servers(5).await, tempfile::tempdir().unwrap());
    let file = ticket_in(folder.path());
    let ports = [Port::take(), Port::take()];
    let _relay = far(&servers[3..], &ports, "300ms");
    let addresses = |far: [u16; 2]| {
        let near = servers[..3].iter().map(Server::port).chain(far).enumerate();
        near.map(|(node, port)| format!("redis://127.0.0.1:{port}?name=n{node}")).collect::<Vec<_>>().join(",")
    };
    let nodes = addresses([servers[3].port(), servers[4].port()]);
    let through = addresses(ports.each_ref().map(Port::number));
    let run = |nodes: &str, words: &[&str]| {
        done(bare().env("QUORUMLOCK_MAX_TTL", "0").args(["run", "--nodes", nodes]).args(words).args(["--", "true"]))
    };
    let words = ["job", "--timeout", "1h", "--ttl", "1h", "--ticket", &file];
    until("a ticket is made", || run(&nodes, &words).0 == 0);
    until("all nodes have the hold", || servers.iter().all(|server| server.ends("job") > 0));
    servers[0].command(&["DEL", "quorumlock:{job}"]);
    let (code, _, err) = run(&through, &["--resume", &file]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn options_that_do_not_fit_a_ticket_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = ticket_in(folder.path());
    let refused = |words: &[&str], why: &str| {
        let (code, out, err) = done(bare().args(words).args(["--nodes", NOBODY[1], "--", "true"]));
        assert!(code == 64 && out.is_empty() && err.contains(why), "{words:?}: {code}: {out}{err}");
    };
    let conflict = "cannot be used with";
    for option in [
        &["job"][..],
        &["--shared"],
        &["--permits", "2"],
        &["--once-per", "1h"],
        &["--again"],
        &["--describe", "text"],
        &["--unfair"],
        &["-n"],
        &["-E", "3"],
    ] {
        refused(&[&["run", "--resume", &file], option].concat(), conflict);
    }
    for option in
        [&["--shared"][..], &["--permits", "2"], &["--once-per", "1h"], &["--at-least", "1m"], &["-n", "-E", "0"]]
    {
        refused(&[&["run", "job", "--ticket", &file], option].concat(), conflict);
    }
    refused(&["run", "a", "b", "--ticket", &file], "--ticket takes one name");
    refused(&["run"], "<NAME>");
    let elects = "an election has neither --ticket nor --resume";
    refused(&["elect", "job", "--ticket", &file], elects);
    refused(&["elect", "--resume", &file], elects);
    refused(&["elect", "--ticket", &file], "<NAME>");
    refused(&["elect", "job", "--resume", &file], conflict);
    let releases = |words: &[&str], why: &str| {
        let (code, out, err) = done(bare().arg("release").args(words).args(["--nodes", NOBODY[1]]));
        assert!(code == 64 && out.is_empty() && err.contains(why), "{words:?}: {code}: {out}{err}");
    };
    for option in ["job", "--force", "--yes"] {
        releases(&["--ticket", &file, option], conflict);
    }
    releases(&[], "<NAME>");
}
