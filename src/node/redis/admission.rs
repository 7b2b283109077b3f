//! What is asked of a server before any vote of its connection counts.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{join5, ready};

use super::decode::returned;
use super::encode::Call;
use super::script::Script;
use super::transport::{Answer, Argument, Arguments, Connection, Value, digest};
use crate::host::Host;
use crate::node::operation::Operation;
use crate::node::reply::{Fault, FaultKind, Outcome};
use crate::rules::Tick;
use crate::words::harmless;

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) run_id: String,
    /// Whose memory it has: its own process's, or since it was promoted from a replica, what its
    /// master had sent it by then.
    pub(super) lineage: String,
    pub(super) version: String,
    pub(super) uptime: Duration,
    pub(super) master: bool,
    /// Whether it runs in cluster mode.
    pub(super) cluster: bool,
    /// The server's clock.
    pub(super) time: Option<Duration>,
    /// Whether it may evict keys that it should keep.
    pub(super) evicts: Option<String>,
    /// How much memory it may use, where it uses more and evicts nothing.
    pub(super) full: Option<String>,
}

/// What a server told when it was greeted.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) server: Server,
    /// When it was asked what it is, and when it told.
    pub(super) asked: Tick,
    pub(super) told: Tick,
    /// Whether it is known to have forgotten no ballot, if it told: see
    /// [`teaching`](crate::rules::teaching).
    pub(super) taught: Option<bool>,
    /// Why its record cannot be read, if that is why it did not tell.
    pub(super) unreadable: Option<String>,
    /// Whether it wakes this connection; or why it refuses to.
    pub(super) hinting: Result<bool, Fault>,
    /// Whether it takes SCRIPT LOAD.
    pub(super) loads: bool,
}

/// Who greets, and what for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guest<'a> {
    /// The connection's name.
    pub(super) name: &'a str,
    /// The key of the node's record.
    pub(super) record: &'a str,
    /// The channel to be subscribed to, if any.
    pub(super) channel: Option<&'a str>,
}

/// Asks all that has to be known before anything else is, in one round trip, since each takes long
/// to a far node: whether it takes the script, what it is and what it knows, and to be subscribed.
/// The subscription comes last: where it is refused, a reply too many follows.
pub(super) async fn greet(
    connection: &dyn Connection,
    host: &Arc<dyn Host>,
    guest: Guest<'_>,
) -> Result<Greeting, Fault> {
    let Guest { name, record, channel } = guest;
    let asked = host.now();
    let named = connection.send("CLIENT", &[Argument::Word("SETNAME"), Argument::Text(name)]);
    let send = |command, arguments: &dyn Arguments| connection.send(command, arguments);
    let loaded = load(send, Script::Record.source());
    let info = connection.send("INFO", &[]).map(|info| (info, host.now()));
    let recorded = recorded(connection, record);
    let subscribed =
        channel.map_or_else(|| ready(Ok(())).boxed(), |channel| connection.subscribe(&[channel.to_owned()]));
    let (named, loaded, (info, told), recorded, subscribed) = join5(named, loaded, info, recorded, subscribed).await;
    let refused = match loaded {
        Err(fault) if fault.kind() != FaultKind::Rejected => return Err(during("SCRIPT LOAD")(fault)),
        loaded => loaded.err(),
    };
    let server = parse(&info.map_err(during("INFO"))?).ok_or_else(stranger)?;
    if let Err(fault) = named {
        tracing::debug!(%fault, "the connection could not be named");
    }
    let hinting = match subscribed {
        Err(fault) if !is_refusal(&fault) => return Err(during("SUBSCRIBE")(fault)),
        subscribed => subscribed.map(|()| channel.is_some()),
    };
    let loads = refused.is_none();
    let recorded = match refused {
        // Where the subscription was refused too, the connection is of no further use.
        Some(refused) if hinting.is_ok() => {
            let (script, asked) = (Script::Record, [&Operation::Record]);
            Ok(send("EVAL", &Call::new(script.source(), script, record, asked.into_iter()))
                .await
                .map_err(|_| refused)?)
        }
        _ => recorded,
    };
    let (taught, unreadable) = match recorded {
        Err(fault) if !is_refusal(&fault) || lacks_a_command(&fault) => return Err(during("EVALSHA")(fault)),
        Err(_) => (None, None),
        Ok(record) => knows(record, &server.lineage),
    };
    Ok(Greeting { server, asked, told, taught, unreadable, hinting, loads })
}

/// Asks for the node's record, by the script that was just loaded.
fn recorded(connection: &dyn Connection, record: &str) -> Answer<Value> {
    let (script, asked) = (Script::Record, [&Operation::Record]);
    connection.send("EVALSHA", &Call::new(&digest(script.source()), script, record, asked.into_iter()))
}

/// Whether that record was told by a server of `lineage` that forgot nothing, or was taught; or why
/// it never will be told. What is refused for want of memory may be told later.
fn knows(record: Value, lineage: &str) -> (Option<bool>, Option<String>) {
    let told = returned(&record, 1).map(|mut told| told.replies.next(&Operation::Record, &run(lineage)));
    match told {
        Some(Ok(Outcome::Record { taught, .. })) => (Some(taught), None),
        Some(Err(fault)) if fault.kind() == FaultKind::Rejected => (None, Some(fault.to_string())),
        _ => (None, None),
    }
}

/// Whether the server's configuration has taken a command away.
fn lacks_a_command(fault: &Fault) -> bool {
    fault.to_string().starts_with("ERR unknown command")
}

fn is_refusal(fault: &Fault) -> bool {
    matches!(fault.kind(), FaultKind::Rejected | FaultKind::Busy)
}

/// Says which question was not answered.
pub(super) fn during(step: &'static str) -> impl Fn(Fault) -> Fault {
    move |fault| match fault.kind() {
        FaultKind::Timeout => Fault::new(FaultKind::Timeout, format!("no answer to {step} within node_timeout")),
        _ => fault,
    }
}

fn stranger() -> Fault {
    Fault::new(FaultKind::Garbled, "INFO told no run_id, uptime and role; is this a Redis or Valkey server?")
}

/// Reads the reply to INFO.
pub(super) fn parse(info: &Value) -> Option<Server> {
    Server::parse(info.text()?)
}

/// A script as it is loaded into the server of `lineage`, and nowhere else: its digest is unknown to
/// any other process, so a call that reaches another one, behind a proxy that changed its mind,
/// finds no script there and carries nothing out. That holds for each script by itself.
pub(super) fn source(script: Script, lineage: &str) -> String {
    let run = run(lineage);
    format!("local RUN = '{run}'\n{}\n-- {} {run}\n", script.source(), script.name())
}

/// What scripts call a server of `lineage`.
pub(super) fn run(lineage: &str) -> String {
    lineage.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '/').collect()
}

/// The same script by another digest, for EVAL, which leaves a script in the server's memory: a
/// server of another lineage must not come to know the one that is loaded.
pub(super) fn once(script: Script, lineage: &str) -> String {
    format!("{}-- {} once\n", source(script, lineage), script.name())
}

/// Lets a server know a script: by SCRIPT LOAD, whose answer is its digest. Where that is refused,
/// it is run for no operation; servers keep what they run as well.
pub(super) fn give(
    send: impl Fn(&'static str, &dyn Arguments) -> Answer<Value>,
    (script, source): (Script, &str),
    record: &str,
    loads: bool,
) -> Answer<Value> {
    match loads {
        true => load(send, source),
        false => send("EVAL", &Call::new(source, script, record, std::iter::empty())),
    }
}

fn load(send: impl Fn(&'static str, &dyn Arguments) -> Answer<Value>, source: &str) -> Answer<Value> {
    send("SCRIPT", &[Argument::Word("LOAD"), Argument::Text(source)])
}

impl Server {
    /// Whether it has the memory still of the server that was admitted as `lineage`, over the same
    /// connection. One that was promoted forgets of that when it frees its backlog, an hour after
    /// its last replica has gone (repl-backlog-ttl).
    pub(super) fn continues(&self, lineage: &str) -> bool {
        let promoted = || lineage.strip_prefix(&*self.run_id).is_some_and(|rest| rest.starts_with('/'));
        self.lineage == lineage || (self.lineage == self.run_id && promoted())
    }

    fn parse(info: &str) -> Option<Self> {
        let field =
            |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        let policy = field("maxmemory_policy").unwrap_or("noeviction");
        let limited = field("maxmemory").is_some_and(|limit| limit != "0");
        let run_id = field("run_id").filter(|id| !id.is_empty())?;
        Some(Self {
            run_id: run_id.to_owned(),
            lineage: promoted(field).map_or_else(|| run_id.to_owned(), |id| format!("{run_id}/{id}")),
            version: harmless(field("valkey_version").or_else(|| field("redis_version")).unwrap_or("unknown")),
            // Negative where the clock was set back behind the server's start.
            uptime: Duration::from_secs(field("uptime_in_seconds")?.parse::<i64>().ok()?.try_into().unwrap_or(0)),
            master: field("role")? == "master",
            cluster: field("redis_mode").or_else(|| field("server_mode")) == Some("cluster"),
            time: field("server_time_usec").and_then(|time| time.parse().ok()).map(Duration::from_micros),
            full: full(field).filter(|_| policy == "noeviction"),
            evicts: (limited && policy != "noeviction").then(|| harmless(policy)),
        })
    }
}

/// How much memory it may use, where it uses more. Buffers of replicas do not count there.
fn full<'a>(field: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let number = |name| field(name)?.parse::<u64>().ok();
    let (used, limit) = (number("used_memory")?, number("maxmemory")?);
    let counted = used.saturating_sub(number("mem_not_counted_for_evict").unwrap_or(0));
    (limit > 0 && counted > limit).then(|| format!("maxmemory is {limit} bytes"))
}

/// The replication id that a master got when it was promoted, if it was. Only a promotion leaves a
/// second id.
fn promoted<'a>(field: impl Fn(&str) -> Option<&'a str>) -> Option<&'a str> {
    let second = field("master_replid2")?;
    second.bytes().any(|digit| digit != b'0').then(|| field("master_replid"))?
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
    fn what_a_server_says_of_itself_does_nothing_to_a_terminal() {
        let server = Server::parse(&INFO.replace("7.0.15", "7\u{1b}[2J").replace("allkeys", "all\u{7}keys")).unwrap();
        assert_eq!((&*server.version, server.evicts.as_deref()), (r"7\u{1b}[2J", Some(r"all\u{7}keys-lru")));
    }

    #[test]
    fn a_promotion_changes_the_lineage_and_a_replica_that_joins_does_not() {
        let with = |second: &str| format!("{INFO}master_replid:new\r\nmaster_replid2:{second}\r\n");
        assert_eq!(Server::parse(&with("0000")).unwrap().lineage, "abc");
        assert_eq!(Server::parse(&with("01d0")).unwrap().lineage, "abc/new");
    }

    #[test]
    fn a_server_that_forgot_of_its_promotion_is_the_same_and_one_that_was_promoted_is_not() {
        let is = |lineage: &str| Server { lineage: lineage.to_owned(), ..Server::parse(INFO).unwrap() };
        let same = |known: &str, told: &str| is(told).continues(known);
        assert!(same("abc", "abc") && same("abc/new", "abc/new") && same("abc/new", "abc"));
        assert!(!same("abc", "abc/new") && !same("abc/new", "abc/newer"), "that is another memory");
        assert!(!same("xyz/new", "abc") && !same("abcd/new", "abc") && !same("abcd", "abc"), "another process");
    }

    #[test]
    fn a_server_whose_clock_was_set_back_behind_its_start_counts_as_just_started() {
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
        assert_eq!(full(&format!("{INFO}used_memory:2000000\r\n")), None, "it evicts");
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
    fn what_tells_no_run_id_is_no_server() {
        assert_eq!(Server::parse("role:master\r\nuptime_in_seconds:3"), None);
    }

    #[test]
    fn each_server_has_scripts_of_its_own_and_none_writes_into_them() {
        for script in Script::ALL {
            let (source, once) = (|lineage| source(script, lineage), |lineage| once(script, lineage));
            assert!(source("ab/01").starts_with("local RUN = 'ab/01'\n"));
            assert!(source("a'..x\n/b").starts_with("local RUN = 'ax/b'\n"));
            assert!(source("a") != source("b") && source("a").contains(script.source()));
            assert!(once("a") != source("a") && once("a").starts_with(&source("a")));
        }
    }
}
