//! `quorumlock clients`: the clients that are connected.

use serde_json::Value;

use super::{Background, done, line_of, over, run, until};
use crate::common::servers;

/// Gives slow nodes enough time to answer. The command leaves out nodes that have not answered in
/// time.
const PATIENT: [&str; 2] = ["--node-timeout", "20s"];

fn shown(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

#[tokio::test]
async fn a_client_is_shown_with_its_pid_its_list_and_its_nodes() {
    let servers = servers(3).await;
    let folder = tempfile::tempdir().unwrap();
    let mut client = Background::start(&mut run(
        &servers,
        "job",
        &["--list", "a:b"],
        "echo > $0/in; exec sleep 1000",
        folder.path(),
    ));
    line_of(&folder.path().join("in"));
    let pid = client.child().id();
    // The client may connect to the third node after it got the lock.
    let mut out = String::new();
    until("it is connected to each node", || {
        let (code, said, err) = done(over(&servers).args(["clients", "--json"]).args(PATIENT));
        assert_eq!(code, 0, "{said}{err}");
        out = said;
        shown(&out)["clients"][0]["nodes"].as_array().is_some_and(|nodes| nodes.len() == 3)
    });
    let (clients, version) = (&shown(&out)["clients"], env!("CARGO_PKG_VERSION"));
    assert_eq!(clients.as_array().unwrap().len(), 1, "{out}");
    let told = ["pid", "from", "name", "list", "version"].map(|field| clients[0][field].clone());
    let from = serde_json::json!(["127.0.0.1"]);
    assert_eq!(told, [pid.into(), from, "quorumlock".into(), "a:b".into(), version.into()], "{out}");
    assert_eq!(clients[0]["this_list"], false, "{out}");
    until("each node answers in time", || {
        let (code, said, err) = done(over(&servers).arg("clients").args(PATIENT));
        assert_eq!(code, 0, "{said}{err}");
        out = said;
        out.ends_with("1 client on 3 of 3 nodes\n")
    });
    assert!(out.contains(&format!("/{pid}  ")) && out.contains("a:b, another list"), "{out}");
}

#[tokio::test]
async fn nodes_that_do_not_tell_are_named_with_the_reason() {
    let mut servers = servers(3).await;
    servers[1].command(&["ACL", "SETUSER", "default", "-client|list"]);
    servers[2].kill();
    let (code, out, _) = done(over(&servers).arg("clients").args(PATIENT));
    assert!(code == 0 && out.contains("+client|list") && out.contains("0 clients on 1 of 3 nodes"), "{out}");
    servers[0].kill();
    servers[1].kill();
    let (code, out, _) = done(over(&servers).arg("clients").args(PATIENT));
    assert!(code == 69 && out.contains("refused") && out.contains("no node lists its clients"), "{code}: {out}");
}
