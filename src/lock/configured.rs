//! Quorums from settings that files and the environment have.

use super::builder::QuorumBuilder;
use super::quorum::Quorum;
use crate::config::Config;
use crate::error::{Error, Result};

impl Config {
    /// A builder with these settings. What is not set has its default. The password file is read
    /// now, and anew at each connection.
    ///
    /// # Errors
    /// `Config` for a node of which user, password and address do not go together, an environment
    /// variable of a password that is not set, and a password file that cannot be read.
    pub fn builder(&self) -> Result<QuorumBuilder> {
        let (addresses, password) = self.addresses()?;
        let nodes = self.nodes.iter().zip(addresses);
        let builder = nodes.fold(Quorum::builder().tls(self.tls()), |builder, (node, address)| match &node.name {
            Some(name) => builder.node_named(name.as_str(), address),
            None => builder.node(address),
        });
        let builder = with(builder, self.list.as_ref(), QuorumBuilder::list_name);
        let builder = with(builder, password, QuorumBuilder::credentials);
        let builder = with(builder, self.ttl, QuorumBuilder::ttl);
        let builder = with(builder, self.timeout, QuorumBuilder::wait);
        let builder = with(builder, self.max_ttl, QuorumBuilder::max_ttl);
        let builder = with(builder, self.key_prefix.as_ref(), QuorumBuilder::key_prefix);
        let builder = with(builder, self.key_format.as_ref(), QuorumBuilder::key_format);
        let builder = with(builder, self.transport, QuorumBuilder::transport);
        let builder = with(builder, self.connect_timeout, QuorumBuilder::connect_timeout);
        Ok(with(builder, self.node_timeout, QuorumBuilder::node_timeout))
    }
}

impl QuorumBuilder {
    /// The builder that the environment describes: [`Config::from_env`] lists its variables. More
    /// can be set then, and another value for what the environment sets.
    ///
    /// # Errors
    /// `Config` for a variable that makes no sense, and a password file that cannot be read.
    /// Without `QUORUMLOCK_NODES` it has no nodes yet.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// use quorumlock::QuorumBuilder;
    ///
    /// let quorum = QuorumBuilder::from_env()?.key_prefix("tests:").in_memory(3)?;
    /// # drop(quorum);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_env() -> Result<Self> {
        Config::from_env()?.builder()
    }
}

impl Quorum {
    /// Connects to the nodes that the environment names, with the options that it sets:
    /// [`Config::from_env`] lists its variables.
    ///
    /// # Errors
    /// `Config` for a variable that makes no sense, and where `QUORUMLOCK_NODES` names no node;
    /// else as [`QuorumBuilder::connect`].
    ///
    /// # Cancel safety
    /// Safe: all connections are closed.
    ///
    /// # Examples
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// // QUORUMLOCK_NODES=redis://eu:6379,redis://us:6379,redis://asia:6379
    /// let quorum = quorumlock::Quorum::from_env().await?;
    /// # drop(quorum);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn from_env() -> Result<Self> {
        let config = Config::from_env()?;
        if config.nodes.is_empty() {
            return Err(Error::config(
                "QUORUMLOCK_NODES names no node; set it to redis://host:port,redis://host:port,..",
            ));
        }
        config.builder()?.connect().await
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
