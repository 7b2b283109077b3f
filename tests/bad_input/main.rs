//! Bad input and bad nodes cause a clear error, and no lock is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

#[path = "../common/mod.rs"]
mod common;

mod connections;
mod keys;
mod names;
mod runtimes;
mod settings;
mod strangers;
#[cfg(feature = "__tls")]
mod tls;

use std::time::Duration;

use common::{PATIENCE, refused};
use quorumlock::QuorumBuilder;

const SECOND: Duration = Duration::from_secs(1);

fn builder(urls: &[String]) -> QuorumBuilder {
    common::builder().nodes(urls.iter().cloned()).max_ttl(Duration::ZERO).connect_timeout(PATIENCE)
}
