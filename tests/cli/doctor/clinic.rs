//! Servers for the doctor to examine, and the doctor's report.

use std::process::Command;

use serde_json::Value;

use crate::common::clockwork::{Clockwork, aged};
use crate::common::server::Server;
use crate::{EACH_NODE, bare, done};

/// The rights of the user in docs/deploy.md, "Access rights".
pub(super) const RIGHTS: [&str; 5] = ["~quorumlock:*", "&quorumlock:*", "+@all", "-@dangerous", "+info"];

/// Servers that have been up for an hour and vote. They have a user for locks.
pub(super) struct Clinic(pub(super) Vec<Clockwork>);

impl Clinic {
    pub(super) async fn open(count: usize) -> Self {
        let clinic = Self(aged(count).await);
        clinic.servers().for_each(|server| user(server, &RIGHTS));
        clinic
    }

    pub(super) fn server(&self, index: usize) -> &Server {
        &self.0[index].server
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.0.iter().map(|node| &node.server)
    }

    pub(super) fn urls(&self) -> Vec<String> {
        self.0.iter().map(|node| url(&node.server)).collect()
    }

    /// The doctor over all servers, each in a failure domain of its own.
    pub(super) fn doctor(&self) -> Command {
        patient(&self.urls())
    }
}

pub(super) fn url(server: &Server) -> String {
    format!("redis://locks:pw@127.0.0.1:{}", server.port())
}

pub(super) fn user(server: &Server, rights: &[&str]) {
    let words = [&["ACL", "SETUSER", "locks", "reset", "on", ">pw"], rights].concat();
    assert_eq!(server.command(&words), "OK");
}

pub(super) fn doctor(urls: &[String]) -> Command {
    let domains: Vec<_> = (0..urls.len()).map(|index| format!("zone-{index}")).collect();
    let mut command = bare();
    command.env("QUORUMLOCK_NODES", urls.join(",")).args(["doctor", "--domains", &domains.join(",")]);
    command
}

/// The doctor over nodes that do not hang. It waits until it knows the state of each node, and
/// finds no fault in round trips that are long only since the machine is busy.
pub(super) fn patient(urls: &[String]) -> Command {
    let mut command = doctor(urls);
    command.env("QUORUMLOCK_TIMEOUT", "1h").args(EACH_NODE);
    command
}

/// The exit code of the doctor, and the object that it printed.
pub(super) fn report(command: &mut Command) -> (i32, Value) {
    let (code, out, err) = done(command.arg("--json"));
    let object: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {code} {out}{err}"));
    assert_eq!(object["exit_code"], code, "{object}");
    (code, object)
}

/// The ids of the findings that are worse than a hint, in the order of the report.
pub(super) fn faults(object: &Value) -> Vec<&str> {
    let findings = object["findings"].as_array().unwrap().iter();
    let bad = findings.filter(|finding| ["unsafe", "warning"].contains(&finding["level"].as_str().unwrap()));
    bad.map(|finding| finding["id"].as_str().unwrap()).collect()
}

/// The findings that say what the doctor could not find out.
pub(super) fn unknown(object: &Value) -> Vec<&Value> {
    object["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] == "cannot tell").collect()
}

pub(super) fn finding<'a>(object: &'a Value, id: &str) -> &'a Value {
    let found = object["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id);
    found.unwrap_or_else(|| panic!("no {id}: {object}"))
}

/// Checks that the doctor finds these faults and no others, explains each fault in three sentences,
/// and ends with this code.
pub(super) fn finds(command: &mut Command, expected: i32, ids: &[&str]) -> Value {
    let (code, object) = report(command);
    assert_eq!((code, faults(&object)), (expected, ids.to_vec()), "{object:#}");
    for id in ids {
        let sentences = ["what", "why", "mend"].map(|key| finding(&object, id)[key].as_str().unwrap().len());
        assert!(sentences.iter().all(|length| *length > 10), "{id}: {object:#}");
    }
    object
}
