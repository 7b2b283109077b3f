//! Which nodes and which options: the command line first, then the file, then the environment.

use std::env;
use std::time::Duration;

use quorumlock::{Quorum, QuorumBuilder};

use crate::cli::Nodes;
use crate::config::{self, File};
use crate::duration;
use crate::failure::Failure;

pub(crate) const NODES: &str = "QUORUMLOCK_NODES";
pub(crate) const MAX_TTL: &str = "QUORUMLOCK_MAX_TTL";
pub(crate) const KEY_PREFIX: &str = "QUORUMLOCK_KEY_PREFIX";

/// How to reach a quorum. No Debug: addresses may hold passwords.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub(crate) nodes: Vec<String>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_ttl: Option<Duration>,
    pub(crate) key_prefix: Option<String>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) node_timeout: Option<Duration>,
}

impl Settings {
    /// Collects them. Whether the nodes make sense is for the library to say.
    pub(crate) fn collect(given: &Nodes) -> Result<Self, Failure> {
        let file = given.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
        let environment = Self::environment()?;
        let nodes = match &given.nodes {
            Some(text) => addresses(text)?,
            None if file.has_nodes() => file.addresses()?,
            None => environment.nodes,
        };
        Ok(Self {
            nodes,
            ttl: file.ttl,
            timeout: file.timeout,
            max_ttl: given.max_ttl.or(file.max_ttl).or(environment.max_ttl),
            key_prefix: given.key_prefix.clone().or(file.key_prefix).or(environment.key_prefix),
            connect_timeout: given.connect_timeout.or(file.connect_timeout),
            node_timeout: given.node_timeout.or(file.node_timeout),
        })
    }

    /// As [`collect`](Self::collect), for those who cannot do without nodes.
    pub(crate) fn with_nodes(given: &Nodes) -> Result<Self, Failure> {
        let settings = Self::collect(given)?;
        if settings.nodes.is_empty() {
            if let Some(file) = &given.config {
                let file = file.display();
                return Err(Failure::usage(format!("{file}: it names no node; write {}", config::NODES)));
            }
            let hint = "no node is configured: use --nodes URL,URL,.. or --config FILE, or set QUORUMLOCK_NODES \
                        (to try it out: quorumlock sandbox -- sh)";
            return Err(Failure::usage(hint));
        }
        Ok(settings)
    }

    fn environment() -> Result<Self, Failure> {
        let max_ttl = variable(MAX_TTL)?.map(|text| duration::parse(&text));
        Ok(Self {
            nodes: variable(NODES)?.map(|text| addresses(&text)).transpose()?.unwrap_or_default(),
            max_ttl: max_ttl.transpose().map_err(|why| Failure::usage(format!("{MAX_TTL}: {why}")))?,
            // An empty one is set all the same, and refused by the library.
            key_prefix: text(KEY_PREFIX)?,
            ..Self::default()
        })
    }

    /// A builder with these settings.
    pub(crate) fn builder(&self) -> QuorumBuilder {
        let builder = Quorum::builder().nodes(self.nodes.iter().map(String::as_str));
        let builder = with(builder, self.ttl, QuorumBuilder::ttl);
        let builder = with(builder, self.max_ttl, QuorumBuilder::max_ttl);
        let builder = with(builder, self.key_prefix.clone(), QuorumBuilder::key_prefix);
        let builder = with(builder, self.connect_timeout, QuorumBuilder::connect_timeout);
        with(builder, self.node_timeout, QuorumBuilder::node_timeout)
    }

    /// A builder for those who acquire nothing: a `max_ttl` below the default ttl does not concern
    /// them.
    pub(crate) fn onlooker(&self) -> QuorumBuilder {
        let longest = self.max_ttl.filter(|longest| !longest.is_zero());
        with(self.builder().onlooker(), self.ttl.or(longest), QuorumBuilder::ttl)
    }

    /// The variables by which another `quorumlock` finds the same nodes. Not arguments: everybody
    /// can see those.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.replace(',', "%2C")).collect();
        let max_ttl = self.max_ttl.map(|time| (MAX_TTL, format!("{}ms", time.as_millis())));
        let key_prefix = self.key_prefix.clone().map(|prefix| (KEY_PREFIX, prefix));
        [Some((NODES, nodes.join(","))), max_ttl, key_prefix].into_iter().flatten().collect()
    }
}

fn with<T>(
    builder: QuorumBuilder,
    value: Option<T>,
    set: impl FnOnce(QuorumBuilder, T) -> QuorumBuilder,
) -> QuorumBuilder {
    match value {
        Some(value) => set(builder, value),
        None => builder,
    }
}

/// The addresses of a list. No part of it is repeated: any may be a password with a comma.
fn addresses(text: &str) -> Result<Vec<String>, Failure> {
    let addresses: Vec<_> =
        text.split(',').map(str::trim).filter(|address| !address.is_empty()).map(str::to_owned).collect();
    let lacking = addresses.iter().position(|address| !address.contains("://")).filter(|_| addresses.len() > 1);
    match lacking {
        Some(node) => Err(Failure::usage(format!(
            "node {} of {}: a node's address lacks its scheme, as in redis://eu:6379. The list is split at commas: in \
             a user or password write %2C for a comma",
            node + 1,
            addresses.len()
        ))),
        None => Ok(addresses),
    }
}

fn variable(name: &str) -> Result<Option<String>, Failure> {
    Ok(text(name)?.filter(|text| !text.is_empty()))
}

fn text(name: &str) -> Result<Option<String>, Failure> {
    match env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(Failure::usage(format!("{name} is not UTF-8"))),
    }
}
