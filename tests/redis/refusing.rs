//! Servers that refuse for a while: what they refused is tried again.

use std::time::Duration;

use quorumlock::node::{FaultKind, Name, Operation, Verb};
use quorumlock::{LockGuard, Quorum};

use crate::common::node::real;
use crate::common::server::{Server, ask};
use crate::common::{eventually, servers, unguarded};

const SECOND: Duration = Duration::from_secs(1);

/// A lock that is held on one server. Its ttl is far longer than the test.
async fn held(servers: &[Server]) -> (Quorum, LockGuard) {
    let quorum = unguarded(servers).connect().await.unwrap();
    let guard = quorum.lock("held").acquire(SECOND).await.unwrap();
    (quorum, guard)
}

async fn is_released(quorum: &Quorum, server: &Server) {
    quorum.quiet().await;
    assert_eq!(server.holder("held"), None, "it was not left to expire");
}

#[tokio::test]
async fn a_release_that_a_busy_server_refused_is_tried_again() {
    let servers = servers(1).await;
    let (server, port) = (&servers[0], servers[0].port());
    let (quorum, guard) = held(&servers).await;
    server.command(&["CONFIG", "SET", "busy-reply-threshold", "10"]);
    let stuck = std::thread::spawn(move || ask(port, &["EVAL", "while true do end", "0"], 60 * SECOND));
    eventually("the server is busy", async || server.command(&["GET", "any"]).contains("BUSY")).await;
    let error = guard.release().await.unwrap_err();
    assert!(error.to_string().contains("tried again in the background"), "{error}");
    assert_eq!(server.command(&["SCRIPT", "KILL"]), "OK");
    stuck.join().unwrap().unwrap();
    is_released(&quorum, server).await;
}

#[tokio::test]
async fn a_release_that_a_server_without_a_disk_refused_is_tried_again() {
    let servers = [Server::with(&["--enable-protected-configs", "yes"]).await];
    let server = &servers[0];
    let (quorum, guard) = held(&servers).await;
    let folder = server.folder().join("gone");
    std::fs::create_dir(&folder).unwrap();
    server.command(&["CONFIG", "SET", "dir", folder.to_str().unwrap()]);
    server.command(&["CONFIG", "SET", "save", "3600 1"]);
    std::fs::remove_dir(&folder).unwrap();
    server.command(&["BGSAVE"]);
    eventually("it refuses writes", async || server.command(&["SET", "any", "thing"]).contains("MISCONF")).await;
    let error = guard.release().await.unwrap_err();
    assert!(error.to_string().contains("tried again in the background"), "{error}");
    server.command(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    is_released(&quorum, server).await;
}

/// Raising a fence takes memory.
#[tokio::test]
async fn a_server_without_memory_cannot_now_and_may_later() {
    let server = Server::start().await;
    let node = real(&server).await;
    let names = [Name::new("", "full").unwrap()].into();
    let release = Operation { verb: Verb::Release, ballot: 7, ttl: SECOND, ..Operation::inspect(names) };
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let fault = crate::common::node::ask(&node, &release).await.unwrap_err();
    assert!(fault.kind() == FaultKind::Busy && fault.to_string().contains("raise maxmemory"), "{fault:?}");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(crate::common::node::ask(&node, &release).await.is_ok());
}
