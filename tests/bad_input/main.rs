//! Bad input and bad nodes: a clear error, and nothing lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

#[path = "../common/mod.rs"]
mod common;

mod connections;
mod keys;
mod names;
mod runtimes;
mod settings;
mod strangers;
mod tls;

use std::time::{Duration, Instant};

use common::PATIENCE;
use quorumlock::{Error, QuorumBuilder};

const SECOND: Duration = Duration::from_secs(1);

fn builder(urls: &[String]) -> QuorumBuilder {
    common::builder().nodes(urls.iter().cloned()).max_ttl(Duration::ZERO).connect_timeout(PATIENCE)
}

/// Why nobody connects: in the end this, however long the machine takes to get there.
async fn refused(builder: QuorumBuilder, says: &str) -> Error {
    let began = Instant::now();
    loop {
        let error = builder.clone().connect_timeout(SECOND / 2).connect().await.unwrap_err();
        if error.to_string().contains(says) {
            return error;
        }
        assert!(began.elapsed() < PATIENCE, "{says}: {error}");
    }
}
