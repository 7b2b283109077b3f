//! The settings of a quorum, and the names of its locks on the nodes.

use std::sync::Arc;
use std::time::Duration;

use super::checks::{Rules, labelled, require, too_long};
use super::options::LockOptions;
use super::{MAX_NODES, MAX_TTL, SECOND};
use crate::error::{Error, Result};
use crate::node::Name;
use crate::node::redis::{CredentialsProvider, Endpoint, NO_TLS, Tls, Transport};
use crate::words::exact;

/// The placeholder for the name in a key format.
const NAME: &str = "{name}";

/// A configured node. Not `Debug`: its address may hold a password.
#[derive(Clone)]
pub(crate) struct NodeAddress {
    /// The node's name in the list, if the name is set separately from the address.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) address: String,
}

impl NodeAddress {
    pub(crate) const fn unnamed(address: String) -> Self {
        Self { name: None, address }
    }
}

/// The settings of a quorum, as in `QuorumBuilder`. Not `Debug`: addresses may hold passwords.
#[derive(Clone)]
pub(crate) struct Settings {
    /// The quorum's name in metrics and traces.
    pub(crate) quorum: Arc<str>,
    pub(crate) list: String,
    pub(crate) nodes: Vec<NodeAddress>,
    pub(crate) options: LockOptions,
    pub(crate) prefix: String,
    pub(crate) key_format: Option<String>,
    pub(crate) client_name: String,
    pub(crate) max_ttl: Duration,
    pub(crate) transport: Transport,
    pub(crate) tls: Tls,
    pub(crate) credentials: Option<Arc<dyn CredentialsProvider>>,
    pub(crate) node_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) max_callers: usize,
    pub(crate) onlooker: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            quorum: "default".into(),
            list: "default".to_owned(),
            nodes: Vec::new(),
            options: LockOptions::default(),
            prefix: "quorumlock:".to_owned(),
            key_format: None,
            client_name: "quorumlock".to_owned(),
            max_ttl: 60 * SECOND,
            transport: Transport::default(),
            tls: Tls::default(),
            credentials: None,
            node_timeout: 2 * SECOND,
            connect_timeout: 15 * SECOND,
            max_callers: 65_536,
            onlooker: false,
        }
    }
}

impl Settings {
    /// Checks everything except the addresses.
    pub(crate) fn checked(&self) -> Result<Rules> {
        labelled("the name of a quorum", &self.quorum, 64)?;
        require(printable(&self.list), || {
            "the name of a list must have 1 to 64 printable ASCII characters and no space".to_owned()
        })?;
        require(!self.prefix.is_empty(), || {
            "key_prefix is empty; name one, such as \"quorumlock:\", so that no other program's keys are in the way"
                .to_owned()
        })?;
        require(self.prefix.len() <= 128 && !self.prefix.contains(['{', '}', '\0']), || {
            "key_prefix must have at most 128 bytes, and none of { } NUL".to_owned()
        })?;
        self.key_format.as_deref().map_or(Ok(()), checked_format)?;
        require(printable(&self.client_name), || {
            "client_name must have 1 to 64 printable ASCII characters and no space, since CLIENT SETNAME accepts no other characters".to_owned()
        })?;
        let millisecond = Duration::from_millis(1);
        require((millisecond..=60 * SECOND).contains(&self.node_timeout), || {
            format!("node_timeout is {}; use 1 ms to 60 s", exact(self.node_timeout))
        })?;
        require(!self.connect_timeout.is_zero(), || "connect_timeout is zero; use some seconds".to_owned())?;
        require(self.max_ttl <= MAX_TTL, || too_long("max_ttl", self.max_ttl))?;
        require(self.max_callers > 0, || "max_callers is zero; use at least 1".to_owned())?;
        self.options.checked(self.max_ttl)
    }

    /// The name on the nodes for the caller's name `text`.
    pub(crate) fn name(&self, text: &str) -> Result<Name> {
        match &self.key_format {
            Some(format) if !text.is_empty() => Name::new(&self.prefix, &format.replacen(NAME, text, 1)),
            _ => Name::new(&self.prefix, text),
        }
    }

    /// The name on the nodes for a text that `key_format` has formatted already.
    pub(crate) fn formatted(&self, text: &str) -> Result<Name> {
        Name::new(&self.prefix, text)
    }

    /// The reverse of `name`: the caller's name. `None` if `text` does not fit the key format.
    pub(crate) fn told(&self, text: &Arc<str>) -> Option<Arc<str>> {
        let Some(format) = &self.key_format else { return Some(text.clone()) };
        let (before, after) = format.split_once(NAME)?;
        let text = text.strip_prefix(before)?.strip_suffix(after)?;
        (!text.is_empty()).then(|| text.into())
    }

    /// Parses a node's address. TLS options that the address does not set are those of the quorum.
    /// TLS files are read here, so that mistakes in them are reported before anything is sent.
    fn endpoint(&self, node: &NodeAddress) -> Result<Endpoint> {
        let NodeAddress { name, address } = node;
        let endpoint = match self.credentials {
            Some(_) => Endpoint::parse_for(address)?,
            None => Endpoint::parse(address)?,
        };
        let mut endpoint = match name {
            Some(name) => endpoint.named(name)?,
            None => endpoint,
        };
        let takes = endpoint.login().try_for_each(|text| self.transport.takes(text));
        takes.map_err(|why| Error::config(format!("{endpoint}: {why}")))?;
        endpoint.tls = endpoint.tls.or(&self.tls);
        if endpoint.speaks_tls() {
            endpoint.tls.checked().map_err(|why| Error::config(format!("{endpoint}: {why}")))?;
        }
        Ok(endpoint)
    }

    pub(crate) fn endpoints(&self) -> Result<Vec<Endpoint>> {
        let count = self.nodes.len();
        require(count > 0, || "no node is configured; name at least one, or better three or five".to_owned())?;
        require(count <= MAX_NODES, || format!("{count} nodes are configured; use at most {MAX_NODES}"))?;
        let read = |(index, node): (usize, &NodeAddress)| {
            let endpoint = self.endpoint(node);
            endpoint.map_err(|error| Error::config(format!("node {} of {count}: {error}", index + 1)))
        };
        let endpoints = self.nodes.iter().enumerate().map(read).collect::<Result<Vec<_>>>()?;
        for (index, endpoint) in endpoints.iter().enumerate() {
            let again = endpoints[..index].iter().any(|other| other.to_string() == endpoint.to_string());
            require(!again, || format!("the node {endpoint} is configured twice; name each server once"))?;
            let name = endpoint.name();
            let same = endpoints[..index].iter().find(|other| other.name() == name);
            same.map_or(Ok(()), |same| {
                let message = format!("the nodes {same} and {endpoint} have one name, {name}; give each its own name");
                Err(Error::config(message))
            })?;
        }
        require(!self.tls.is_set() || cfg!(feature = "__tls"), || format!("TLS options are set, but {NO_TLS}"))?;
        require(!self.tls.is_set() || endpoints.iter().any(Endpoint::speaks_tls), || {
            "TLS options are set, but no node's address begins with rediss://; write rediss:// for nodes that speak TLS, or \
             remove the options"
                .to_owned()
        })?;
        if count.is_multiple_of(2) {
            tracing::warn!(nodes = count, "an even number of nodes tolerates no more failures than one node fewer");
        }
        Ok(endpoints)
    }
}

/// Whether a text can be the name of a list or of a client: 1 to 64 visible ASCII characters.
fn printable(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Checks a key format. The text around the name is fixed, so different names get different keys.
fn checked_format(format: &str) -> Result<()> {
    require(format.matches(NAME).count() == 1, || {
        format!("key_format must have {NAME} in it, once, as in \"tenant/{NAME}\"")
    })?;
    let around = format.replacen(NAME, "", 1);
    require(around.len() <= 512 && !around.contains(['{', '}', '\0']), || {
        format!("key_format must have at most 512 bytes, and none of {{ }} NUL except in {NAME}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn settings(addresses: &[&str]) -> Settings {
        let nodes = addresses.iter().map(|&address| NodeAddress::unnamed(address.to_owned())).collect();
        Settings { nodes, ..Settings::default() }
    }

    #[test]
    fn node_list_that_is_empty_or_has_a_duplicate_is_refused() {
        assert!(settings(&[]).endpoints().unwrap_err().to_string().contains("no node"));
        let twice = settings(&["redis://eu", "redis://us", "redis://:pw@eu:6379"]).endpoints().unwrap_err();
        assert_eq!(twice.to_string(), "the node redis://eu:6379 is configured twice; name each server once");
        assert_eq!(settings(&["redis://eu", "redis://us"]).endpoints().unwrap().len(), 2);
    }

    #[cfg(not(feature = "__tls"))]
    #[test]
    fn rediss_address_and_tls_options_are_refused_without_tls() {
        let said = settings(&["redis://eu", "rediss://:secret@us"]).endpoints().unwrap_err();
        assert_eq!(said.to_string(), format!("node 2 of 2: rediss://us:6379: {NO_TLS}"));
        let options = Settings { tls: Tls::new().server_name("eu"), ..settings(&["redis://eu"]) };
        let said = options.endpoints().unwrap_err();
        assert!(said.is_config() && said.to_string().contains("turn on its feature tls"), "{said}");
    }

    #[cfg(feature = "__tls")]
    #[test]
    fn nodes_that_share_a_name_are_refused() {
        let same = settings(&["redis://eu?name=a", "redis://us", "rediss://asia?name=a"]).endpoints().unwrap_err();
        let said = "the nodes redis://eu:6379 and rediss://asia:6379 have one name, a; give each its own name";
        assert_eq!(same.to_string(), said);
        let mut named = settings(&["redis://eu", "rediss://eu"]);
        assert!(named.endpoints().unwrap_err().to_string().contains("one name, eu:6379"));
        named.nodes[1].name = Some("b".into());
        let names: Vec<_> = named.endpoints().unwrap().iter().map(|endpoint| endpoint.name().to_string()).collect();
        assert_eq!(names, ["eu:6379", "b"]);
    }

    #[test]
    fn quorum_settings_are_checked_by_name() {
        let check = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.checked().unwrap_err().to_string()
        };
        assert!(check(|settings| settings.prefix = "a{b".into()).contains("key_prefix"));
        assert!(check(|settings| settings.prefix = String::new()).contains("key_prefix is empty"));
        for (format, says) in [
            ("", "key_format must have {name} in it"),
            ("tenant", "as in \"tenant/{name}\""),
            ("{name}/{name}", "once"),
            ("{tenant}/{name}", "none of { } NUL"),
            ("{{name}}", "none of { } NUL"),
            ("a\0{name}", "none of { } NUL"),
        ] {
            let settings = Settings { key_format: Some(format.to_owned()), ..Settings::default() };
            let said = settings.checked().unwrap_err().to_string();
            assert!(said.contains(says), "{format}: {said}");
        }
        assert!(check(|settings| settings.quorum = "".into()).contains("the name of a quorum must have 1 to 64"));
        assert!(check(|settings| settings.quorum = "eu\"".into()).contains("the name of a quorum"));
        assert!(check(|settings| settings.list = "a b".into()).contains("the name of a list must have 1 to 64"));
        assert!(check(|settings| settings.key_format = Some(format!("{}{{name}}", "x".repeat(513)))).contains("512"));
        assert!(check(|settings| settings.client_name = "a b".into()).contains("client_name"));
        assert!(check(|settings| settings.node_timeout = Duration::ZERO).contains("node_timeout"));
        assert!(check(|settings| settings.connect_timeout = Duration::ZERO).contains("connect_timeout"));
        assert!(check(|settings| settings.max_ttl = Duration::MAX).contains("max_ttl"));
        assert!(check(|settings| settings.max_ttl = MAX_TTL + MS).contains("use at most 24 h"));
        assert!(check(|settings| settings.max_ttl = SECOND).contains("ttl is 30 s, above max_ttl"));
        assert!(check(|settings| settings.max_callers = 0).contains("max_callers"));
    }

    #[test]
    fn key_format_keeps_names_apart_and_bad_names_refused() {
        let settings = |format: &str| Settings { key_format: Some(format.to_owned()), ..Settings::default() };
        let tenant = settings("tenant/{name}/lock");
        tenant.checked().unwrap();
        for (name, key) in [("a", "quorumlock:{tenant/a/lock}"), ("{name}", "quorumlock:{tenant/{name}/lock}")] {
            assert_eq!(&**tenant.name(name).unwrap().key(), key);
        }
        assert!(tenant.name("").unwrap_err().to_string().contains("name is empty"));
        assert!(tenant.name("a\0").unwrap_err().to_string().contains("NUL"));
        assert!(tenant.name(&"x".repeat(1_020)).unwrap_err().to_string().contains("use at most 1024"));
        assert_eq!(settings("{name}").name("a").unwrap(), Settings::default().name("a").unwrap());
    }

    #[test]
    fn name_is_recovered_only_from_its_own_key_format() {
        let tenant = Settings { key_format: Some("tenant/{name}/lock".to_owned()), ..Settings::default() };
        for name in ["a", "{name}", "/", "tenant/a/lock"] {
            for settings in [&tenant, &Settings::default()] {
                assert_eq!(settings.told(settings.name(name).unwrap().text()).as_deref(), Some(name));
            }
        }
        for other in ["tenant//lock", "tenant/lock", "tenant/a", "a/lock", "other/a/lock"] {
            assert_eq!(tenant.told(&other.into()), None, "{other}");
        }
    }
}
