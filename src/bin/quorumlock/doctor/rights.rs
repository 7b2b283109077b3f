//! Which rights a user lacks, command by command, without changing anything.
//!
//! A server checks rights before it looks at arguments. So each command is sent as what changes
//! nothing if it is carried out: a read, the deletion of a key that is not there, or with arguments
//! that the command itself refuses. Only `NOPERM` tells of a right that is missing; servers note it
//! in their ACL LOG, as they do for any client.

use std::io;

use rand::random;

use super::wire::{Reply, Wire};
use crate::settings::Settings;

const PREFIX: &str = "quorumlock:";
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// What the library and its script send. `K` is a key that nobody has, `C` a channel that nobody
/// listens to. SUBSCRIBE comes last: afterwards a connection takes few other commands.
const COMMANDS: &[&str] = &[
    "PING",
    "TIME",
    "INFO server",
    "CLIENT ID",
    "SCRIPT LOAD )",
    "EVAL 0 x",
    "EVALSHA S 0",
    "SCAN x",
    "GET K",
    "MGET K",
    "EXISTS K",
    "TYPE K",
    "PTTL K",
    "HGET K f",
    "HGETALL K",
    "HKEYS K",
    "HLEN K",
    "HMGET K f",
    "ZCARD K",
    "ZCOUNT K 0 0",
    "ZRANGE K 0 0",
    "ZRANGEBYSCORE K 0 0",
    "ZRANK K m",
    "ZREVRANGE K 0 0",
    "ZREVRANGEBYSCORE K 0 0",
    "ZSCORE K m",
    "DEL K",
    "HDEL K f",
    "ZREM K m",
    "SET K v NX XX",
    "SETRANGE K x v",
    "PEXPIRE K x",
    "HSET K f v g",
    "ZADD K x m",
    "ZREMRANGEBYRANK K x x",
    "ZREMRANGEBYSCORE K x x",
    "PUBLISH C m",
    "SUBSCRIBE C",
];

/// A key and a channel of this client's locks.
#[derive(Clone, Debug)]
pub(super) struct Names {
    prefix: String,
    key: String,
    channel: String,
}

impl Names {
    pub(super) fn of(settings: &Settings) -> Self {
        let prefix = settings.key_prefix.clone().unwrap_or_else(|| PREFIX.to_owned());
        let name = format!("quorumlock doctor {:032x}", random::<u128>());
        let name =
            settings.key_format.as_deref().map_or_else(|| name.clone(), |format| format.replacen("{name}", &name, 1));
        Self {
            key: format!("{prefix}{{{name}}}"),
            channel: format!("{prefix}wake:doctor/{:032x}", random::<u128>()),
            prefix,
        }
    }

    fn words<'a>(&'a self, command: &'a str) -> Vec<&'a str> {
        let word = |word| match word {
            "K" => &*self.key,
            "C" => &*self.channel,
            "S" => NO_SCRIPT,
            word => word,
        };
        command.split(' ').map(word).collect()
    }
}

/// What a user may not do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lacks {
    /// As they are given: `+zadd`.
    pub(super) commands: Vec<String>,
    pub(super) keys: Option<String>,
    pub(super) channels: Option<String>,
}

impl Lacks {
    /// Asks a server.
    pub(super) fn ask(wire: &mut Wire, names: &Names) -> io::Result<Self> {
        let mut lacks = Self::default();
        for command in COMMANDS {
            if let Reply::Refused(why) = wire.ask(&names.words(command))? {
                lacks.note(command, &why, names);
            }
        }
        Ok(lacks)
    }

    fn note(&mut self, command: &str, why: &str, names: &Names) {
        if !why.starts_with("NOPERM") {
            return;
        }
        if why.contains("channel") {
            self.channels = Some(format!("&{}wake:*", names.prefix));
        } else if why.contains("access") && why.contains("key") {
            self.keys = Some(format!("~{}*", names.prefix));
        } else {
            self.commands.push(right(command));
        }
    }
}

/// `SCRIPT LOAD )` as `+script|load`.
fn right(command: &str) -> String {
    let words: Vec<_> = command.split(' ').collect();
    let parts = if ["SCRIPT", "CLIENT"].contains(&words[0]) { 2 } else { 1 };
    format!("+{}", words[..parts].join("|").to_lowercase())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SCRIPT: &str = include_str!("../../../../scripts/lua/hashlock.lua");
    /// Words in capitals that are no commands.
    const OTHERS: [&str; 6] = ["COUNT", "LIMIT", "MATCH", "QLK", "WITHSCORES", "WRONGTYPE"];

    #[test]
    fn every_command_of_the_script_is_asked_for() {
        let quoted = SCRIPT.split('\'').skip(1).step_by(2);
        let capitals = |word: &&str| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase());
        let called: BTreeSet<_> = SCRIPT
            .lines()
            .flat_map(|line| line.split('\'').filter(capitals))
            .chain(quoted.filter(capitals))
            .filter(|word| !OTHERS.contains(word))
            .collect();
        let asked: BTreeSet<_> = COMMANDS.iter().filter_map(|command| command.split(' ').next()).collect();
        assert!(called.len() > 20, "{called:?}");
        assert_eq!(called.difference(&asked).collect::<Vec<_>>(), Vec::<&&str>::new());
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
            lacks.note(command, why, &names);
        }
        assert_eq!(lacks.commands, ["+zadd", "+script|load"]);
        assert_eq!((lacks.keys.as_deref(), lacks.channels.as_deref()), (Some("~app:*"), Some("&app:wake:*")));
    }

    #[test]
    fn keys_are_those_of_the_key_format() {
        let settings = Settings { key_format: Some("acme/{name}".to_owned()), ..Settings::default() };
        assert!(Names::of(&settings).key.starts_with("quorumlock:{acme/quorumlock doctor "));
    }
}
