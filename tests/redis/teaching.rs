//! Teaching new nodes by hand.

use std::time::Duration;

use quorumlock::{Quorum, QuorumBuilder};

use crate::common::eventually;
use crate::common::server::Server;
use crate::common::servers;

const SECOND: Duration = Duration::from_secs(1);

fn looks(servers: &[Server], prefix: &str) -> QuorumBuilder {
    let urls = servers.iter().map(Server::url);
    Quorum::builder().nodes(urls).max_ttl(SECOND).ttl(SECOND).key_prefix(prefix).onlooker()
}

#[tokio::test]
async fn nodes_that_know_of_no_token_teach_nothing() {
    let all = servers(4).await;
    let (old, new) = (looks(&all[..3], "typo:").connect().await.unwrap(), looks(&all[3..], "typo:").open().unwrap());
    eventually("they were told that nothing was dealt", async || {
        old.members().await.unwrap().nodes.iter().all(|node| node.taught == Some(true))
    })
    .await;
    let error = old.teach(&new).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("is the key prefix right?"), "{error}");
    old.shutdown(SECOND).await;
}
