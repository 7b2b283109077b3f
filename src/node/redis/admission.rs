//! What is asked of a server before any vote of its connection counts.

use std::time::Duration;

use fred::error::Error as FredError;
use fred::types::Value;

use super::connection::{Connection, fault};
use crate::node::reply::{Fault, FaultKind};
use crate::node::script;

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) run_id: String,
    pub(super) version: String,
    pub(super) uptime: Duration,
    pub(super) master: bool,
    /// The server's clock.
    pub(super) time: Option<Duration>,
    /// Whether it may evict keys that it should keep.
    pub(super) evicts: Option<String>,
}

/// Asks a server what it is.
pub(super) async fn identify(connection: &Connection) -> Result<Server, Fault> {
    let info = connection.call("INFO", vec![]).await.map_err(fault)?;
    parse(&info).ok_or_else(|| {
        Fault::new(FaultKind::Garbled, "INFO told no run_id, uptime and role; is this a Redis or Valkey server?")
    })
}

/// Reads the reply to INFO.
pub(super) fn parse(info: &Value) -> Option<Server> {
    Server::parse(&info.as_str()?)
}

/// Loads the script and returns its digest.
pub(super) async fn load(connection: &Connection) -> Result<String, Fault> {
    let arguments = vec![Value::from_static_str("LOAD"), Value::from_static_str(script::SOURCE)];
    let digest = connection.call("SCRIPT", arguments).await.map_err(fault)?;
    digest.as_string().ok_or_else(|| Fault::new(FaultKind::Garbled, "SCRIPT LOAD told no digest"))
}

/// Names the connection, for `CLIENT LIST`. Servers that forbid it are none the worse for it.
pub(super) async fn name(connection: &Connection, name: &str) -> Result<Value, FredError> {
    connection.call("CLIENT", vec![Value::from_static_str("SETNAME"), name.into()]).await
}

impl Server {
    fn parse(info: &str) -> Option<Self> {
        let field =
            |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        let policy = field("maxmemory_policy").unwrap_or("noeviction");
        let limited = field("maxmemory").is_some_and(|limit| limit != "0");
        Some(Self {
            run_id: field("run_id").filter(|id| !id.is_empty())?.to_owned(),
            version: field("valkey_version").or_else(|| field("redis_version")).unwrap_or("unknown").to_owned(),
            uptime: Duration::from_secs(field("uptime_in_seconds")?.parse().ok()?),
            master: field("role")? == "master",
            time: field("server_time_usec").and_then(|time| time.parse().ok()).map(Duration::from_micros),
            evicts: (limited && policy != "noeviction").then(|| policy.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nuptime_in_seconds:90\r\n# Memory\r\nmaxmemory:1048576\r\n\
                        maxmemory_policy:allkeys-lru\r\n# Replication\r\nrole:master\r\n";

    #[test]
    fn a_server_is_known_by_its_info() {
        let server = Server::parse(INFO).unwrap();
        assert_eq!((server.run_id.as_str(), server.version.as_str(), server.master), ("abc", "7.0.15", true));
        assert_eq!(server.uptime, Duration::from_secs(90));
        assert_eq!(server.evicts.as_deref(), Some("allkeys-lru"));
    }

    #[test]
    fn a_policy_without_a_limit_evicts_nothing() {
        assert_eq!(Server::parse(&INFO.replace("1048576", "0")).unwrap().evicts, None);
    }

    #[test]
    fn what_tells_no_run_id_is_no_server() {
        assert_eq!(Server::parse("role:master\r\nuptime_in_seconds:3"), None);
    }
}
