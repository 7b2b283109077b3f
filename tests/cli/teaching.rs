//! `quorumlock members teach` while clients of the old nodes run.

use super::{Background, done, over, run, until};
use crate::common::servers;

#[tokio::test]
async fn while_clients_run_it_says_how_long_after_the_last_to_ask_again() {
    let (servers, folder) = (servers(4).await, tempfile::tempdir().unwrap());
    let _client = Background::start(&mut run(&servers[..3], "job", &["--ttl", "5s"], "exec sleep 1000", folder.path()));
    until("what is left of its entries is less than they last", || {
        let lasts = servers[0].command(&["PTTL", "quorumlock:node:roster"]).parse().unwrap_or(0);
        (1..24_000).contains(&lasts)
    });
    let (code, _, err) = done(over(&servers[..3]).args(["members", "teach", &servers[3].url()]));
    assert!(code == 69 && err.contains("ask again 25s after the last has stopped"), "{err}");
}
