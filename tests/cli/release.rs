//! `quorumlock release --force`.

use std::fs::File;
use std::process::Stdio;

use serde_json::{Value, json};

use super::status::looked;
use super::terminal::Asked;
use super::{
    Background, EACH_NODE, IN_VAIN, done, line_of, over, run, runs, tried, until, until_listed, until_released,
};
use crate::common::server::Server;
use crate::common::servers;

#[tokio::test]
async fn release_asks_first_and_a_yes_revokes_the_holders_lock() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "echo $QUORUMLOCK_FENCING_TOKEN > $0/token; exec sleep 1000";
    let mut holder = Background::start(&mut run(&servers, "job", &["--ttl", "30s"], script, folder.path()));
    let token = line_of(&folder.path().join("token")).parse::<u64>().unwrap();
    let answered = |answer: &str| {
        let mut asked = Asked::start(over(&servers).args(["release", "job", "--force"]));
        asked.answers(answer);
        asked.done()
    };
    let mut asked = Asked::start(over(&servers).args(["release", "job", "--force", "--now", "--json"]));
    asked.answers("n\n");
    let (code, out, err) = asked.done();
    assert!(
        code == 1 && out.contains("; the answer was no\"") && err.contains("until then two clients may"),
        "{out}{err}"
    );
    for answer in ["\u{4}", "\n", "n\n", "maybe\n"] {
        let (code, out, err) = answered(answer);
        assert_eq!((code, out.as_str()), (1, ""));
        assert!(err.contains("held by") && err.contains("[y/N]") && err.contains("nothing was released"), "{err}");
    }
    assert!(holder.child().try_wait().unwrap().is_none());
    let (code, out, err) = answered("y\n");
    assert!(code == 0 && out.contains("\"job\" revoked: it is free once its holder lets go, within"), "{out}{err}");
    assert!(out.contains("; it is taken from ") && out.contains(&format!("/{}/", holder.child().id())), "{out}");
    let (code, _, err) = holder.done();
    assert!(code == 76 && err.contains("was lost"), "{code}: {err}");
    let raised = servers.iter().filter(|server| server.fence("job") > token).count();
    assert!(raised >= 2, "the old token is dead on a quorum: {raised}");
}

/// The words of a command that holds a lock, the words of the next command, which waits, and the
/// name to revoke.
const PAIRS: [(&[&str], &[&str], &str); 5] = [
    (&["run", "lock"], &["run", "lock"], "lock"),
    (&["run", "permit", "--permits", "1"], &["run", "permit", "--permits", "1"], "permit/0"),
    (&["run", "read", "--shared"], &["run", "read"], "read"),
    (&["run", "written"], &["run", "written", "--shared"], "written"),
    (&["elect", "office"], &["elect", "office"], "office"),
];

/// The holder's command ignores SIGTERM, so it is killed when its grace is over. The next command
/// waits until then.
#[tokio::test]
async fn waiter_enters_after_the_revoked_holders_command_has_ended() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let start = |words: &[&str], script: &str| {
        let folder = folder.path().join(words[1]);
        std::fs::create_dir_all(&folder).unwrap();
        // The grace of 2.4 s is shorter than a hand-over. With a longer grace, `run` would end the
        // next command before its first renewal.
        let options = ["--ttl", "12s", "--timeout", "1h"];
        Background::start(over(&servers).args(words).args(options).args(["--", "sh", "-c", script]).arg(folder))
    };
    let holders = PAIRS.map(|(holds, ..)| start(holds, "trap '' TERM; echo $$ > $0/pid; while :; do sleep 1; done"));
    let pids = PAIRS.map(|(holds, ..)| line_of(&folder.path().join(holds[1]).join("pid")));
    // Another process may have got the pid, so look for the folder in the process's arguments.
    let alone = "if grep -qsF $0 /proc/$(cat $0/pid)/cmdline; then echo beside; else echo alone; fi > $0/next";
    let nexts = PAIRS.map(|(_, waits, _)| start(waits, alone));
    for (.., name) in PAIRS {
        let (code, out, err) = tried(over(&servers).args(["release", name, "--force", "--yes"]));
        assert!(code == 0 && out.contains("revoked"), "{name}: {out}{err}");
    }
    for ((.., name), holder) in PAIRS.iter().zip(holders) {
        assert_eq!(holder.done().0, 76, "{name}");
    }
    assert!(pids.iter().all(|pid| !runs(pid)));
    for ((_, waits, _), next) in PAIRS.iter().zip(nexts) {
        let (code, _, err) = next.done();
        let entered = std::fs::read_to_string(folder.path().join(waits[1]).join("next")).unwrap_or_default();
        assert_eq!((code, entered.as_str()), (0, "alone\n"), "{waits:?}: {err}");
    }
}

#[tokio::test]
async fn release_now_frees_a_held_name_and_warns_of_two_holders() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "echo $QUORUMLOCK_FENCING_TOKEN > $0/token; exec sleep 1000";
    // The ttl is long: the holder would notice the release with its first renewal, after 20
    // minutes.
    let mut holder = Background::start(&mut run(&servers, "job", &["--ttl", "1h"], script, folder.path()));
    line_of(&folder.path().join("token"));
    let (code, out, err) = done(over(&servers).args(["release", "job", "--force", "--now", "--yes"]));
    assert!(code == 0 && out.contains("\"job\" released"), "{out}{err}");
    assert!(err.contains("two clients may hold the lock"), "{err}");
    until_released(&servers, "job");
    // Point 9 of "What is not promised": there may be two holders.
    assert_eq!(done(over(&servers).args(["run", "job", "--timeout", "1h", "--", "true"])).0, 0);
    assert!(holder.child().try_wait().unwrap().is_none(), "two were inside");
    holder.child().kill().unwrap();
    let (code, _, err) = done(over(&servers).args(["release", "job", "--now"]));
    assert!(code == 64 && err.contains("--force"), "{err}");
}

#[tokio::test]
async fn release_with_yes_reports_a_free_name_without_asking() {
    let servers = servers(3).await;
    let (code, out, _) = done(over(&servers).args(["release", "job", "--force", "--yes", "--json"]));
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["was_held"], &told["name"]), (0, &false.into(), &"job".into()));
    assert!(told["fence"].as_u64().unwrap() > 0 && told["free_within_ms"].is_null());
}

#[tokio::test]
async fn release_without_a_quorum_releases_nothing() {
    let mut servers = servers(3).await;
    servers[0].kill();
    servers[1].kill();
    let (code, out, err) =
        done(over(&servers).args(["release", "job", "--force", "--yes", "--connect-timeout", IN_VAIN]));
    assert_eq!((code, out.as_str()), (69, ""));
    assert!(err.ends_with("\n  nothing was released\n"), "{err}");
    // The message comes long before the timeout.
    until("it says at once what it waits for", || {
        let brief = ["--connect-timeout", "900ms"];
        let (code, _, err) = done(over(&servers).args(["release", "job", "--force", "--yes"]).args(brief));
        code == 69 && err.contains("waiting for a quorum of nodes, for 900 ms at most; 1 of 3 nodes vote: ")
    });
}

#[tokio::test]
async fn release_on_too_few_voting_nodes_reports_no_name_as_free() {
    let servers = super::unwell::quarantined(3).await;
    let quarantined = |options: &[&str]| {
        let mut command = super::unwell::guarded(&servers);
        done(command.args(["release", "job", "--force", "--yes"]).args(options).args(EACH_NODE))
    };
    let until_then = "; but 0 of 3 nodes vote, so another client may hold it\n";
    for options in [&[][..], &["--now"]] {
        let (code, out, err) = quarantined(options);
        assert!(code == 69 && out.is_empty(), "{out}{err}");
        assert!(err.contains("\"job\" was revoked on ") && !err.contains("nobody can tell"), "{err}");
        assert!(err.contains(&format!(" of 3 nodes, and no node names a holder{until_then}")), "{err}");
        assert_eq!(err.contains("\n  no revoked lock is left on redis://"), options == ["--now"], "{err}");
        // The machine may stall for minutes before the command starts.
        let again = (55..=61)
            .any(|minutes| err.ends_with(&format!("run this command again in {minutes} min, when a quorum votes\n")));
        assert!(again, "{err}");
    }
    for options in [&["--json"][..], &["--json", "--now"]] {
        servers[0].take("job", "somebody");
        let (code, out, err) = quarantined(options);
        let told: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        assert_eq!((code, &told["exit_code"]), (69, &69.into()), "{told}");
        let error = told["error"].as_str().unwrap();
        assert!(error.contains(&format!(" of 3 nodes, and taken from somebody{until_then}")), "{error}");
        assert!(err.ends_with(&format!("quorumlock: {error}\n")), "{err}");
    }
}

#[tokio::test]
async fn a_name_that_is_free_is_told_to_be_and_nothing_is_asked() {
    let servers = servers(3).await;
    let (code, out, err) = done(over(&servers).args(["release", "job", "--force"]));
    assert!(code == 0 && out.contains("\"job\" is free"), "{out}{err}");
    assert!(!err.contains("[y/N]"), "nothing is asked: {err}");
    assert_eq!(servers[0].fence("job"), 0, "and nothing is changed");
}

#[tokio::test]
async fn release_without_a_terminal_neither_asks_nor_reads() {
    let servers = servers(3).await;
    servers.iter().for_each(|server| server.take("job", "somebody"));
    let mut command = over(&servers);
    // Standard input is open and has no data, as in many pipelines.
    let mut silent = Background::start(command.args(["release", "job", "--force", "--json"]).stdin(Stdio::piped()));
    let stdin = silent.child().stdin.take();
    let (code, out, err) = silent.done();
    drop(stdin);
    let told: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!((code, &told["holder"], &told["was_held"]), (1, &"somebody".into(), &true.into()), "{told}");
    assert!(told["refused"].as_str().unwrap().contains("held by somebody; say --yes"), "{told}");
    assert!(err.contains("if the answer is yes, say --yes") && !err.contains("[y/N]"), "{err}");
    assert_eq!(servers[0].holder("job").as_deref(), Some("somebody"));
}

#[tokio::test]
async fn an_answer_is_about_the_holder_that_was_asked_about() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let said = folder.path().join("said");
    let taken_by = |owner: &str| servers.iter().for_each(|server| server.take("job", owner));
    taken_by("one");
    let heard = |times| {
        let mut text = String::new();
        until("it asks", || {
            text = std::fs::read_to_string(&said).unwrap_or_default();
            text.matches("[y/N] ").count() == times
        });
        text
    };
    let mut command = over(&servers);
    command.args(["release", "job", "--force", "--json"]).stderr(File::create(&said).unwrap());
    let mut asked = Asked::start(&mut command);
    assert!(heard(1).contains("held by one"));
    taken_by("another");
    asked.answers("y\n");
    let again = heard(2);
    assert!(again.contains("has got another holder") && again.contains("held by another"), "{again}");
    asked.answers("n\n");
    let (code, out, _) = asked.done();
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["holder"]), (1, &"another".into()), "{told}");
    assert_eq!(servers[0].holder("job").as_deref(), Some("another"));
    let (code, out, _) = done(over(&servers).args(["release", "job", "--force", "--json", "--yes"]));
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["taken_from"]), (0, &json!(["another"])), "{told}");
    assert!(told["fence"].as_u64().unwrap() >= servers[0].fence("job"), "{told}");
}

/// Only one node names the new holder, which may be about to get a quorum.
#[tokio::test]
async fn release_asks_again_about_a_new_holder_on_one_node() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let said = folder.path().join("said");
    servers.iter().for_each(|server| server.take("job", "one"));
    let asks = |times| {
        let heard = || std::fs::read_to_string(&said).unwrap_or_default();
        until("it asks", || heard().matches("[y/N] ").count() == times);
    };
    let mut command = over(&servers);
    // The command must ask the third node too.
    command.args(["release", "job", "--force"]).args(EACH_NODE).stderr(File::create(&said).unwrap());
    let mut asked = Asked::start(&mut command);
    asks(1);
    servers[2].take("job", "another");
    asked.answers("y\n");
    asks(2);
    asked.answers("n\n");
    assert_eq!(asked.done().0, 1);
    assert_eq!(servers[2].holder("job").as_deref(), Some("another"));
}

#[tokio::test]
async fn holder_on_one_node_of_three_is_reported_and_asked_about() {
    let servers = servers(3).await;
    servers[1].take("job", "somebody");
    let (code, out, err) = looked(over(&servers).args(["status", "job"]).args(EACH_NODE));
    assert!(code == 0 && out.contains("job is free on a quorum of nodes, and others name somebody"), "{out}{err}");
    let (code, out, err) = done(over(&servers).args(["release", "job", "--force"]).args(EACH_NODE));
    assert!(code == 1 && out.is_empty() && err.contains("others name somebody"), "{out}{err}");
    let (code, out, err) = done(over(&servers).args(["release", "job", "--force", "--yes"]));
    // A quorum of replies is enough for the command. When the command ends, the node that names
    // somebody may not have replied.
    let told = ["it is taken from somebody", "was free"].iter().any(|told| out.contains(told));
    assert!(code == 0 && told, "{out}{err}");
}

/// A client that keeps its list in force. The client ends when its standard input is closed.
fn client(servers: &[Server]) -> Background {
    let mut command = over(servers);
    command.args(["run", "other", "--", "sh", "-c", "echo runs; cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = Background::start(&mut command);
    client.first_line();
    until_listed(servers);
    client
}

/// On these nodes nobody holds the name. But clients of the other list may hold the name on other
/// nodes.
#[tokio::test]
async fn release_over_another_list_reports_no_name_as_free() {
    let servers = servers(5).await;
    let _other = client(&servers[..3]);
    for words in [&["release", "job", "--force"][..], &["release", "job", "--force", "--yes"]] {
        let (code, out, err) = done(over(&servers[2..]).args(words).args(EACH_NODE));
        assert!(!out.contains("free") && !out.contains("revoked"), "{words:?}: {out}{err}");
        let shared =
            format!("another list is in force on 127.0.0.1:{}: ours and theirs have 3 nodes", servers[2].port());
        assert!(code == 69 && err.contains(&shared), "{words:?}: {code}: {out}{err}");
        assert!(err.contains("stop its clients") && err.ends_with("\n  nothing was released\n"), "{err}");
    }
    let (code, out, _) = done(over(&servers[2..]).args(["status", "job"]).args(EACH_NODE));
    assert!(code == 69 && out.contains("nobody can tell who holds it"), "{out}");
}

/// A shell with another max_ttl than the clients has another list.
#[tokio::test]
async fn shell_with_another_max_ttl_reports_no_name_as_free() {
    let servers = servers(3).await;
    let _client = client(&servers);
    servers[..2].iter().for_each(|server| server.take("job", "somebody"));
    let asked = |words: &[&str]| done(over(&servers).env("QUORUMLOCK_MAX_TTL", "2h").args(words));
    for words in [&["status", "job"][..], &["release", "job", "--force"], &["release", "job", "--force", "--yes"]] {
        let (_, out, err) = asked(&[words, &["--connect-timeout", "1s"]].concat());
        assert!(!out.contains("free"), "{words:?}: {out}{err}");
    }
    let (code, out, _) = asked(&[&["status", "job"], &EACH_NODE[..]].concat());
    assert!(code == 69 && out.contains("another list") && out.contains("somebody"), "{out}");
}
