//! The client library (transport) that the command uses.

use std::process::Command;
use std::sync::{Arc, Mutex};

use quorumlock::Transport;

use super::{bare, done};
use crate::common::fake::{Fake, well};

/// A server that records whether a client sent a command that only fred sends.
async fn listening() -> (Fake, Arc<Mutex<bool>>) {
    let noted = Arc::new(Mutex::new(false));
    let note = noted.clone();
    let fake = Fake::start(move |words| {
        *note.lock().unwrap() |= words[0] == "CLIENT" && words[1] == "ID";
        well(words)
    })
    .await;
    (fake, noted)
}

/// Whether the command connects to the server by fred.
async fn over_fred(change: impl FnOnce(&mut Command)) -> bool {
    let (fake, noted) = listening().await;
    let mut command = bare();
    command.env_remove("QUORUMLOCK_TRANSPORT").env("QUORUMLOCK_NODES", fake.url()).args(["status", "--max-ttl", "0"]);
    change(&mut command);
    // The fake server cannot run scripts. What `status` reports about this does not matter here.
    let (_, out, err) = tokio::task::spawn_blocking(move || done(&mut command)).await.unwrap();
    assert!(out.contains("7.0.0"), "the server told its version: {out}{err}");
    let noted = noted.lock().unwrap();
    *noted
}

#[tokio::test]
async fn transport_is_fred_unless_an_option_variable_or_file_sets_it() {
    assert!(over_fred(|_| {}).await);
    let folder = tempfile::tempdir().unwrap();
    for &transport in Transport::ALL {
        let (name, fred) = (transport.name(), transport == Transport::Fred);
        let file = folder.path().join(name);
        std::fs::write(&file, format!("transport = \"{name}\"\n")).unwrap();
        assert_eq!(
            over_fred(|command| {
                command.args(["--transport", name]);
            })
            .await,
            fred
        );
        assert_eq!(
            over_fred(|command| {
                command.env("QUORUMLOCK_TRANSPORT", name);
            })
            .await,
            fred
        );
        assert_eq!(
            over_fred(|command| {
                command.arg("--config").arg(&file);
            })
            .await,
            fred
        );
        assert!(
            over_fred(|command| {
                command.env("QUORUMLOCK_TRANSPORT", name).args(["--transport", "fred"]);
            })
            .await
        );
    }
}

#[test]
fn unknown_transport_is_refused_with_the_known_ones() {
    let refused = |command: &mut Command| {
        let (code, _, err) = done(command.args(["--nodes", "redis://127.0.0.1:1"]));
        assert!(code == 64 && err.contains("use fred or redis-rs"), "{err}");
        err
    };
    refused(bare().args(["status", "--transport", "other"]));
    let said = refused(bare().arg("status").env("QUORUMLOCK_TRANSPORT", "hunter2"));
    assert!(said.contains("QUORUMLOCK_TRANSPORT: ") && !said.contains("hunter2"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.toml");
    std::fs::write(&file, "\ntransport = \"hunter2\"\n").unwrap();
    let said = refused(bare().args(["status", "--config"]).arg(&file));
    assert!(said.contains("line 2: ") && !said.contains("hunter2"), "{said}");
}
