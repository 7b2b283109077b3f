//! Missing rights of a user: how `doctor`, `status` and `run` report them, and whether
//! docs/rights.md is right.

use std::process::Command;

use serde_json::Value;

use super::clinic::{Clinic, RIGHTS, doctor, faults, finding, finds, report, unknown, user};
use crate::common::fake::{Fake, well};
use crate::common::server::Server;
use crate::status::looked;
use crate::{Background, EACH_NODE, IN_VAIN, at_once, bare, done};

#[tokio::test]
async fn fault_6_a_missing_right_is_named_command_by_command() {
    let clinic = Clinic::open(3).await;
    for (rights, missing) in [
        // Test this right first, while the node has no record: making the record needs this right
        // too.
        (&["-hset"][..], "+hset"),
        (&["-zadd"], "+zadd"),
        (&["-evalsha"], "+evalsha"),
        (&["-script", "-eval"], "+script|load"),
        (&["-hset", "-pexpire"], "+pexpire +hset"),
    ] {
        user(clinic.server(0), &[&RIGHTS[..], rights].concat());
        let ids = ["bare-quorum", "right-command"];
        // Without the right to put waiters into a queue, the node still votes.
        let object = finds(&mut clinic.doctor(), 1, &ids[usize::from(missing == "+zadd")..]);
        assert!(finding(&object, "right-command")["what"].as_str().unwrap().contains(missing), "{object:#}");
    }
    user(clinic.server(0), &[&RIGHTS[..], &["-scan"]].concat());
    assert_eq!(finding(&finds(&mut clinic.doctor(), 0, &[]), "right-scan")["level"], "hint");
    user(clinic.server(0), &[&RIGHTS[..], &["-script|load"]].concat());
    assert_eq!(finding(&finds(&mut clinic.doctor(), 0, &[]), "right-unneeded")["level"], "hint");
}

#[tokio::test]
async fn a_right_that_the_doctor_needs_is_one_finding() {
    let clinic = Clinic::open(3).await;
    user(clinic.server(0), &[&RIGHTS[..], &["-info"]].concat());
    let object = finds(&mut clinic.doctor(), 1, &["bare-quorum", "right-command"]);
    assert!(unknown(&object).is_empty(), "{object:#}");
    assert!(finding(&object, "right-command")["what"].as_str().unwrap().contains("+info"), "{object:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_the_server_lacks_is_one_finding() {
    let server = Server::with(&["--rename-command", "EVALSHA", ""]).await;
    let fake = Fake::start(|words| match &*words[0] {
        "INFO" => b"-ERR unknown command 'INFO', with args beginning with: \r\n".to_vec(),
        "TIME" => b"*2\r\n$1\r\n7\r\n$1\r\n0\r\n".to_vec(),
        "SUBSCRIBE" => b"+OK\r\n".to_vec(),
        _ => well(words),
    })
    .await;
    at_once([(server.url(), "EVALSHA"), (fake.url(), "INFO")], |(url, command)| {
        let (_, object) = report(doctor(&[url]).args(["--connect-timeout", IN_VAIN, "--node-timeout", IN_VAIN]));
        let says = |it: &Value, key: &str, what: &str| it[key].as_str().unwrap().contains(what);
        let error = format!("ERR unknown command '{command}'");
        let told: Vec<_> =
            object["findings"].as_array().unwrap().iter().filter(|it| says(it, "what", &error)).collect();
        assert!(told.len() == 1 && says(told[0], "mend", "rename-command"), "{object:#}");
        assert!(!object.to_string().contains("Give the user"), "{object:#}");
    });
}

#[tokio::test]
async fn fault_7_missing_channels_and_keys_are_named() {
    let clinic = Clinic::open(3).await;
    user(clinic.server(0), &["~quorumlock:*", "resetchannels", "+@all", "-@dangerous", "+info"]);
    let object = finds(&mut clinic.doctor(), 1, &["right-channels"]);
    assert!(finding(&object, "right-channels")["mend"].as_str().unwrap().contains("&quorumlock:*"), "{object:#}");
    user(clinic.server(0), &["~other:*", "&quorumlock:*", "+@all", "-@dangerous", "+info"]);
    let (code, object) = report(&mut clinic.doctor());
    assert!(code == 1 && faults(&object).contains(&"right-keys"), "{object:#}");
}

/// The rights that docs/rights.md gives.
fn least() -> Vec<&'static str> {
    let line = include_str!("../../../docs/rights.md").lines().find(|line| line.starts_with("ACL SETUSER locks"));
    line.unwrap().split(' ').skip(5).filter(|word| *word != "resetchannels").collect()
}

#[tokio::test]
async fn each_missing_right_is_named_by_the_doctor() {
    let clinic = Clinic::open(1).await;
    let server = clinic.server(0);
    let all = least();
    let lacking = |user: &str, right: &str| {
        let mut words = vec!["ACL", "SETUSER", user, "reset", "resetchannels", "on", ">pw"];
        words.extend(all.iter().copied().filter(|known| *known != right));
        assert_eq!(server.command(&words), "OK");
        let url = format!("redis://{user}:pw@127.0.0.1:{}", server.port());
        report(doctor(&[url]).args(["--node-timeout", "20s"])).1
    };
    let nothing = lacking("all", "");
    assert!(!nothing.to_string().contains("\"right-"), "{nothing:#}");
    // Leave out the rights to choose a database and to name a connection: only users with these
    // settings need them.
    let asked: Vec<_> = all.iter().copied().filter(|right| !["+select", "+client|setname"].contains(right)).collect();
    assert!(asked.len() > 25, "{asked:?}");
    at_once(asked.chunks(asked.len().div_ceil(8)).enumerate(), |(index, part)| {
        for right in part {
            let object = lacking(&format!("user{index}"), right);
            let findings = object["findings"].as_array().unwrap().iter();
            let mut named = findings.filter(|it| it["id"].as_str().unwrap().starts_with("right-"));
            let said = |it: &Value| it["what"].to_string() + &it["mend"].to_string();
            assert!(named.any(|it| said(it).contains(right)), "{right}: {object:#}");
        }
    });
}

#[tokio::test]
async fn node_without_a_right_to_acquire_is_not_counted_as_voting() {
    let clinic = Clinic::open(3).await;
    let lacking = [&RIGHTS[..], &["-hset"]].concat();
    user(clinic.server(0), &lacking);
    let object = finds(&mut clinic.doctor(), 1, &["bare-quorum", "right-command"]);
    assert_eq!(finding(&object, "right-command")["why"], "The node grants this user no lock.", "{object:#}");
    assert_eq!(looked(command(&clinic.urls(), "quorumlock:").arg("status")).0, 0);
    user(clinic.server(1), &lacking);
    let object = finds(&mut clinic.doctor(), 2, &["no-quorum", "right-command"]);
    assert!(finding(&object, "no-quorum")["what"].as_str().unwrap().contains("1 of 3 nodes vote"), "{object:#}");
    let (code, out, err) = looked(command(&clinic.urls(), "quorumlock:").arg("status").args(EACH_NODE));
    assert!(code == 69 && out.contains("1 of 3 nodes vote") && out.contains("the user lacks +hset"), "{out}{err}");
    let wait = Background::start(command(&clinic.urls(), "quorumlock:").args(["status", "--wait", IN_VAIN]));
    let (code, _, err) =
        asked(&clinic.urls(), "quorumlock:", &["run", "--connect-timeout", IN_VAIN, "job", "--", "true"]);
    assert!(code == 69 && (err.contains("+hset") || err.contains("`quorumlock doctor` names it")), "{err}");
    let (code, out, _) = wait.done();
    assert!(code == 69 && out.contains("1 of 3 nodes vote"), "{out}");
}

/// The exit code of the command, and its output.
fn asked(urls: &[String], prefix: &str, words: &[&str]) -> (i32, String, String) {
    done(command(urls, prefix).args(words))
}

fn command(urls: &[String], prefix: &str) -> Command {
    let mut command = bare();
    command.env("QUORUMLOCK_NODES", urls.join(",")).env("QUORUMLOCK_KEY_PREFIX", prefix);
    command
}

/// The rights without which `run` acquires nothing. docs/rights.md names the same rights.
const TO_ACQUIRE: [&str; 7] = ["+evalsha", "+info", "+time", "+hgetall", "+hmget", "+hset", "+pexpire"];

#[tokio::test]
async fn run_status_and_doctor_agree_on_each_missing_right() {
    let clinic = Clinic::open(1).await;
    let server = clinic.server(0);
    let all: Vec<_> = least().into_iter().filter(|right| right.starts_with('+')).collect();
    let tried = |index: usize| {
        let (right, name) = (all[index], format!("user{index}"));
        let mut words = vec!["ACL", "SETUSER", &name, "reset", "resetchannels", "on", ">pw", "~*", "&*"];
        words.extend(all.iter().copied().filter(|known| *known != right));
        assert_eq!(server.command(&words), "OK");
        // Each case uses a prefix of its own, and so a record of its own.
        let (urls, prefix) = ([format!("redis://{name}:pw@127.0.0.1:{}", server.port())], format!("{name}:"));
        // Waiters and observers need this right to count the waiters of a name.
        let counts = right == "+zcard";
        let votes = !TO_ACQUIRE.contains(&right);
        let timeout = if votes { "1h" } else { IN_VAIN };
        // The job runs longer than a third of its ttl, so its lock is renewed.
        let job = ["run", "--ttl", "12s", "--timeout", timeout, "job", "--", "sleep", "4.1"];
        let (run, _, said) = asked(&urls, &prefix, &job);
        // If the node does not vote, `EACH_NODE` would wait for it.
        let patience = if votes { &EACH_NODE[..] } else { &["--node-timeout", "20s"] };
        let mut look = command(&urls, &prefix);
        look.arg("status").args(patience);
        let (status, ..) = if votes { looked(&mut look) } else { done(&mut look) };
        let (doctor, object) = report(command(&urls, &prefix).arg("doctor").args(patience));
        // Exit code 75 is possible too: a claim that failed midway may hold the name until its ttl
        // has passed.
        let refused = [69, 75].contains(&run);
        assert!(if votes { run == 0 } else { refused }, "{right}: {run} {said}");
        assert_eq!(status, if votes && !counts { 0 } else { 69 }, "{right}");
        assert_eq!(doctor, if votes && !counts { 1 } else { 2 }, "{right}: {object:#}");
    };
    at_once(0..8, |first: usize| (first..all.len()).step_by(8).for_each(tried));
}

#[test]
fn the_documentation_names_the_rights_that_acquiring_needs() {
    let page = include_str!("../../../docs/rights.md");
    let row = page.lines().find(|line| line.contains("grants no lock")).unwrap();
    let named = row.split('`').skip(1).step_by(2).map(|right| right.replace("\\|", "|"));
    let named: Vec<_> = named.filter(|right| right.starts_with('+')).collect();
    let said = |right: &&str| named.iter().any(|named| named == right);
    assert!(TO_ACQUIRE.iter().chain(&["+zcard"]).all(said), "{named:?}");
    assert_eq!(named.len(), TO_ACQUIRE.len() + 1);
}

#[test]
fn the_containers_give_the_least_rights_and_no_others() {
    let file = include_str!("../../../docker/redis.conf");
    let line = file.lines().find(|line| line.starts_with("user locks ")).unwrap();
    let given: Vec<_> = line.split(' ').filter(|word| word.starts_with(['+', '~', '&'])).collect();
    let sorted = |mut rights: Vec<&'static str>| {
        rights.sort_unstable();
        rights
    };
    assert_eq!(sorted(given), sorted(least()));
}
