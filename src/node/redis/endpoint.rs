//! A node's address: parses all its forms, and shows it without user and password.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use url::{Host, ParseError, Url};

use super::tls::Tls;
use crate::error::{Error, Result};

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Tcp { host: String, port: u16, tls: bool },
    Unix { path: PathBuf },
}

/// One server's address, as [`QuorumBuilder::node`](crate::QuorumBuilder::node) accepts it.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub(super) address: Address,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: u8,
    /// The node's own TLS options. If an option is not set, the quorum's option is used.
    pub(crate) tls: Tls,
    /// The node's name in lists of nodes, if the user gave one.
    name: Option<Arc<str>>,
}

const ENCODED: &str = "percent-encode special characters of user and password: / ? # @ : , are %2F %3F %23 %40 %3A %2C";
const KNOWN: &str = "use redis://, rediss:// (TLS) or redis+unix://";
/// Errors repeat only the schemes and parameters in these two lists. Any other text may be part of
/// a password that is not percent-encoded: such a password may contain `:`, `?` or a comma.
const SCHEMES: [&str; 10] =
    ["http", "https", "redis+tls", "rediss+tls", "redis-socket", "tcp", "tls", "unix", "valkey", "valkeys"];
const PARAMETERS: [&str; 11] =
    ["ca", "cert", "database", "db", "key", "name", "password", "protocol", "server_name", "timeout", "username"];
/// The parameters that only `rediss://` addresses may have.
const TLS: [&str; 4] = ["ca", "cert", "key", "server_name"];
/// The characters that must be encoded in names, because lists separate names by spaces.
const UNNAMED: &AsciiSet = &CONTROLS.add(b' ');

impl Endpoint {
    /// Parses an address.
    ///
    /// # Errors
    /// `Config` if the address is invalid. The error never repeats the whole address, which may
    /// contain a password.
    pub fn parse(text: &str) -> Result<Self> {
        let endpoint = Self::parse_for(text)?;
        if endpoint.user.is_some() && endpoint.password.is_none() {
            return Err(Error::config(
                "a node's address has a user and no password; name a password_file (--password-file), or write user:password@host",
            ));
        }
        Ok(endpoint)
    }

    /// Like [`parse`](Self::parse), but allows a user without a password, for clients with a
    /// [`CredentialsProvider`](crate::CredentialsProvider).
    pub(crate) fn parse_for(text: &str) -> Result<Self> {
        let hosted = hosted(text.trim());
        let url = Url::parse(hosted.as_deref().unwrap_or(text.trim())).map_err(|error| no_url(text, error))?;
        match url.scheme() {
            "redis" | "rediss" => Self::tcp(&url),
            "redis+unix" if cfg!(unix) => Self::unix(&url, hosted.is_some()),
            "redis+unix" => Err(Error::config("redis+unix: there are no Unix sockets here; use redis:// or rediss://")),
            "redis-cluster" | "rediss-cluster" | "redis-sentinel" | "rediss-sentinel" => Err(Error::config(format!(
                "{}: clusters and sentinels cannot vote, since their masters change unnoticed; \
                 name independent masters ({KNOWN})",
                url.scheme()
            ))),
            other if SCHEMES.contains(&other) => {
                Err(Error::config(format!("a node's address begins with \"{other}://\", which is unknown; {KNOWN}")))
            }
            _ => Err(Error::config(format!("a node's address has an unknown scheme; {KNOWN}"))),
        }
    }

    /// Gives the node this name in lists.
    ///
    /// # Errors
    /// `Config` if the address itself contains a name, or if the name is invalid.
    pub(crate) fn named(self, name: &str) -> Result<Self> {
        match self.name {
            Some(_) => Err(Error::config("a node has two names, and one of them is in its address; give only one")),
            None => Ok(Self { name: Some(checked(name)?), ..self }),
        }
    }

    /// The node's name in lists. Default: the address without scheme, user, password and options.
    pub(crate) fn name(&self) -> Arc<str> {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let place = match &self.address {
            Address::Tcp { host, port, .. } => {
                let host = host.to_ascii_lowercase();
                let (open, close) = brackets(&host);
                format!("{open}{}{close}:{port}", host.trim_end_matches('.'))
            }
            Address::Unix { path } => utf8_percent_encode(&path.to_string_lossy(), UNNAMED).to_string(),
        };
        if self.database > 0 { format!("{place}/{}", self.database).into() } else { place.into() }
    }

    /// The name of the node at this address; `address` itself if it is invalid.
    #[cfg(feature = "unstable")]
    pub(crate) fn name_of(address: &str) -> Arc<str> {
        Self::parse_for(address).map_or_else(|_| address.into(), |endpoint| endpoint.name())
    }

    /// The same server with this login. If `user` is `None`, the user in the address stays.
    pub(super) fn entered_by(&self, user: Option<String>, password: String) -> Self {
        Self { user: user.or_else(|| self.user.clone()), password: Some(password), ..self.clone() }
    }

    /// The user and the password in the address, if any.
    pub(crate) fn login(&self) -> impl Iterator<Item = &str> {
        [&self.user, &self.password].into_iter().flatten().map(String::as_str)
    }

    pub(crate) const fn speaks_tls(&self) -> bool {
        matches!(self.address, Address::Tcp { tls: true, .. })
    }

    /// Whether the client uses TCP without TLS. If so, a failure may mean that the port expects
    /// TLS.
    pub(super) const fn speaks_plain_tcp(&self) -> bool {
        matches!(self.address, Address::Tcp { tls: false, .. })
    }

    fn tcp(url: &Url) -> Result<Self> {
        let host = match url.host() {
            // `Host::to_string` would put an IPv6 address into brackets.
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(host) => host.to_string(),
            None => {
                return Err(Error::config(format!("a {} address needs a host, as in redis://eu:6379", url.scheme())));
            }
        };
        let tls = url.scheme() == "rediss";
        refuse_query(url, if tls { &TLS } else { &[] })?;
        let address = Address::Tcp { host, port: url.port().unwrap_or(6379), tls };
        let database = database(url.path().trim_matches('/'))?;
        Self::with_credentials(url, address, database).map(|endpoint| Self { tls: tls_options(url), ..endpoint })
    }

    fn unix(url: &Url, hosted: bool) -> Result<Self> {
        refuse_query(url, &["db"])?;
        let has_host = !hosted && url.host_str().is_some_and(|host| !host.is_empty());
        if has_host || url.path().len() < 2 || !url.path().starts_with('/') {
            return Err(Error::config("a socket's path starts with a slash, as in redis+unix:///run/redis.sock"));
        }
        if url.path().contains('@') {
            return Err(Error::config(
                "a socket's path has an @: write user and password before the path, as in \
                 redis+unix://:password@/run/redis.sock, or %40 for an @ in the path",
            ));
        }
        let path = PathBuf::from(decoded(url.path())?);
        let number = url.query_pairs().find(|(key, _)| key == "db").map(|(_, value)| value.into_owned());
        Self::with_credentials(url, Address::Unix { path }, database(&number.unwrap_or_default())?)
    }

    fn with_credentials(url: &Url, address: Address, database: u8) -> Result<Self> {
        let given = |text: &str| if text.is_empty() { Ok(None) } else { decoded(text).map(Some) };
        let user = given(url.username())?;
        let password = given(url.password().unwrap_or_default())?;
        let name = url.query_pairs().find(|(key, _)| key == NAME).map(|(_, name)| checked(&name)).transpose()?;
        Ok(Self { address, user, password, database, tls: Tls::default(), name })
    }
}

/// The parameter of an address that gives the node's name in lists.
const NAME: &str = "name";

/// Checks a name for lists. The error does not repeat the name, which may be part of a password
/// that is not percent-encoded.
fn checked(name: &str) -> Result<Arc<str>> {
    let fits = (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
    match fits {
        true => Ok(name.into()),
        false => Err(Error::config("a node's name must have 1 to 64 printable ASCII characters and no space")),
    }
}

/// The brackets around an IPv6 address; empty for other hosts.
fn brackets(host: &str) -> (&'static str, &'static str) {
    if host.contains(':') { ("[", "]") } else { ("", "") }
}

fn tls_options(url: &Url) -> Tls {
    url.query_pairs().fold(Tls::new(), |tls, (key, value)| match &*key {
        "ca" => tls.ca_file(&*value),
        "cert" => tls.certificate_file(&*value),
        "key" => tls.key_file(&*value),
        "server_name" => tls.server_name(value),
        _ => tls,
    })
}

/// If the address of a Unix socket has a user or password, adds a dummy host: a URL without a host
/// cannot have a user.
fn hosted(text: &str) -> Option<String> {
    let (credentials, path) = text.strip_prefix("redis+unix://")?.split_once("@/")?;
    (!credentials.contains('/')).then(|| format!("redis+unix://{credentials}@socket/{path}"))
}

fn no_url(text: &str, error: ParseError) -> Error {
    let why = match error {
        ParseError::RelativeUrlWithoutBase => "lacks its scheme, as in redis://eu:6379".to_owned(),
        error if text.contains('@') => format!("is no URL ({error}); {ENCODED}"),
        error => format!("is no URL ({error})"),
    };
    Error::config(format!("a node's address {why}; {KNOWN}"))
}

fn refuse_query(url: &Url, known: &[&str]) -> Result<()> {
    let shown = |key: &str| if PARAMETERS.contains(&key) { format!(" {key:?}") } else { String::new() };
    match url.query_pairs().find(|(key, _)| key != NAME && !known.contains(&&**key)) {
        Some((key, _)) => Err(Error::config(format!(
            "a node's address has an unknown parameter{}; remove it{}, or {ENCODED}",
            shown(&key),
            if TLS.contains(&&*key) { " or write rediss://" } else { "" }
        ))),
        None if url.fragment().is_some() => {
            Err(Error::config(format!("a node's address has a fragment (#...); {ENCODED}")))
        }
        None => Ok(()),
    }
}

fn database(text: &str) -> Result<u8> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        Error::config(format!(
            "a node's address has a path that is no number of a database; use 0 to 255, or {ENCODED}"
        ))
    })
}

fn decoded(text: &str) -> Result<String> {
    percent_encoding::percent_decode_str(text)
        .decode_utf8()
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| Error::config("a node's address is not UTF-8 after percent-decoding"))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp { host, port, tls } => {
                let scheme = if *tls { "rediss" } else { "redis" };
                let (open, close) = brackets(host);
                write!(f, "{scheme}://{open}{host}{close}:{port}")?;
                if self.database > 0 { write!(f, "/{}", self.database) } else { Ok(()) }
            }
            Address::Unix { path } => {
                write!(f, "redis+unix://{}", path.display())?;
                if self.database > 0 { write!(f, "?db={}", self.database) } else { Ok(()) }
            }
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Endpoint::parse(text).map_or_else(|error| error.to_string(), |endpoint| endpoint.to_string())
    }

    #[test]
    fn addresses_are_read_and_shown_without_user_and_password() {
        assert_eq!(shown("redis://eu"), "redis://eu:6379");
        assert_eq!(shown("rediss://user:p%40ss@us:6380/2"), "rediss://us:6380/2");
        assert_eq!(shown("redis://[::1]:7000"), "redis://[::1]:7000");
        assert_eq!(shown("redis+unix:///run/redis.sock?db=3"), "redis+unix:///run/redis.sock?db=3");
        assert_eq!(shown("redis+unix:///s"), "redis+unix:///s");
        assert_eq!(shown("redis+unix://user:p%40ss@/run/s?db=3"), "redis+unix:///run/s?db=3");
    }

    #[test]
    fn passwords_are_decoded_and_never_shown() {
        let endpoint = Endpoint::parse("redis://:s%3Acret@eu").unwrap();
        assert_eq!(endpoint.password.as_deref(), Some("s:cret"));
        let socket = Endpoint::parse("redis+unix://:s%3Acret@/run/a%40b").unwrap();
        assert_eq!(
            (socket.password.as_deref(), socket.to_string()),
            (Some("s:cret"), "redis+unix:///run/a@b".to_owned())
        );
        assert_eq!(format!("{endpoint:?} {endpoint}"), "Endpoint(redis://eu:6379) redis://eu:6379");
    }

    #[test]
    fn an_address_may_say_how_its_server_speaks_tls() {
        let endpoint =
            Endpoint::parse("rediss://eu:6380/1?ca=/etc/a%20b.pem&cert=c&key=k&server_name=redis.eu").unwrap();
        let tls = Tls::new().ca_file("/etc/a b.pem").client_certificate("c", "k").server_name("redis.eu");
        assert_eq!((endpoint.to_string().as_str(), &endpoint.tls), ("rediss://eu:6380/1", &tls));
        assert!(shown("redis://eu?ca=/etc/ca.pem").contains("remove it or write rediss://"));
        assert!(shown("rediss://eu?timeout=1").contains("an unknown parameter \"timeout\""));
    }

    #[test]
    fn a_nodes_name_is_its_own_or_its_address_alone() {
        let name = |text: &str| Endpoint::parse(text).unwrap().name().to_string();
        for (address, expected) in [
            ("redis://EU.example.", "eu.example:6379"),
            ("rediss://user:pw@eu:6380/2?ca=/ca.pem", "eu:6380/2"),
            ("redis://[::1]/0", "[::1]:6379"),
            ("redis+unix:///run/my%20redis.sock", "/run/my%20redis.sock"),
            ("redis+unix:///run/redis.sock?db=3", "/run/redis.sock/3"),
            ("redis://eu?name=one", "one"),
            ("rediss://eu?name=one&server_name=redis.eu", "one"),
            ("redis+unix:///run/redis.sock?name=one&db=3", "one"),
        ] {
            assert_eq!(name(address), expected, "{address}");
        }
        assert_eq!(shown("redis://eu?name=one"), "redis://eu:6379", "the name is not shown");
        let endpoint = |text: &str| Endpoint::parse(text).unwrap();
        assert_eq!(&*endpoint("redis://eu").named("one").unwrap().name(), "one");
        assert!(endpoint("redis://eu?name=one").named("two").unwrap_err().to_string().contains("give only one"));
        for bad in ["redis://eu?name=", "redis://eu?name=a%20b", "redis://eu?name=%C3%A4"] {
            assert!(shown(bad).contains("a node's name must have 1 to 64"), "{bad}");
        }
    }

    #[test]
    fn malformed_address_is_refused_with_the_right_form() {
        for (text, hint) in [
            ("http://eu", "begins with \"http://\", which is unknown; use redis://"),
            ("127.0.0.1:6379", "lacks its scheme, as in redis://"),
            ("redis+tls://eu", "begins with \"redis+tls://\""),
            ("redis-cluster://eu", "independent masters"),
            ("redis-sentinel://eu", "independent masters"),
            ("eu:6379", "use redis://"),
            ("", "lacks its scheme"),
            ("redis://", "host"),
            ("redis://eu/first", "a path that is no number of a database"),
            ("redis://eu/256", "use 0 to 255"),
            ("redis://eu?timeout=3", "an unknown parameter \"timeout\""),
            ("redis://user@eu", "no password"),
            ("redis+unix://run/redis.sock", "starts with a slash"),
            ("redis+unix:///", "starts with a slash"),
            ("redis+unix:run/redis.sock", "starts with a slash"),
            ("redis+unix://:password@/", "starts with a slash"),
            ("redis+unix://:password@host/run/redis.sock", "starts with a slash"),
            ("redis+unix://user@/run/redis.sock", "no password"),
            ("redis://eu#2", "# @ : , are %2F %3F %23"),
            ("redis://:pass/word@eu", "is no URL (empty host); percent-encode"),
        ] {
            let said = shown(text);
            assert!(said.contains(hint), "{text}: {said}");
        }
    }

    #[test]
    fn an_address_that_is_refused_does_not_show_its_password() {
        for text in [
            "http://u:secret@eu",
            "redis://u:secret@eu/x",
            "redis://u:secret@",
            "redis://u:secret@eu?a=b",
            "redis://u:12/secret@eu:1",
            "redis://u:/secret@eu:1",
            "redis://u:12?secret=1@eu",
            "redis://u:12#secret@eu",
            "secret:foo@eu:1",
            "redis+unix:///run/u:secret@y",
            "redis+unix://u:secret@/run/s?secret=1",
            "redis+unix://u:secret@/run/s@y",
            "redis+unix://u:/secret@/run/s",
            // These have no @: the host is missing, or a list was split at a comma in a password.
            "redis://us:/secret",
            "redis://us:12/secret",
            "redis://us:?secret",
            "redis://us:1?secret=1",
            "redis://us?secret://eu",
            "redis://us?name=secret%20",
            "redis+unix:///run/s?secret",
            "redis+unix:///run/s?db=secret",
            "secret://127.0.0.1",
            "secret",
        ] {
            let said = shown(text);
            assert!(!said.contains("secret"), "{text}: {said}");
        }
    }
}
