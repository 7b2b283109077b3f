//! `quorumlock clients`: the clients that are connected.

use serde_json::Value;

use super::{Background, done, line_of, over, run};
use crate::common::servers;

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
    let (code, out, err) = done(over(&servers).args(["clients", "--json"]));
    assert_eq!(code, 0, "{out}{err}");
    let (clients, version) = (&shown(&out)["clients"], env!("CARGO_PKG_VERSION"));
    assert_eq!(clients.as_array().unwrap().len(), 1, "{out}");
    let told = ["pid", "from", "name", "list", "version"].map(|field| clients[0][field].clone());
    let from = serde_json::json!(["127.0.0.1"]);
    assert_eq!(told, [pid.into(), from, "quorumlock".into(), "a:b".into(), version.into()], "{out}");
    assert_eq!(clients[0]["this_list"], false, "{out}");
    assert_eq!(clients[0]["nodes"].as_array().unwrap().len(), 3, "{out}");
    let (code, out, _) = done(over(&servers).arg("clients"));
    let row = format!("/{}  ", pid);
    assert!(
        code == 0
            && out.contains(&row)
            && out.contains("a:b, another list")
            && out.ends_with("1 client on 3 of 3 nodes\n"),
        "{out}"
    );
}

#[tokio::test]
async fn nodes_that_do_not_tell_are_named_with_the_reason() {
    let mut servers = servers(3).await;
    servers[1].command(&["ACL", "SETUSER", "default", "-client|list"]);
    servers[2].kill();
    let (code, out, _) = done(over(&servers).arg("clients"));
    assert!(code == 0 && out.contains("+client|list") && out.contains("0 clients on 1 of 3 nodes"), "{out}");
    servers[0].kill();
    servers[1].kill();
    let (code, out, _) = done(over(&servers).arg("clients"));
    assert!(code == 69 && out.contains("refused") && out.contains("no node lists its clients"), "{code}: {out}");
}
