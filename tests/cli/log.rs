//! `--log-format json`: messages on standard error, for programs.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::{Background, IN_VAIN, bare, done, line_of, over, run, until};
use crate::common::server::Server;
use crate::common::servers;

/// The lines as objects. Each must have a time, a level and a message.
fn objects(text: &str) -> Vec<Value> {
    let objects: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let whole = |object: &Value| ["timestamp", "level", "message"].iter().all(|key| object[key].is_string());
    assert!(objects.iter().all(whole), "{text}");
    objects
}

/// The messages up to this moment, without a line that is still being written.
fn whole_lines(command: &mut Background) -> Vec<Value> {
    let said = command.err().text();
    objects(said.rsplit_once('\n').map_or("", |(whole, _)| whole))
}

/// The command's exit code, and its messages on standard error.
fn logged(command: &mut Command) -> (i32, Vec<Value>) {
    let (code, _, err) = done(command);
    (code, objects(&err))
}

/// The first object whose message begins with `message`.
fn find<'a>(objects: &'a [Value], message: &str) -> &'a Value {
    let begins = |object: &&Value| object["message"].as_str().unwrap().starts_with(message);
    objects.iter().find(begins).unwrap_or_else(|| panic!("no {message:?} in {objects:#?}"))
}

#[tokio::test]
async fn events_have_their_fields_beside_the_message() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let mut own = over(&servers);
    own.args(["--log-format", "json", "run", "job", "-v", "--timeout", "1h", "--", "sh", "-c"]);
    let mut own = Background::start(own.arg("until [ -e $0/go ]; do sleep 0.02; done").arg(folder.path()));
    // The lock is acquired when a quorum is up. The third node may come up later.
    until("all nodes are up", || {
        let said = whole_lines(&mut own);
        let is_up = |node: &Server| said.iter().any(|said| said["message"] == "up" && said["node"] == node.url());
        servers.iter().all(is_up)
    });
    std::fs::write(folder.path().join("go"), "").unwrap();
    let (code, _, err) = own.done();
    let said = objects(&err);
    assert_eq!(code, 0, "{said:#?}");
    let acquired = find(&said, "lock acquired");
    assert!(acquired["level"] == "INFO" && acquired["name"] == "job" && acquired["token"].is_u64(), "{acquired}");
    let nodes = servers.iter().map(Server::url);
    let up: Vec<_> = said.iter().filter(|object| object["message"] == "up").map(|object| &object["node"]).collect();
    assert!(nodes.into_iter().all(|node| up.contains(&&Value::from(node))), "{said:#?}");
    let run = ["run", "job", "--log-format=json", "--timeout", "1h", "--", "true"];
    let (code, said) = logged(over(&servers).args(run));
    // On a busy machine, `run` also writes notes, whose level is INFO: what it waits for, and that
    // its release was not confirmed in time.
    let is_event = |object: &Value| ["up", "lock acquired"].iter().any(|event| object["message"] == *event);
    assert!(code == 0 && !said.iter().any(is_event), "-v tells more: {said:#?}");
}

#[tokio::test]
async fn notes_and_errors_are_objects_too() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    servers.iter().for_each(|server| server.take("job", "somebody/else"));
    let options = ["--timeout", IN_VAIN, "--log-format", "json"];
    let (code, said) = logged(&mut run(&servers, "job", &options, "true", folder.path()));
    assert_eq!(code, 75);
    let options = ["--timeout", "1h", "--log-format", "json"];
    let mut waits = Background::start(&mut run(&servers, "job", &options, "true", folder.path()));
    // On a busy machine, the note may say that no quorum votes yet, or may name no holder.
    let note = "\"job\", for 60 min at most";
    let is_note = |object: &Value| object["message"].as_str().unwrap().contains(note) && object["level"] == "INFO";
    until("it says what it waits for", || whole_lines(&mut waits).iter().any(is_note));
    let why = find(&said, "cannot acquire \"job\": others hold it");
    assert!(why["level"] == "ERROR" && why["message"].as_str().unwrap().contains('\n'), "{why}");
    let (code, said) = logged(over(&servers).args(["release", "job", "--force", "--log-format", "json"]));
    assert!(code == 1 && find(&said, "nothing was released")["level"] == "INFO", "though status logs errors alone");
    let (code, said) = logged(bare().args(["status", "--log-format", "json"]));
    assert!(code == 64 && find(&said, "no node is configured")["level"] == "ERROR", "{said:#?}");
}

#[tokio::test]
async fn failure_to_run_a_program_is_logged_as_json() {
    let servers = servers(1).await;
    let run = ["run", "job", "--log-format", "json", "--timeout", "1h", "--", "no-such-program"];
    let (code, said) = logged(over(&servers).args(run));
    assert!(code == 127 && find(&said, "cannot run no-such-program")["level"] == "ERROR", "{said:#?}");
}

#[tokio::test]
async fn loss_is_logged_as_json_and_the_commands_output_stays_as_is() {
    let (servers, folder) = (servers(3).await, tempfile::tempdir().unwrap());
    let script = "echo its own words >&2; echo > $0/inside; exec sleep 1000";
    let options = ["--ttl", "15s", "--timeout", "1h", "--log-format", "json"];
    let robbed = Background::start(&mut run(&servers, "job", &options, script, folder.path()));
    line_of(&folder.path().join("inside"));
    servers.iter().for_each(|server| server.take("job", "somebody/else"));
    let (code, _, err) = robbed.done();
    let ours = err.replacen("its own words\n", "", 1);
    let said = objects(&ours);
    assert!(code == 76 && ours.len() < err.len(), "{err}");
    assert!(find(&said, "the lock on \"job\" was lost")["message"].as_str().unwrap().contains("got SIGTERM"), "{err}");
    assert_eq!(find(&said, "the command was stopped")["level"], "ERROR");
}

#[test]
fn a_demo_and_its_workers_say_nothing_else() {
    // The workers must have connected when the node is killed, after half of the time.
    let (code, said) = logged(bare().args(["demo", "--seconds", "24", "--log-format", "json", "-v"]));
    assert_eq!(code, 0, "{said:#?}");
    let killed = find(&said, "half-way: killed redis://")["message"].as_str().unwrap();
    let node = killed.split(' ').nth(2).unwrap();
    let warned = said.iter().filter(|object| object["node"] == node && object["level"] == "WARN").count();
    assert!(warned >= 3, "one of the process that watches, and of each of the other two: {said:#?}");
}

#[test]
fn a_sandbox_warns_in_it_too() {
    let mut sandbox = Background::start(bare().args(["sandbox", "--masters", "1", "--log-format", "json"]));
    sandbox.first_line();
    sandbox.send(Signal::INT);
    let (code, _, err) = sandbox.done();
    assert_eq!(code, 0, "{err}");
    assert!(find(&objects(&err), "1 new servers on loopback")["message"].as_str().unwrap().contains("keep nothing"));
}
