//! The settings of a quorum as data.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::addresses::{Parts, split};
use super::password::PasswordFile as Named;
use super::password_file::PasswordFile;
use crate::error::{Error, Result};
use crate::node::redis::{Tls, Transport};

/// The settings of a quorum as data, from the environment or, with the feature `serde`, a file.
///
/// Unset fields keep the defaults of [`QuorumBuilder`](crate::QuorumBuilder). With `serde`, every
/// field may be left out, and unknown fields are refused. Times are texts with their unit:
/// `"500ms"`, `"30s"`, `"1.5m"`, `"2h"`. The `quorumlock` command's configuration file has the same
/// fields. You choose the file's format and the parser, whose errors may quote passwords.
///
/// [`Debug`] does not show passwords.
///
/// # Examples
/// ```
/// # #[cfg(feature = "serde")]
/// # {
/// let file = r#"{
///     "ttl": "10s",
///     "timeout": "2s",
///     "nodes": [
///         { "name": "eu", "url": "rediss://eu:6380", "user": "locks", "password": "secret" },
///         { "name": "us", "url": "redis://us:6379" }
///     ]
/// }"#;
/// let config: quorumlock::Config = serde_json::from_str(file).unwrap();
/// let builder = config.builder().unwrap(); // .connect().await
/// # drop(builder);
/// # }
/// ```
#[derive(Clone, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct Config {
    /// The nodes.
    pub nodes: Vec<NodeConfig>,
    /// See [`QuorumBuilder::list_name`](crate::QuorumBuilder::list_name).
    pub list: Option<String>,
    /// A file whose first line is the password of all nodes that have no password of their own. The
    /// file is read at each connection; a pipe is read only once. A relative path starts in the
    /// working directory, or in the folder that [`relative_to`](Self::relative_to) sets.
    pub password_file: Option<PathBuf>,
    /// See [`Tls::ca_file`]. A relative path starts as for `password_file`.
    pub tls_ca: Option<PathBuf>,
    /// The first file of [`Tls::client_certificate`].
    pub tls_cert: Option<PathBuf>,
    /// The second file of [`Tls::client_certificate`].
    pub tls_key: Option<PathBuf>,
    /// See [`Tls::server_name`].
    pub tls_server_name: Option<String>,
    /// See [`LockOptions::ttl`](crate::LockOptions::ttl).
    #[cfg_attr(feature = "serde", serde(deserialize_with = "super::quoted::time"))]
    pub ttl: Option<Duration>,
    /// See [`LockOptions::wait`](crate::LockOptions::wait).
    #[cfg_attr(feature = "serde", serde(deserialize_with = "super::quoted::time"))]
    pub timeout: Option<Duration>,
    /// See [`QuorumBuilder::max_ttl`](crate::QuorumBuilder::max_ttl).
    #[cfg_attr(feature = "serde", serde(deserialize_with = "super::quoted::time"))]
    pub max_ttl: Option<Duration>,
    /// See [`QuorumBuilder::key_prefix`](crate::QuorumBuilder::key_prefix).
    pub key_prefix: Option<String>,
    /// See [`QuorumBuilder::key_format`](crate::QuorumBuilder::key_format).
    pub key_format: Option<String>,
    /// See [`QuorumBuilder::connect_timeout`](crate::QuorumBuilder::connect_timeout).
    #[cfg_attr(feature = "serde", serde(deserialize_with = "super::quoted::time"))]
    pub connect_timeout: Option<Duration>,
    /// See [`QuorumBuilder::node_timeout`](crate::QuorumBuilder::node_timeout).
    #[cfg_attr(feature = "serde", serde(deserialize_with = "super::quoted::time"))]
    pub node_timeout: Option<Duration>,
    /// See [`QuorumBuilder::transport`](crate::QuorumBuilder::transport): `"fred"` or `"redis-rs"`.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "super::quoted::transport"))]
    pub transport: Option<Transport>,
    /// Where relative paths start.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) folder: PathBuf,
    /// The environment variable that set `password_file`, for errors; `None` if no variable did.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) password_by: Option<&'static str>,
}

/// One node of a [`Config`].
#[derive(Clone, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(deny_unknown_fields, expecting = "a node with its url, as in redis://host:port")
)]
#[non_exhaustive]
pub struct NodeConfig {
    /// The node's name in the list: see
    /// [`QuorumBuilder::node_named`](crate::QuorumBuilder::node_named).
    pub name: Option<String>,
    /// The node's [address](crate::QuorumBuilder::node). User and password may be in the address,
    /// percent-encoded, or in the fields below, not encoded.
    pub url: String,
    /// The user.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// The environment variable that holds the password.
    pub password_env: Option<String>,
}

impl NodeConfig {
    /// The node at this [address](crate::QuorumBuilder::node).
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    fn joined(&self, later: bool) -> Result<String, String> {
        let Self { url, user, password, password_env, .. } = self;
        let (user, password, password_env) = (user.as_deref(), password.as_deref(), password_env.as_deref());
        Parts { url, user, password, password_env }.joined(|name| std::env::var(name).ok(), later)
    }
}

impl Config {
    /// The nodes at the addresses in `list`, which are separated by commas:
    /// `redis://eu:6379,redis://us:6379`. In a user or password, `%2C` is a comma.
    ///
    /// # Errors
    /// `Config` if `list` has several addresses, and one has no scheme. Other mistakes are reported
    /// when the quorum connects.
    pub fn from_urls(list: &str) -> Result<Self> {
        let nodes = split(list).map_err(Error::config)?.into_iter().map(NodeConfig::new).collect();
        Ok(Self { nodes, ..Self::default() })
    }

    /// Lets a relative `password_file`, `tls_ca`, `tls_cert` or `tls_key` start at `folder`, such
    /// as the folder of the configuration file.
    #[must_use]
    pub fn relative_to(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = folder.into();
        self
    }

    /// The TLS options of all nodes.
    pub(crate) fn tls(&self) -> Tls {
        let file = |path: &PathBuf| self.folder.join(path);
        let tls = self.tls_ca.iter().fold(Tls::new(), |tls, path| tls.ca_file(file(path)));
        let tls = self.tls_cert.iter().fold(tls, |tls, path| tls.certificate_file(file(path)));
        let tls = self.tls_key.iter().fold(tls, |tls, path| tls.key_file(file(path)));
        self.tls_server_name.iter().fold(tls, |tls, name| tls.server_name(name))
    }

    /// The nodes' addresses, and the password file for the addresses without a password. A pipe can
    /// be read only once: if the file is a pipe, this function puts its password into these
    /// addresses, and returns no file.
    pub(crate) fn addresses(&self) -> Result<(Vec<String>, Option<PasswordFile>)> {
        let joined = |(node, number): (&NodeConfig, u32)| {
            let address = node.joined(self.password_file.is_some());
            address.map_err(|why| Error::config(format!("node {number}: {why}")))
        };
        let addresses: Vec<_> = self.nodes.iter().zip(1..).map(joined).collect::<Result<_>>()?;
        let Some(path) = &self.password_file else { return Ok((addresses, None)) };
        let file = Named::new(self.password_by.unwrap_or("password_file"), path, &self.folder);
        let password = file.read().map_err(Error::config)?;
        match file.is_regular() {
            true => self.taken(&file).map(|()| (addresses, Some(PasswordFile::of(file)))),
            false => Ok((addresses.iter().map(|address| password.within(address)).collect(), None)),
        }
    }

    /// Checks that the transport can send the password that is in the file now.
    fn taken(&self, file: &Named) -> Result<()> {
        let takes = self.transport.unwrap_or_default().takes(&file.line().map_err(Error::config)?);
        takes.map_err(|why| Error::config(format!("{}: {why}", file.by())))
    }
}

impl fmt::Debug for Config {
    /// Shows only the number of nodes, because nodes may have passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("nodes", &self.nodes.len())
            .field("list", &self.list)
            .field("ttl", &self.ttl)
            .field("timeout", &self.timeout)
            .field("max_ttl", &self.max_ttl)
            .field("key_prefix", &self.key_prefix)
            .field("key_format", &self.key_format)
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for NodeConfig {
    /// Shows nothing: each field may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeConfig").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::redis::{Credentials, CredentialsProvider};

    fn with(nodes: impl IntoIterator<Item = NodeConfig>) -> Config {
        Config { nodes: nodes.into_iter().collect(), ..Config::default() }
    }

    fn node(user: Option<&str>, password: Option<&str>, password_env: Option<&str>) -> NodeConfig {
        let (user, password, password_env) =
            (user.map(str::to_owned), password.map(str::to_owned), password_env.map(str::to_owned));
        NodeConfig { user, password, password_env, ..NodeConfig::new("rediss://eu:6380/2") }
    }

    fn refused(config: &Config) -> String {
        let error = config.addresses().unwrap_err();
        assert!(error.is_config() && !error.to_string().contains("secret"), "{error}");
        error.to_string()
    }

    #[test]
    fn users_and_passwords_are_encoded_into_addresses() {
        let address = |node| with([node]).addresses().unwrap().0.remove(0);
        assert_eq!(address(node(Some("a b"), Some("c"), None)), "rediss://a%20b:c@eu:6380/2");
        assert_eq!(address(node(None, Some("p@ss/w:rd"), None)), "rediss://:p%40ss%2Fw%3Ard@eu:6380/2");
        assert_eq!(address(node(None, None, None)), "rediss://eu:6380/2");
    }

    #[test]
    fn nodes_that_make_no_sense_are_refused_by_their_number() {
        let good = || NodeConfig::new("redis://us");
        for (bad, says) in [
            (node(Some("secret"), None, None), "node 2: user without password"),
            (node(None, Some("secret"), Some("UNSET_ANYWHERE")), "node 2: give password or password_env, not both"),
            (node(None, None, Some("UNSET_ANYWHERE")), "UNSET_ANYWHERE (password_env) is not set"),
            (node(None, None, Some("secret")), "node 2: the environment variable that password_env names is not set"),
            (NodeConfig { url: "secret".into(), ..node(None, Some("a"), None) }, "its url has no scheme"),
            (NodeConfig { url: "redis://:secret@eu".into(), ..node(None, Some("a"), None) }, "give them once"),
        ] {
            let said = refused(&with([good(), bad]));
            assert!(said.contains(says), "{said}");
        }
        assert!(Config::from_urls("redis://eu,secret").unwrap_err().to_string().contains("node 2 of 2"));
    }

    #[test]
    fn password_that_fred_cannot_send_is_refused_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("password"), "secret word").unwrap();
        let file = Config { password_file: Some("password".into()), ..with([node(Some("a"), None, None)]) };
        let said = refused(&file.relative_to(folder.path()));
        assert!(said.starts_with("password_file: fred cannot send") && !said.contains("secret"), "{said}");
    }

    #[tokio::test]
    async fn password_file_serves_nodes_without_their_own_password() {
        let folder = tempfile::TempDir::new().unwrap();
        std::fs::write(folder.path().join("password"), "p@ss\n").unwrap();
        let own = NodeConfig::new("redis://:own@us");
        let config = Config { password_file: Some("password".into()), ..with([node(Some("a"), None, None), own]) };
        let (addresses, file) = config.clone().relative_to(folder.path()).addresses().unwrap();
        assert_eq!(addresses, ["rediss://a:@eu:6380/2", "redis://:own@us"]);
        let file = file.unwrap();
        assert_eq!(file.fetch("eu").await.unwrap(), Credentials::password("p@ss"));
        std::fs::write(folder.path().join("password"), "another\n").unwrap();
        assert_eq!(file.fetch("eu").await.unwrap(), Credentials::password("another"));
        assert!(refused(&config.relative_to("/nowhere")).starts_with("password_file: "));
    }

    #[test]
    fn debug_output_of_the_config_shows_no_password() {
        let config =
            with([node(Some("secret"), Some("secret"), Some("secret")), NodeConfig::new("redis://:secret@eu")]);
        assert_eq!(format!("{:?}", config.nodes), "[NodeConfig { .. }, NodeConfig { .. }]");
        let config = Config { password_file: Some("secret".into()), ..config };
        assert!(!format!("{config:?}").contains("secret"));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn configuration_deserializes_and_errors_are_explained() {
        let read = |text: &str| serde_json::from_str::<Config>(text).map_err(|error| error.to_string());
        let text = r#"{"ttl": "1.5m", "key_prefix": "app:", "transport": "fred", "list": "app",
            "nodes": [{"name": "eu", "url": "redis://eu"}]}"#;
        let config = read(text).unwrap();
        assert_eq!((config.list.as_deref(), config.nodes[0].name.as_deref()), (Some("app"), Some("eu")));
        assert_eq!(config.transport, Some(Transport::Fred));
        assert_eq!((config.ttl, config.key_prefix.as_deref()), (Some(Duration::from_secs(90)), Some("app:")));
        assert_eq!(config.addresses().unwrap().0, ["redis://eu"]);
        assert!(read("{}").unwrap().nodes.is_empty());
        for (text, says) in [
            (r#"{"ttll": "1s"}"#, "unknown field `ttll`"),
            (r#"{"ttl": 30}"#, "the time in quotes and with its unit"),
            (r#"{"ttl": "secret"}"#, "not a duration; write 500ms"),
            (r#"{"transport": "secret"}"#, "no transport has that name; use fred or redis-rs"),
            (r#"{"nodes": ["redis://:secret@eu"]}"#, "a node with its url, as in redis://host:port"),
            (r#"{"nodes": [{"user": "secret"}]}"#, "missing field `url`"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(says), "{said}");
        }
    }
}
