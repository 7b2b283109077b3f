//! Users, passwords, sockets.

use crate::common::logs::Logs;
use crate::common::server::Server;
use crate::common::servers;
use crate::common::{PATIENCE, eventually};
use crate::{SECOND, builder, refused};

const SECRET: &str = "hunter2/?#ä";
const ENCODED: &str = "hunter2%2F%3F%23%C3%A4";

async fn with_user() -> Server {
    let server = Server::start().await;
    let rule = format!(">{SECRET}");
    assert_eq!(server.command(&["ACL", "SETUSER", "alice", "on", &rule, "~*", "&*", "+@all"]), "OK");
    server
}

#[tokio::test]
async fn user_password_and_database_are_used_and_never_shown() {
    let logs = Logs::capture();
    let server = with_user().await;
    let url = format!("redis://alice:{ENCODED}@127.0.0.1:{}/3", server.port());
    let settings = builder(&[url]).client_name("shown");
    let mut shown = format!("{settings:?}");
    assert!(shown.contains("nodes: 1"), "the addresses are only counted: {shown}");
    let quorum = settings.connect().await.unwrap();
    let guard = quorum.lock("secret").acquire(PATIENCE).await.unwrap();
    let list = server.command(&["CLIENT", "LIST"]);
    let client = list.lines().find(|line| line.contains("name=shown")).expect("the connection has its name");
    assert!(client.contains("user=alice") && client.contains("db=3"), "{client}");
    assert!(format!("{:?}", quorum.lock("who is it")).contains("who is it"));
    assert!(format!("{quorum:?}").contains("127.0.0.1"));
    shown +=
        &format!("{quorum:?} {guard:?} {:?} {:?} {:?}", quorum.nodes(), quorum.lock("a"), quorum.inspect("a").await);
    shown += &logs.text();
    unseen(&shown);
}

#[tokio::test]
async fn a_wrong_password_is_told_without_repeating_it() {
    let logs = Logs::capture();
    let server = with_user().await;
    let url = format!("redis://alice:wrong-{ENCODED}@127.0.0.1:{}", server.port());
    let error = refused(builder(std::slice::from_ref(&url)), "check user and password").await;
    assert!(error.is_unavailable(), "{error}");
    let twice = refused(builder(&[url.clone(), url.replace("wrong-", "")]), "").await;
    assert!(twice.is_config());
    let mut shown = format!("{error} {error:?} {twice} {twice:?} {}", logs.text());
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        shown += &format!("{cause} {cause:?}");
        source = cause.source();
    }
    unseen(&shown);
    let user_alone = refused(builder(&[format!("redis://alice@127.0.0.1:{}", server.port())]), "").await;
    assert!(user_alone.is_config(), "{user_alone}");
}

fn unseen(text: &str) {
    assert!(text.contains("127.0.0.1"), "there is something to look at");
    assert!(!text.contains("hunter2") && !text.contains("alice"), "{text}");
}

#[tokio::test]
async fn a_unix_socket_is_a_node() {
    let folder = tempfile::TempDir::new().unwrap();
    let socket = folder.path().join("redis.sock");
    let _server = Server::with(&["--unixsocket", socket.to_str().unwrap()]).await;
    let url = format!("redis+unix://{}?db=2", socket.display());
    let quorum = builder(&[url]).connect().await.unwrap();
    assert!(quorum.lock("socket").acquire(PATIENCE).await.is_ok());
    let missing = builder(&[format!("redis+unix://{}/none.sock", folder.path().display())]);
    assert!(refused(missing, "none.sock").await.is_unavailable());
}

#[cfg(feature = "__tls")]
#[tokio::test]
async fn tls_to_a_plain_port_is_told_as_such() {
    let servers = servers(1).await;
    let url = servers[0].url().replace("redis://", "rediss://");
    let quorum = builder(&[url]).node_timeout(60 * SECOND).open().unwrap();
    eventually("it is told", async || quorum.nodes()[0].state.to_string().contains("write redis://")).await;
}
