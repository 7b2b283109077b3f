//! Builds quorums from configuration files and the environment.

use super::builder::QuorumBuilder;
use super::quorum::Quorum;
use crate::config::Config;
use crate::error::{Error, Result};

impl Config {
    /// A builder with these settings. Unset fields keep the builder's defaults. The password file
    /// is read now, and again at each connection.
    ///
    /// # Errors
    /// `Config` if user, password and address of a node contradict each other, if an environment
    /// variable that should have a password is not set, or if the password file cannot be read.
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
    /// A builder with the settings in the environment: [`Config::from_env`] lists the variables.
    /// Calls on the builder override these settings, except that [`node`](Self::node) adds to the
    /// environment's nodes.
    ///
    /// # Errors
    /// `Config` for an invalid variable, or if a password file cannot be read. If
    /// `QUORUMLOCK_NODES` is not set, the builder has no nodes yet, which is no error here.
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
    /// Connects to the nodes in the environment, with the other settings in the environment:
    /// [`Config::from_env`] lists the variables.
    ///
    /// # Errors
    /// `Config` for an invalid variable, or if `QUORUMLOCK_NODES` names no node; otherwise as
    /// [`QuorumBuilder::connect`].
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
