//! Settings from the environment. Each case needs a process of its own, with another environment.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use quorumlock::{Quorum, QuorumBuilder};

use crate::common::PATIENCE;
use crate::common::program::command;
use crate::common::server::Server;

const PASSWORD: &str = "p@ss/w:rd,";

/// Runs a process that connects with these variables. Returns its output.
fn child(variables: &[(&str, &str)]) -> String {
    let known =
        ["NODES", "LIST", "TTL", "TIMEOUT", "MAX_TTL", "KEY_PREFIX", "KEY_FORMAT", "PASSWORD_FILE", "TRANSPORT"];
    let mut child = command(std::env::current_exe().unwrap());
    child.args(["--exact", "environment::child_that_connects", "--ignored", "--nocapture"]);
    for name in known {
        child.env_remove(format!("QUORUMLOCK_{name}"));
    }
    let output = child.envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[tokio::test]
#[ignore = "a part of others, in a process of its own"]
async fn child_that_connects() {
    let quorum = match Quorum::from_env().await {
        Ok(quorum) => quorum,
        Err(error) => return println!("refused: {error}"),
    };
    let guard = quorum.lock("it").acquire(PATIENCE).await.unwrap();
    println!("holds {}, {}", guard.name(), guard.remaining() < Duration::from_secs(25));
    // Try again if the nodes did not answer within the timeout.
    let began = std::time::Instant::now();
    let again = loop {
        match quorum.lock("it").acquire_default().await {
            Err(error) if error.is_unavailable() && began.elapsed() < PATIENCE => {}
            tried => break tried.map(drop),
        }
    };
    println!("{again:?}");
    assert!(QuorumBuilder::from_env().unwrap().max_ttl(Duration::from_secs(1)).in_memory(3).is_err(), "its ttl");
    println!("done");
}

fn written(folder: &Path) -> String {
    let file = folder.join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    file.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_environment_names_nodes_and_options() {
    let protected = (0..3).map(|_| Server::with(&["--requirepass", PASSWORD]));
    let servers = futures::future::join_all(protected).await;
    let folder = tempfile::TempDir::new().unwrap();
    let nodes = servers.iter().map(Server::url).collect::<Vec<_>>().join(", ");
    let file = written(folder.path());
    let said = child(&[
        ("QUORUMLOCK_NODES", &nodes),
        ("QUORUMLOCK_PASSWORD_FILE", &file),
        ("QUORUMLOCK_TTL", "25s"),
        ("QUORUMLOCK_TIMEOUT", "300ms"),
        ("QUORUMLOCK_MAX_TTL", "0"),
        ("QUORUMLOCK_KEY_PREFIX", "app:"),
        ("QUORUMLOCK_KEY_FORMAT", "acme/{name}"),
    ]);
    assert!(said.contains("holds acme/it, true") && said.contains("Err(Timeout: cannot acquire"), "{said}");
    assert!(said.contains("done\n") && !said.contains(PASSWORD), "{said}");
}

#[tokio::test]
async fn invalid_environment_is_refused_with_the_bad_setting_named() {
    let node = ("QUORUMLOCK_NODES", "redis://127.0.0.1:1");
    for (variables, says) in [
        (vec![], "QUORUMLOCK_NODES names no node; set it to redis://host:port"),
        (vec![node, ("QUORUMLOCK_TTL", "long")], "QUORUMLOCK_TTL: not a duration"),
        (
            vec![node, ("QUORUMLOCK_PASSWORD_FILE", "/nowhere/at/all")],
            "QUORUMLOCK_PASSWORD_FILE: /nowhere/at/all: No such",
        ),
        (vec![node, ("QUORUMLOCK_KEY_PREFIX", "")], "key_prefix is empty"),
        (vec![node, ("QUORUMLOCK_KEY_FORMAT", "acme")], "key_format must have {name}"),
        (vec![("QUORUMLOCK_NODES", "redis://eu,:secret@us")], "QUORUMLOCK_NODES: node 2 of 2"),
    ] {
        let said = child(&variables);
        assert!(said.contains("refused: ") && said.contains(says) && !said.contains("secret"), "{said}");
    }
}
