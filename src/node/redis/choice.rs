//! The transports. The user chooses one of them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::credential_charset::fits;
use super::credentials::Site;
use super::fred::Fred;
#[cfg(feature = "redis-rs")]
use super::redis_rs::RedisRs;
use super::transport::Dialer;
use crate::error::{Error, Result};

const NAMES: &str = "use fred or redis-rs";

/// The client library that carries bytes to and from Redis nodes.
///
/// Locks work the same over each transport, because this library itself manages connections,
/// timeouts, checks and batches. Clients that share locks may use different transports. All
/// transports speak RESP3 with users, passwords and databases, over TCP, [TLS](crate::Tls) and Unix
/// sockets. Configurations call the transports `fred` and `redis-rs`.
///
/// # Which transport to choose
///
/// Choose [`Fred`](Self::Fred) unless a reason below applies. `Fred` needs no feature, and this
/// library has used fred for longer. Choose `RedisRs`, which needs the feature `redis-rs`, if:
///
/// * the client's CPU time or latency matters: each call wakes two tasks fewer than with fred
///   (`scripts/lab cost` measures both);
/// * your program already depends on the crate `redis` 1;
/// * your dependencies must have recent releases: fred's last release was in February 2025;
/// * you do not trust the nodes: a deeply nested reply aborts a program that uses fred, and
///   redis-rs refuses such a reply.
///
/// The feature adds ten crates, and fred stays a dependency. One of the ten crates, `arcstr`, has
/// `impl PartialEq<ArcStr> for Arc<str>`. Because of this impl, your program may need a type
/// annotation where it compares an `Arc<str>` with `text.into()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// fred. The default.
    #[default]
    Fred,
    /// redis-rs.
    #[cfg(feature = "redis-rs")]
    RedisRs,
}

impl Transport {
    /// The transports of this build.
    pub const ALL: &'static [Self] = &[
        Self::Fred,
        #[cfg(feature = "redis-rs")]
        Self::RedisRs,
    ];

    /// The transport's name in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fred => "fred",
            #[cfg(feature = "redis-rs")]
            Self::RedisRs => "redis-rs",
        }
    }

    /// Whether the transport can log in with this user or password.
    pub(crate) fn takes(self, text: &str) -> std::result::Result<(), &'static str> {
        match self {
            Self::Fred => fits(text),
            #[cfg(feature = "redis-rs")]
            Self::RedisRs => Ok(()),
        }
    }

    pub(crate) fn dialer(self, site: Site) -> Arc<dyn Dialer> {
        match self {
            Self::Fred => Arc::new(Fred::new(site)),
            #[cfg(feature = "redis-rs")]
            Self::RedisRs => Arc::new(RedisRs::new(site)),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Transport {
    type Err = Error;

    /// Parses a transport's name.
    ///
    /// # Errors
    /// `Config` for an unknown name, and for a transport that this build does not have.
    fn from_str(text: &str) -> Result<Self> {
        match Self::ALL.iter().find(|transport| transport.name() == text) {
            Some(transport) => Ok(*transport),
            None if text == "redis-rs" => Err(Error::config(
                "quorumlock was built without the transport redis-rs; turn on its feature redis-rs, or use fred",
            )),
            None => Err(Error::config(format!("no transport has that name; {NAMES}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(not(feature = "__tls"))]
    use crate::node::redis::{Endpoint, NO_TLS};

    #[test]
    fn a_transport_is_known_by_its_name_and_fred_is_the_default() {
        for &transport in Transport::ALL {
            assert_eq!(transport.to_string().parse::<Transport>().unwrap(), transport);
        }
        assert_eq!(Transport::default(), Transport::Fred);
        let unknown = "secret".parse::<Transport>().unwrap_err().to_string();
        assert!(unknown.contains(NAMES) && !unknown.contains("secret"), "{unknown}");
    }

    #[test]
    fn transport_that_is_not_built_in_is_refused_with_its_feature() {
        match "redis-rs".parse::<Transport>() {
            Ok(transport) => assert!(cfg!(feature = "redis-rs") && transport.name() == "redis-rs"),
            Err(error) => assert!(!cfg!(feature = "redis-rs") && error.to_string().contains("feature redis-rs")),
        }
    }

    #[cfg(not(feature = "__tls"))]
    #[tokio::test]
    async fn rediss_address_is_not_dialed_without_tls() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let address = format!("rediss://:secret@{}", server.local_addr().unwrap());
        for transport in Transport::ALL {
            let dialer = transport.dialer(Endpoint::parse(&address).unwrap().into());
            let fault = dialer.dial(std::time::Duration::from_secs(60)).await.err().unwrap();
            assert_eq!(fault.to_string(), NO_TLS, "{transport}");
            assert!(server.accept().is_err(), "{transport} connected");
        }
    }
}
