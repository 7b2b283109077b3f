//! Finds out which rights a user lacks, command by command, without changing data.
//!
//! A server checks rights before it looks at arguments. So each command is sent in a form that
//! changes no data: it reads, publishes to a channel without subscribers, deletes a missing key, or
//! has invalid arguments. Only `NOPERM` means that a right is missing. Servers write each `NOPERM`
//! to their ACL LOG, as for any client. A server that refuses all writes refuses them before it
//! looks at arguments. So the replies show such a server, too.

use std::io;
use std::time::Duration;

use futures::future::join_all;
use rand::random;

use super::connection::{Connection, Reply};
use super::login::{Open, said};
use super::remedies::{refuses_connection, refuses_writes};
use super::target::Target;
use crate::settings::Settings;

const PREFIX: &str = "quorumlock:";
/// The time limit for all requests to one node, including name resolution.
const PATIENCE: Duration = Duration::from_secs(10);
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// What fails if a right is missing. docs/rights.md says the same. A test takes away each right,
/// and checks the results of `run`, `status` and `doctor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// The node grants no lock: it counts as down, gets no record, or refuses every claim. (`ZCARD`
    /// is an exception: without it, the node still grants locks that nobody waits for.)
    Acquire,
    /// Some operations fail. Locks that nobody waits for can still be acquired. (Without `HDEL`, no
    /// lock is released.)
    Some,
    /// Waiters are not notified.
    WakeUps,
    /// Two operations fail: listing all names, and `init`, which lists all names first.
    Listing,
    Nothing,
}

impl Effect {
    pub(crate) const ALL: [Self; 5] = [Self::Acquire, Self::Some, Self::WakeUps, Self::Listing, Self::Nothing];
}

/// Commands that the library and its scripts send, each with the effect of a missing right. `K` is
/// a missing key, and `S` a hash that no script has. `C` and `N` are channels without subscribers.
/// `C` is named like the channels of waiters, and `N` like the channels for changes of a name.
/// SUBSCRIBE comes last, because a subscribed connection accepts few other commands.
const COMMANDS: &[(Effect, &str)] = &[
    (Effect::WakeUps, "PING"),
    (Effect::Acquire, "TIME"),
    (Effect::Acquire, "INFO server"),
    (Effect::Nothing, "CLIENT ID"),
    (Effect::Nothing, "SCRIPT LOAD )"),
    (Effect::Some, "EVAL 0 x"),
    (Effect::Acquire, "EVALSHA S 0"),
    (Effect::Listing, "SCAN x"),
    (Effect::Some, "TYPE K"),
    (Effect::Some, "PTTL K"),
    (Effect::Some, "HGET K f"),
    (Effect::Acquire, "HGETALL K"),
    (Effect::Acquire, "HMGET K f"),
    (Effect::Acquire, "ZCARD K"),
    (Effect::Some, "ZRANGE K 0 0"),
    (Effect::Some, "ZRANK K m"),
    (Effect::Some, "DEL K"),
    (Effect::Some, "HDEL K f"),
    (Effect::Some, "ZREM K m"),
    (Effect::Acquire, "PEXPIRE K x"),
    (Effect::Acquire, "HSET K f v g"),
    (Effect::Some, "ZADD K x m"),
    (Effect::WakeUps, "PUBLISH C m"),
    (Effect::Nothing, "PUBSUB NUMSUB C"),
    (Effect::Nothing, "UNSUBSCRIBE C"),
    (Effect::WakeUps, "SUBSCRIBE C N"),
];

/// The sections of INFO that show whether a server may have forgotten locks while it ran.
/// scripts/lua/seen.lua reads the same sections.
const HISTORY: [&str; 3] = ["commandstats", "stats", "replication"];

/// A key and channels that are named like the keys and channels of this client's locks.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: String,
    key: String,
    channel: String,
    news: String,
}

impl Names {
    pub(crate) fn of(settings: &Settings) -> Self {
        let prefix = settings.key_prefix.clone().unwrap_or_else(|| PREFIX.to_owned());
        let name = format!("quorumlock doctor {:032x}", random::<u128>());
        let name =
            settings.key_format.as_deref().map_or_else(|| name.clone(), |format| format.replacen("{name}", &name, 1));
        let key = format!("{prefix}{{{name}}}");
        Self {
            news: format!("{key}:news"),
            key,
            channel: format!("{prefix}wake:doctor/{:032x}", random::<u128>()),
            prefix,
        }
    }

    fn words<'a>(&'a self, command: &'a str) -> Vec<&'a str> {
        let word = |word| match word {
            "K" => &*self.key,
            "C" => &*self.channel,
            "N" => &*self.news,
            "S" => NO_SCRIPT,
            word => word,
        };
        command.split(' ').map(word).collect()
    }
}

/// The rights that a user lacks, and other reasons why the node may grant no locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lacks {
    /// Commands, in the form that ACL SETUSER takes: `+zadd`.
    pub(crate) commands: Vec<(Effect, String)>,
    pub(crate) keys: Option<String>,
    pub(crate) channels: Option<String>,
    /// The error with which the server refuses every write; `None` if it accepts writes.
    pub(crate) writes: Option<String>,
    /// Why the server may have forgotten locks while it ran; `None` if INFO shows no reason.
    pub(crate) emptied: Option<&'static str>,
}

impl Lacks {
    /// Sends all commands, and collects the missing rights.
    pub(crate) fn ask(connection: &mut Connection, names: &Names) -> io::Result<Self> {
        Self::ask_for(COMMANDS.iter().copied(), connection, names)
    }

    /// Sends the commands that acquiring needs, and collects the missing rights.
    pub(crate) fn ask_to_acquire(connection: &mut Connection, names: &Names) -> io::Result<Self> {
        Self::ask_for(COMMANDS.iter().copied().filter(|(effect, _)| *effect == Effect::Acquire), connection, names)
    }

    fn ask_for(
        commands: impl Iterator<Item = (Effect, &'static str)> + Clone,
        connection: &mut Connection,
        names: &Names,
    ) -> io::Result<Self> {
        let history = HISTORY.into_iter().map(|section| vec!["INFO", section]);
        let words: Vec<_> = history.chain(commands.clone().map(|(_, command)| names.words(command))).collect();
        let mut replies = connection.ask_all(&words)?.into_iter();
        let history: Vec<_> = replies.by_ref().take(HISTORY.len()).filter_map(|reply| reply.text().ok()).collect();
        let mut lacks = Self { emptied: emptied(&history.join("\n")), ..Self::default() };
        for ((effect, command), reply) in commands.zip(replies) {
            match reply {
                // The server refused this command before it checked rights, so the rights are
                // unknown.
                Reply::Refused(why) if refuses_connection(&why) || why.starts_with("ERR unknown command") => {
                    return Err(io::Error::other(why));
                }
                Reply::Refused(why) => lacks.note(effect, command, &why, names),
                _ => {}
            }
        }
        lacks.weigh();
        Ok(lacks)
    }

    /// If the user may not load a script, the client sends the script with EVAL. So acquiring fails
    /// only if the rights to SCRIPT LOAD and to EVAL are both missing.
    fn weigh(&mut self) {
        let both = ["+script|load", "+eval"];
        let missing = self.commands.iter_mut().filter(|(_, right)| both.contains(&&**right));
        let missing: Vec<_> = missing.collect();
        if missing.len() == both.len() {
            missing.into_iter().for_each(|(effect, _)| *effect = Effect::Acquire);
        }
    }

    /// Whether no right is missing.
    pub(crate) const fn no_right(&self) -> bool {
        self.commands.is_empty() && self.keys.is_none() && self.channels.is_none()
    }

    /// The missing rights that have this effect.
    pub(crate) fn of(&self, effect: Effect) -> Option<String> {
        let rights: Vec<_> = self.commands.iter().filter(|(of, _)| *of == effect).map(|(_, right)| &**right).collect();
        (!rights.is_empty()).then(|| rights.join(" "))
    }

    /// The missing rights without which the node grants this user no lock.
    pub(crate) fn to_acquire(&self) -> Option<String> {
        let rights: Vec<_> = self.keys.iter().cloned().chain(self.of(Effect::Acquire)).collect();
        (!rights.is_empty()).then(|| rights.join(" "))
    }

    fn note(&mut self, effect: Effect, command: &str, why: &str, names: &Names) {
        if refuses_writes(why) {
            self.writes.get_or_insert_with(|| why.trim_end_matches('.').to_owned());
        }
        if !why.starts_with("NOPERM") {
            return;
        }
        // Skip the text before `permissions to`: it has the user's name, which may contain ` key`.
        let what = why.rsplit_once("permissions to ").map_or(why, |(_, what)| what);
        if what.starts_with("access ") && what.contains(" key") {
            self.keys = Some(format!("~{}*", names.prefix));
        } else if what.starts_with("access ") && what.contains(" channel") {
            self.channels = Some(format!("&{}*", names.prefix));
        } else {
            self.commands.push((effect, right(command)));
        }
    }
}

/// A node's reply about rights, writes and forgotten locks; `None` if the node was not asked. The
/// error says why the node could not be asked.
pub(crate) type Asked = Result<Option<Lacks>, String>;

/// Finds the missing rights on the nodes whose entry in `worth` is true. Does not ask the other
/// nodes.
pub(crate) async fn asked(settings: &Settings, step: Duration, worth: &[bool]) -> Vec<Asked> {
    let (tls, names) = (settings.encryption.own(), Names::of(settings));
    let nodes = settings.logged_in();
    let each = nodes.iter().zip(worth).map(|(node, worth)| {
        let target = Target::parse(node, &tls).ok().filter(|_| *worth);
        ask(target, names.clone(), step)
    });
    join_all(each).await
}

async fn ask(target: Option<Target>, names: Names, step: Duration) -> Asked {
    let Some(target) = target else { return Ok(None) };
    let asked = tokio::task::spawn_blocking(move || {
        let mut open = Open::to(&target, step).map_err(|failed| failed.why)?;
        Lacks::ask_to_acquire(&mut open.connection, &names).map_err(|error| said(&error))
    });
    let lacks = tokio::time::timeout(PATIENCE, asked).await.map_err(|_| "no answer in time".to_owned())?;
    lacks.map_err(|error| error.to_string())?.map(Some)
}

/// Why a server may have forgotten locks while it ran; `None` if its INFO shows no reason.
fn emptied(info: &str) -> Option<&'static str> {
    // A denied command has 0 calls.
    let calls = |line: &str, command: &str| line.strip_prefix(command)?.strip_prefix(":calls=")?.chars().next();
    let ran = |command: &str| info.lines().any(|line| calls(line, command).is_some_and(|digit| digit != '0'));
    let is_zero = |field: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.is_none_or(|value| value.trim().bytes().all(|digit| digit == b'0'))
    };
    if ran("cmdstat_flushall") || ran("cmdstat_flushdb") || ran("cmdstat_swapdb") {
        Some("FLUSHALL, FLUSHDB or SWAPDB ran there")
    } else if !is_zero("evicted_keys") {
        Some("it evicted keys")
    } else if !is_zero("master_replid2") {
        Some("it was a replica, or restarted from a snapshot of a master with replicas")
    } else {
        None
    }
}

/// The right that a command of [`COMMANDS`] needs: `+script|load` for `SCRIPT LOAD )`.
fn right(command: &str) -> String {
    let words: Vec<_> = command.split(' ').collect();
    let parts = if ["SCRIPT", "CLIENT", "PUBSUB"].contains(&words[0]) { 2 } else { 1 };
    format!("+{}", words[..parts].join("|").to_lowercase())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::connection::tests::Says;
    use super::*;

    const SCRIPTS: &str = concat!(
        include_str!("../../../../scripts/lua/common.lua"),
        include_str!("../../../../scripts/lua/name.lua"),
        include_str!("../../../../scripts/lua/readers.lua"),
        include_str!("../../../../scripts/lua/waiters.lua"),
        include_str!("../../../../scripts/lua/queue.lua"),
        include_str!("../../../../scripts/lua/claim.lua"),
        include_str!("../../../../scripts/lua/renew.lua"),
        include_str!("../../../../scripts/lua/release.lua"),
        include_str!("../../../../scripts/lua/revoke.lua"),
        include_str!("../../../../scripts/lua/inspect.lua"),
        include_str!("../../../../scripts/lua/seen.lua"),
        include_str!("../../../../scripts/lua/hello.lua"),
    );
    /// Words in capitals that are not commands.
    const OTHERS: [&str; 3] = ["NUMSUB", "WITHSCORES", "WRONGTYPE"];

    #[test]
    fn commands_of_the_scripts_are_asked_for_and_no_others() {
        let capitals = |word: &&str| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase());
        let called: BTreeSet<_> = SCRIPTS
            .lines()
            .filter(|line| !line.trim_start().starts_with("--"))
            .flat_map(|line| line.split('\'').filter(capitals))
            .filter(|word| !OTHERS.contains(word))
            .collect();
        let asked: BTreeSet<_> = COMMANDS.iter().filter_map(|(_, command)| command.split(' ').next()).collect();
        assert_eq!(called.difference(&asked).collect::<Vec<_>>(), Vec::<&&str>::new());
        let others = ["CLIENT", "EVAL", "EVALSHA", "PING", "SCAN", "SCRIPT", "SUBSCRIBE", "UNSUBSCRIBE"];
        assert_eq!(asked.difference(&called).copied().collect::<Vec<_>>(), others, "clients send these");
    }

    #[test]
    fn refusals_are_told_as_the_rights_to_give() {
        let names = Names::of(&Settings { key_prefix: Some("app:".to_owned()), ..Settings::default() });
        let mut lacks = Lacks::default();
        for (command, why) in [
            ("ZADD K x m", "NOPERM this user has no permissions to run the 'zadd' command"),
            ("SCRIPT LOAD )", "NOPERM User locks has no permissions to run the 'script|load' command"),
            ("GET K", "NOPERM No permissions to access a key"),
            ("PUBLISH C m", "NOPERM this user has no permissions to access one of the channels used as arguments"),
            ("SET K v NX XX", "ERR syntax error"),
            ("DEL K", "READONLY You can't write against a read only replica."),
        ] {
            lacks.note(Effect::Some, command, why, &names);
        }
        assert_eq!(lacks.of(Effect::Some).as_deref(), Some("+zadd +script|load"));
        assert_eq!((lacks.keys.as_deref(), lacks.channels.as_deref()), (Some("~app:*"), Some("&app:*")));
        assert_eq!(lacks.writes, None);
    }

    #[test]
    fn a_script_that_may_be_neither_loaded_nor_run_costs_the_lock() {
        let names = Names::of(&Settings::default());
        let refused = "NOPERM this user has no permissions to run the 'x' command";
        let mut lacks = Lacks::default();
        lacks.note(Effect::Nothing, "SCRIPT LOAD )", refused, &names);
        lacks.weigh();
        assert_eq!(lacks.to_acquire(), None);
        lacks.note(Effect::Some, "EVAL 0 x", refused, &names);
        lacks.weigh();
        assert_eq!(lacks.to_acquire().as_deref(), Some("+script|load +eval"));
    }

    #[test]
    fn a_users_name_is_no_right() {
        let names = Names::of(&Settings::default());
        for (command, why, right) in [
            ("SET K v NX XX", "NOPERM User channel-svc has no permissions to run the 'set' command", "+set"),
            ("GET K", "NOPERM User keycloak has no permissions to run the 'get' command", "+get"),
            ("GET K", "NOPERM User channel-svc has no permissions to access the 'quorumlock:{a}' key", "~quorumlock:*"),
            ("PUBLISH C m", "NOPERM User access-key has no permissions to access the 'a' channel", "&quorumlock:*"),
        ] {
            let mut lacks = Lacks::default();
            lacks.note(Effect::Acquire, command, why, &names);
            let all = [lacks.of(Effect::Acquire), lacks.keys, lacks.channels];
            assert_eq!(all.into_iter().flatten().collect::<Vec<_>>(), [right], "{why}");
        }
    }

    #[tokio::test]
    async fn node_skipped_by_the_check_reports_no_rights() {
        let settings = Settings { nodes: vec!["redis://127.0.0.1:1".to_owned()], ..Settings::default() };
        assert_eq!(asked(&settings, PATIENCE, &[false]).await, [Ok(None)]);
        assert!(asked(&settings, PATIENCE, &[true]).await[0].is_err());
    }

    /// Each of these servers gives the same answer to every command.
    #[test]
    fn a_server_that_refuses_for_another_reason_tells_of_no_right() {
        let ask = |says: &'static str| {
            let mut connection =
                Connection::new(Says(io::Cursor::new(says.repeat(HISTORY.len() + COMMANDS.len()).into())));
            Lacks::ask(&mut connection, &Names::of(&Settings::default()))
        };
        for says in ["-NOAUTH Authentication required.\r\n", "-ERR unknown command 'PING'\r\n", "-DENIED x\r\n"] {
            assert_eq!(format!("-{}\r\n", ask(says).unwrap_err()), says);
        }
        let refuses = ask("-NOREPLICAS Not enough good replicas to write.\r\n").unwrap();
        assert_eq!(refuses.writes.as_deref(), Some("NOREPLICAS Not enough good replicas to write"));
        assert!(refuses.no_right() && ask("-BUSY x\r\n").unwrap() == Lacks::default());
    }

    #[test]
    fn a_server_that_forgot_while_it_ran_is_known_by_its_info() {
        let fine = "cmdstat_script|flush:calls=1\r\nevicted_keys:0\r\nmaster_replid2:0000\r\n";
        let denied = "cmdstat_flushall:calls=0,usec=0,rejected_calls=1,failed_calls=0\r\n";
        assert_eq!([fine, denied, ""].map(emptied), [None; 3]);
        for (info, by) in [
            ("cmdstat_flushall:calls=1,usec=3\r\n", "FLUSHALL"),
            ("cmdstat_swapdb:calls=1\r\n", "SWAPDB"),
            ("evicted_keys:12\r\n", "evicted"),
            ("evicted_keys:0\r\nmaster_replid2:0a00\r\n", "replica"),
        ] {
            assert!(emptied(info).is_some_and(|why| why.contains(by)), "{info}");
        }
    }

    #[test]
    fn keys_are_those_of_the_key_format() {
        let settings = Settings { key_format: Some("acme/{name}".to_owned()), ..Settings::default() };
        assert!(Names::of(&settings).key.starts_with("quorumlock:{acme/quorumlock doctor "));
    }
}
