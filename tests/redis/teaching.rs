//! Teaching new nodes by hand.

use std::time::Duration;

use quorumlock::{Quorum, QuorumBuilder};

use crate::common::server::Server;
use crate::common::servers;
use crate::common::{PATIENCE, eventually};

const SECOND: Duration = Duration::from_secs(1);

fn of(servers: &[Server], prefix: &str) -> QuorumBuilder {
    let urls = servers.iter().map(Server::url);
    crate::common::builder().nodes(urls).max_ttl(SECOND).ttl(SECOND).key_prefix(prefix)
}

fn looks(servers: &[Server], prefix: &str) -> QuorumBuilder {
    of(servers, prefix).onlooker()
}

async fn taught(quorum: &Quorum) -> Vec<Option<bool>> {
    quorum.members().await.unwrap().nodes.iter().map(|node| node.taught).collect()
}

#[tokio::test]
async fn nodes_that_know_of_no_token_teach_nothing() {
    let all = servers(4).await;
    let (old, new) = (looks(&all[..3], "typo:").connect().await.unwrap(), looks(&all[3..], "typo:").open().unwrap());
    let error = old.teach(&new).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("is the key prefix right?"), "{error}");
    old.shutdown(PATIENCE).await;
}

/// It may have another list than those whose clients dealt tokens and have gone.
#[tokio::test]
async fn who_only_looks_teaches_no_node_that_no_client_has_enrolled() {
    let all = servers(1).await;
    let onlooker = looks(&all, "it:").connect().await.unwrap();
    let guard = onlooker.lock("it").acquire(PATIENCE).await;
    assert!(guard.is_err(), "it only looks");
    // A client's first lesson comes at once.
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(taught(&onlooker).await, [Some(false)]);
    let client = of(&all, "it:").connect().await.unwrap();
    eventually("a client has taught it", async || taught(&onlooker).await == [Some(true)]).await;
    client.shutdown(PATIENCE).await;
    onlooker.shutdown(PATIENCE).await;
}
