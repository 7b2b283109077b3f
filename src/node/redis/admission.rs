//! Checks the server behind each new connection. No vote over a connection counts before these
//! checks.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{join_all, join5, ready};

use super::decode::{garbled, returned};
use super::encode::Call;
use super::script::Script;
use super::transport::{Answer, Argument, Connection, Value};
use crate::host::{Host, before};
use crate::node::operation::Operation;
use crate::node::reply::{Fault, FaultKind, Outcome};
use crate::rules::Tick;
use crate::rules::list::Record;
use crate::words::harmless;

/// A server's properties, from its reply to INFO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) run_id: String,
    /// The server's process, in the form of the node's record: `RUN_ID`, or `RUN_ID/REPLICATION_ID`
    /// if the server was promoted from a replica.
    pub(super) process: Arc<str>,
    pub(super) version: String,
    pub(super) uptime: Duration,
    pub(super) master: bool,
    pub(super) cluster: bool,
    /// The server's clock in the reply to INFO.
    pub(super) time: Option<Duration>,
    /// The server's `maxmemory-policy`, if the server may evict keys.
    pub(super) evicts: Option<String>,
    /// The server's `maxmemory`, if the server evicts nothing and uses more memory than this.
    pub(super) full: Option<String>,
}

/// A server's replies to the first commands of a new connection.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) server: Server,
    /// When the commands were sent, when the reply to INFO came, and when all replies had come.
    pub(super) asked: Tick,
    pub(super) informed: Tick,
    pub(super) greeted: Tick,
    /// The node's record, `None` if the node has none; or why the client cannot read the record.
    pub(super) record: Result<Option<Record>, Fault>,
    /// The server's clock in the reply to hello.
    pub(super) time: Option<Duration>,
    /// Whether the connection receives hints; or why the server refuses the subscription to them.
    pub(super) hinting: Result<bool, Fault>,
}

/// The parameters of the first commands of a new connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guest<'a> {
    /// The connection's name on the server.
    pub(super) name: &'a str,
    /// The key of the node's record.
    pub(super) record: &'a str,
    /// The channel to subscribe to, if any.
    pub(super) channel: Option<&'a str>,
    /// The time limit for the replies.
    pub(super) timeout: Duration,
    /// The first hello, which reads the record and names no process.
    pub(super) hello: &'a Operation,
}

/// Sends the first commands of a new connection in one round trip. The subscription comes last:
/// after a refused subscription, fred assigns replies to the wrong commands.
pub(super) async fn greet(
    connection: &dyn Connection,
    host: &Arc<dyn Host>,
    guest: Guest<'_>,
) -> Result<Greeting, Fault> {
    let Guest { name, channel, timeout, .. } = guest;
    let asked = host.now();
    let until = asked + timeout;
    let named = connection.send("CLIENT", &[Argument::Word("SETNAME"), Argument::Text(name)]);
    let loaded: Vec<_> = Script::ALL.iter().map(|script| load(connection, *script)).collect();
    let info = in_time(host, until, connection.send("INFO", &[])).map(|info| (info, host.now()));
    let said = in_time(host, until, hello(connection, guest, "EVALSHA"));
    let subscribed =
        channel.map_or_else(|| ready(Ok(())).boxed(), |channel| connection.subscribe(&[channel.to_owned()]));
    let named = in_time(host, until, named);
    let loaded = join_all(loaded.into_iter().map(|loaded| in_time(host, until, loaded)));
    let all = join5(named, loaded, info, said, in_time(host, until, subscribed));
    let (named, loaded, (info, informed), said, subscribed) = all.await;
    if let Err(fault) = named {
        tracing::debug!(%fault, "the connection could not be named");
    }
    // Go on if SCRIPT LOAD is refused: EVAL also stores a script on the server.
    if let Some(fault) = loaded.into_iter().filter_map(Result::err).find(|fault| fault.kind() != FaultKind::Rejected) {
        return Err(during("SCRIPT LOAD")(fault));
    }
    let server = parse(&info.map_err(during("INFO"))?).ok_or_else(stranger)?;
    let hinting = match subscribed {
        Err(fault) if !is_refusal(&fault) => return Err(during("SUBSCRIBE")(fault)),
        subscribed => subscribed.map(|()| channel.is_some()),
    };
    let said = match said {
        // Send nothing after a refused subscription: fred may assign replies to the wrong commands.
        Err(fault) if is_unknown_script(&fault) && hinting.is_ok() => {
            in_time(host, host.now() + timeout, hello(connection, guest, "EVAL")).await
        }
        said => said,
    };
    let (time, record) = heard(said, guest.hello)?;
    Ok(Greeting { server, asked, informed, greeted: host.now(), record, time, hinting })
}

/// Waits for the answer. If none has come by `until`, returns the fault `Timeout`.
pub(super) async fn in_time<T>(host: &Arc<dyn Host>, until: Tick, answer: Answer<T>) -> Result<T, Fault> {
    before(host, until, answer).await.unwrap_or_else(|| Err(Fault::new(FaultKind::Timeout, "no answer in time")))
}

fn hello(connection: &dyn Connection, guest: Guest<'_>, command: &'static str) -> Answer<Value> {
    let script = Script::Hello;
    let text = if command == "EVAL" { script.source() } else { script.digest() };
    connection.send(command, &Call::new(text, script, guest.record, std::iter::once(guest.hello)))
}

/// The server's clock; and the record, or the error that the server returned instead.
type Said = (Option<Duration>, Result<Option<Record>, Fault>);

fn heard(said: Result<Value, Fault>, hello: &Operation) -> Result<Said, Fault> {
    let value = match said {
        Err(fault) if !is_refusal(&fault) || lacks_a_command(&fault) => return Err(during("EVALSHA")(fault)),
        Err(fault) => return Ok((None, Err(fault))),
        Ok(value) => value,
    };
    let mut returned = returned(&value, 1).ok_or_else(garbled)?;
    match returned.replies.next(hello) {
        Ok(Outcome::Hello(record)) => Ok((Some(returned.time), Ok(record))),
        Ok(_) => Err(garbled()),
        Err(fault) => Ok((Some(returned.time), Err(fault))),
    }
}

/// Whether this is the error NOSCRIPT: the server lacks the script, and carried nothing out.
pub(super) fn is_unknown_script(fault: &Fault) -> bool {
    fault.to_string().starts_with("NOSCRIPT")
}

/// Whether the server lacks a command: its configuration has renamed or removed the command.
fn lacks_a_command(fault: &Fault) -> bool {
    fault.to_string().starts_with("ERR unknown command")
}

fn is_refusal(fault: &Fault) -> bool {
    matches!(fault.kind(), FaultKind::Rejected | FaultKind::Busy)
}

/// Adds the command's name to the message of a timeout. Other faults stay as they are.
pub(super) fn during(step: &'static str) -> impl Fn(Fault) -> Fault {
    move |fault| match fault.kind() {
        FaultKind::Timeout => Fault::new(FaultKind::Timeout, format!("no answer to {step} within node_timeout")),
        _ => fault,
    }
}

fn stranger() -> Fault {
    Fault::new(FaultKind::Garbled, "INFO has no run_id, uptime or role; is this a Redis or Valkey server?")
}

pub(super) fn parse(info: &Value) -> Option<Server> {
    Server::parse(info.text()?)
}

fn load(connection: &dyn Connection, script: Script) -> Answer<Value> {
    connection.send("SCRIPT", &[Argument::Word("LOAD"), Argument::Text(script.source())])
}

impl Server {
    fn parse(info: &str) -> Option<Self> {
        let field =
            |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        let policy = field("maxmemory_policy").unwrap_or("noeviction");
        let limited = field("maxmemory").is_some_and(|limit| limit != "0");
        let run_id = field("run_id").filter(|id| !id.is_empty())?;
        Some(Self {
            run_id: run_id.to_owned(),
            process: process(run_id, promoted(field)).into(),
            version: harmless(field("valkey_version").or_else(|| field("redis_version")).unwrap_or("unknown")),
            // The uptime is negative if the clock was set back to a time before the server's start.
            uptime: Duration::from_secs(field("uptime_in_seconds")?.parse::<i64>().ok()?.try_into().unwrap_or(0)),
            master: field("role")? == "master",
            cluster: field("redis_mode").or_else(|| field("server_mode")) == Some("cluster"),
            time: field("server_time_usec").and_then(|time| time.parse().ok()).map(Duration::from_micros),
            full: full(field).filter(|_| policy == "noeviction"),
            evicts: (limited && policy != "noeviction").then(|| harmless(policy)),
        })
    }
}

/// The server's `maxmemory`, if the server uses more memory than this. As in Redis, the buffers of
/// replicas do not count.
fn full<'a>(field: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let number = |name| field(name)?.parse::<u64>().ok();
    let (used, limit) = (number("used_memory")?, number("maxmemory")?);
    let counted = used.saturating_sub(number("mem_not_counted_for_evict").unwrap_or(0));
    (limit > 0 && counted > limit).then(|| format!("maxmemory is {limit} bytes"))
}

/// The replication id that a server got when it was promoted to a master. Only a server that was
/// promoted has a second replication id.
fn promoted<'a>(field: impl Fn(&str) -> Option<&'a str>) -> Option<&'a str> {
    let second = field("master_replid2")?;
    second.bytes().any(|digit| digit != b'0').then(|| field("master_replid"))?
}

fn process(run_id: &str, promoted: Option<&str>) -> String {
    let plain = |id: &str| id.chars().filter(char::is_ascii_alphanumeric).take(64).collect::<String>();
    promoted.map_or_else(|| plain(run_id), |id| format!("{}/{}", plain(run_id), plain(id)))
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
    fn server_info_has_its_control_characters_escaped() {
        let server = Server::parse(&INFO.replace("7.0.15", "7\u{1b}[2J").replace("allkeys", "all\u{7}keys")).unwrap();
        assert_eq!((&*server.version, server.evicts.as_deref()), (r"7\u{1b}[2J", Some(r"all\u{7}keys-lru")));
    }

    #[test]
    fn promotion_changes_the_process_and_a_joining_replica_does_not() {
        let with = |second: &str| format!("{INFO}master_replid:new\r\nmaster_replid2:{second}\r\n");
        assert_eq!(&*Server::parse(&with("0000")).unwrap().process, "abc");
        assert_eq!(&*Server::parse(&with("01d0")).unwrap().process, "abc/new");
    }

    #[test]
    fn server_with_a_start_in_the_future_counts_as_just_started() {
        assert_eq!(Server::parse(&INFO.replace("seconds:90", "seconds:-28")).unwrap().uptime, Duration::ZERO);
    }

    #[test]
    fn a_policy_without_a_limit_evicts_nothing() {
        assert_eq!(Server::parse(&INFO.replace("1048576", "0")).unwrap().evicts, None);
    }

    #[test]
    fn a_server_without_memory_that_evicts_nothing_is_known_as_one() {
        let full = |info: &str| Server::parse(info).unwrap().full;
        let keeps = INFO.replace("allkeys-lru", "noeviction");
        let used = |used: u64| format!("{keeps}used_memory:{used}\r\nmem_not_counted_for_evict:10\r\n");
        assert_eq!(full(&used(1_048_587)).as_deref(), Some("maxmemory is 1048576 bytes"));
        assert_eq!((full(&used(1_048_586)), full(&keeps)), (None, None));
        assert_eq!(full(&format!("{INFO}used_memory:2000000\r\n")), None, "a server that evicts is not full");
    }

    #[test]
    fn a_server_in_cluster_mode_is_known_as_one() {
        let cluster = |mode: &str| Server::parse(&format!("{INFO}{mode}\r\n")).unwrap().cluster;
        assert_eq!(
            ["redis_mode:cluster", "server_mode:cluster", "redis_mode:standalone"].map(cluster),
            [true, true, false]
        );
    }

    #[test]
    fn info_without_a_run_id_is_refused() {
        assert_eq!(Server::parse("role:master\r\nuptime_in_seconds:3"), None);
    }
}
