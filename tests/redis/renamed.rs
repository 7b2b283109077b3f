//! Servers without a command, because of `rename-command`, and users that may not load scripts.

use std::time::Duration;

use quorumlock::{NodeState, Quorum, QuorumBuilder};

use crate::common::fake::{Fake, well};
use crate::common::server::Server;
use crate::common::{PATIENCE, eventually, released};

fn builder(url: String) -> QuorumBuilder {
    crate::common::builder().node(url).max_ttl(Duration::ZERO)
}

async fn without(command: &str) -> Server {
    Server::with(&["--rename-command", command, ""]).await
}

async fn works(quorum: &Quorum) {
    released(quorum.lock("it").acquire(PATIENCE).await.unwrap().release()).await;
}

/// Waits until the reason why nothing can be acquired on this server contains `says`. Returns the
/// reason.
async fn refused(url: String, says: &str) -> String {
    let quorum = builder(url).open().unwrap();
    let mut said = String::new();
    eventually(says, || {
        said = quorum.nodes().swap_remove(0).state.to_string();
        std::future::ready(said.contains(says))
    })
    .await;
    said
}

#[tokio::test]
async fn missing_redis_command_is_named_with_a_remedy() {
    let evalsha = without("EVALSHA").await;
    let info = Fake::start(|words| match &*words[0] {
        "INFO" => b"-ERR unknown command 'INFO', with args beginning with: \r\n".to_vec(),
        _ => well(words),
    })
    .await;
    for (url, command) in [(evalsha.url(), "EVALSHA"), (info.url(), "INFO")] {
        let said = refused(url, &format!("unknown command '{command}' (")).await;
        assert!(said.contains("rename-command") && !said.contains("with args"), "{said}");
    }
}

/// The message must not contain the script's text.
#[tokio::test]
async fn scripts_that_can_be_neither_loaded_nor_run_are_told_briefly() {
    let server = Server::with(&["--rename-command", "SCRIPT", "", "--rename-command", "EVAL", ""]).await;
    let said = refused(server.url(), "unknown command 'EVAL' (").await;
    assert!(said.contains("rename-command"), "{said}");
    assert!(said.len() < 300, "{said}");
}

#[tokio::test]
async fn a_server_without_the_command_script_grants_locks() {
    let server = without("SCRIPT").await;
    works(&builder(server.url()).connect().await.unwrap()).await;
}

#[tokio::test]
async fn user_who_may_not_load_scripts_sends_them_once_a_connection() {
    let server = Server::start().await;
    let rule = ["ACL", "SETUSER", "locks", "on", ">pw", "~*", "&*", "+@all", "-script|load"];
    assert_eq!(server.command(&rule), "OK");
    let url = format!("redis://locks:pw@127.0.0.1:{}", server.port());
    let quorum = builder(url).connect().await.unwrap();
    let commands = || server.command(&["INFO", "commandstats"]);
    // If the machine stalls, the client connects again.
    let once = async || {
        works(&quorum).await;
        server.command(&["CONFIG", "RESETSTAT"]);
        for _ in 0..5 {
            works(&quorum).await;
        }
        !commands().contains("cmdstat_eval:")
    };
    eventually("the script is sent once a connection", once).await;
    assert_eq!(server.command(&["SCRIPT", "FLUSH"]), "OK");
    let calls = async || {
        works(&quorum).await;
        server.command(&["CONFIG", "RESETSTAT"]);
        works(&quorum).await;
        !commands().contains("cmdstat_eval:")
    };
    eventually("it is known again", calls).await;
}

#[tokio::test]
async fn a_server_without_ping_grants_locks() {
    let server = without("PING").await;
    let quorum = builder(server.url()).connect().await.unwrap();
    works(&quorum).await;
    eventually("it is up", async || quorum.nodes()[0].state == NodeState::Up).await;
    let status = quorum.nodes().swap_remove(0);
    if let Some(why) = status.no_wake_ups {
        assert!(why.contains("'PING' (") && why.contains("rename-command"), "{why}");
    }
}
