//! A node's address: where the node is, and how to log in. The library has already checked all
//! addresses, and rejected invalid addresses.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use url::Url;

use crate::failure::Failure;
use crate::tls::Tls;

/// How a node is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp { host: String, port: u16, tls: bool },
    Unix(PathBuf),
}

/// A node's address. This type has no `Debug`, because an address may contain a password.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) place: Place,
    user: Option<String>,
    password: Option<String>,
    database: String,
    pub(crate) tls: Tls,
}

impl Target {
    /// Parses an address. `tls` has options for all nodes. Options in the address override these.
    pub(crate) fn parse(address: &str, tls: &Tls) -> Result<Self, Failure> {
        // The error does not show the address, which may hold a password.
        let url = Url::parse(&hosted(address)).map_err(|_| Failure::internal("a node's address is not a URL"))?;
        let given = |text: &str| (!text.is_empty()).then(|| decoded(text));
        let unix = url.scheme() == "redis+unix";
        let number = || url.query_pairs().find(|(key, _)| key == "db").map(|(_, number)| number.into_owned());
        Ok(Self {
            place: if unix { Place::Unix(decoded(url.path()).into()) } else { tcp(&url) },
            user: given(url.username()),
            password: given(url.password().unwrap_or_default()),
            database: if unix { number().unwrap_or_default() } else { url.path().trim_matches('/').to_owned() },
            tls: own(&url).or(tls),
        })
    }

    /// The first commands of a new connection: they log in, and select the database.
    pub(crate) fn greeting(&self) -> Vec<Vec<&str>> {
        let user = self.user.as_deref();
        let login =
            self.password.as_deref().map(|password| ["AUTH"].into_iter().chain(user).chain([password]).collect());
        let database = (!["", "0"].contains(&&*self.database)).then(|| vec!["SELECT", &*self.database]);
        login.into_iter().chain(database).collect()
    }

    pub(crate) const fn speaks_tls(&self) -> bool {
        matches!(self.place, Place::Tcp { tls: true, .. })
    }

    /// Whether the connection leaves this machine without TLS, so that others may read the
    /// password.
    pub(crate) fn is_readable(&self) -> bool {
        match &self.place {
            Place::Tcp { host, tls: false, .. } => !is_loopback(host),
            _ => false,
        }
    }
}

/// The TLS options in the node's address, as the library reads them.
fn own(url: &Url) -> Tls {
    url.query_pairs().fold(Tls::new(), |tls, (key, value)| match &*key {
        "ca" => tls.ca_file(&*value),
        "cert" => tls.certificate_file(&*value),
        "key" => tls.key_file(&*value),
        "server_name" => tls.server_name(value),
        _ => tls,
    })
}

fn tcp(url: &Url) -> Place {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    Place::Tcp { host, port: url.port().unwrap_or(6379), tls: url.scheme() == "rediss" }
}

pub(crate) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Adds a host to the address of a Unix socket that has a login, because such a URL needs a host.
fn hosted(address: &str) -> String {
    match address.trim().split_once("@/") {
        Some((before, path)) if before.starts_with("redis+unix://") => format!("{before}@socket/{path}"),
        _ => address.trim().to_owned(),
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(address: &str) -> Target {
        Target::parse(address, &Tls::new()).unwrap()
    }

    #[test]
    fn address_yields_place_login_and_database() {
        let tls = target("rediss://us:p%40ss@eu:6380/2");
        assert_eq!(tls.place, Place::Tcp { host: "eu".into(), port: 6380, tls: true });
        assert_eq!(tls.greeting(), [vec!["AUTH", "us", "p@ss"], vec!["SELECT", "2"]]);
        let six = target("redis://:pw@[::1]");
        assert_eq!(six.place, Place::Tcp { host: "::1".into(), port: 6379, tls: false });
        assert_eq!(six.greeting(), [["AUTH", "pw"]]);
        let socket = target("redis+unix://:pw@/run/a%40b?db=3");
        assert_eq!(socket.place, Place::Unix("/run/a@b".into()));
        assert_eq!(socket.greeting(), [["AUTH", "pw"], ["SELECT", "3"]]);
        assert!(target("redis://eu/0").greeting().is_empty());
    }

    #[test]
    fn connection_is_readable_if_plain_and_to_another_machine() {
        let readable = ["redis://eu", "rediss://eu", "redis://127.0.0.2", "redis://[::1]", "redis+unix:///s"];
        assert_eq!(readable.map(|address| target(address).is_readable()), [true, false, false, false, false]);
    }
}
