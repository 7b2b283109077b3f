//! Explains error replies of servers, and says what to do about them.

use crate::words::harmless;

const TAKEN_AWAY: &str =
    "the server's configuration disables it: remove that rename-command, and restrict users by rights (ACL) instead";

/// Returns a server's error, with advice if there is any.
pub(super) fn advice(said: &str) -> String {
    let said = &*harmless(said);
    if let Some(right) = right(said) {
        return format!("{said} (the user lacks {right})");
    }
    match unknown(said) {
        Some("HELLO") => {
            "ERR unknown command 'HELLO' (this server is too old: Redis 6 or later is needed, or Valkey)".to_owned()
        }
        Some(command) => format!("ERR unknown command '{command}' ({TAKEN_AWAY})"),
        None if said.contains("ommand called from") && said.contains("nknown") => {
            format!("{said} (a command that the lock's script runs; {TAKEN_AWAY})")
        }
        None if said.starts_with("ERR max number of clients") => format!("{said} (raise maxclients)"),
        None => of_code(said),
    }
}

/// The command in an error about an unknown command. The command's arguments are left out, because
/// they may contain a whole script or a password.
fn unknown(said: &str) -> Option<&str> {
    let named = said.strip_prefix("ERR unknown command ")?;
    let quote = named.chars().next().filter(|quote| ['\'', '`'].contains(quote))?;
    named.split(quote).nth(1)
}

/// The right that the client's user lacks; `None` if the error is not about rights. Inside scripts,
/// Redis has other texts for these errors.
fn right(said: &str) -> Option<String> {
    let script = said.contains("user executing the script") || said.contains("ACL failure in script");
    // If SELECT is refused, redis-rs replaces the code NOPERM by another. So look at the text too.
    if !script && !said.starts_with("NOPERM") && !said.contains("has no permissions to run the '") {
        return None;
    }
    // Skip the text before `permissions to`: the user's name there may contain `key`.
    let what = said.rsplit_once("permissions to ").map_or(said, |(_, what)| what);
    Some(if let Some(command) = ran(what) {
        format!("+{command}")
    } else if what.contains(" key") {
        "the keys: ~quorumlock:*, or with another key prefix ~PREFIX*".to_owned()
    } else if what.contains(" channel") {
        "the channels: &quorumlock:*, or with another key prefix &PREFIX*".to_owned()
    } else {
        "a command of the lock's script; `quorumlock doctor` names it; +@all -@dangerous allows the whole script"
            .to_owned()
    })
}

/// The command in a text, such as `script|load` in `run the 'script|load' command`.
fn ran(what: &str) -> Option<&str> {
    let command = what.split_once("run the '")?.1.split('\'').next()?;
    Some(command).filter(|command| !command.is_empty() && !command.contains(' '))
}

/// The first word of an error, which is its code.
pub(super) fn code(said: &str) -> &str {
    said.split_whitespace().next().unwrap_or_default()
}

/// Adds the advice for the error's code, if there is any.
fn of_code(said: &str) -> String {
    let hint = match code(said) {
        "WRONGTYPE" => "a key of another type is in the way; use another key prefix, or delete this key",
        "OOM" => "raise maxmemory or free some",
        "READONLY" => "this is a replica; configure its master",
        "LOADING" => "the server is loading its data, and will answer when that is done",
        // Drop the server's own text: it is long, and says what to do on the server's own machine.
        "DENIED" => {
            return "DENIED the server is in protected mode, and accepts no connection from another machine \
                    (give its default user a password, or set protected-mode no)"
                .to_owned();
        }
        // Drop the server's own text: it explains how a person types the command.
        "NOAUTH" => return "the server needs a password".to_owned(),
        "WRONGPASS" => "check user and password; in an address they must be percent-encoded",
        "BUSY" => "another script blocks the server; see SCRIPT KILL",
        "MISCONF" => "the server cannot save its data, so it refuses writes; see its log",
        "NOREPLICAS" => "set min-replicas-to-write 0; the quorum replaces replication",
        _ => return said.to_owned(),
    };
    format!("{said} ({hint})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_with_the_right_that_is_missing() {
        for (said, right) in [
            ("NOPERM this user has no permissions to run the 'script|load' command", "lacks +script|load"),
            ("NOPERM User locks has no permissions to run the 'evalsha' command", "lacks +evalsha"),
            ("NOPERM this user has no permissions to access one of the keys used as arguments", "~quorumlock:*"),
            ("NOPERM No permissions to access a key", "~quorumlock:*"),
            ("NOPERM this user has no permissions to access one of the channels used as arguments", "&quorumlock:*"),
            ("ERR this user has no permissions to run the 'select' command", "lacks +select"),
            ("NOPERM User keycloak has no permissions to run the 'set' command", "lacks +set"),
            ("NOPERM User channel-svc has no permissions to run the 'script|load' command", "lacks +script|load"),
            ("NOPERM User channel-svc has no permissions to access the 'quorumlock:{a}' key", "~quorumlock:*"),
            ("NOPERM User keycloak has no permissions to access the 'x' channel", "&quorumlock:*"),
            ("ERR ACL failure in script: User keycloak has no permissions to run the 'hget' command", "lacks +hget"),
            ("ERR ACL failure in script: No permissions to access a key", "~quorumlock:*"),
            ("ERR The user executing the script can't run this command or subcommand", "`quorumlock doctor` names it"),
            ("ERR The user executing the script can't publish to the channel mentioned in the command", "&quorumlock"),
        ] {
            let told = advice(said);
            assert!(told.starts_with(said) && told.contains(right), "{told}");
        }
    }

    #[test]
    fn error_unrelated_to_rights_is_shown_escaped_and_redacted() {
        assert!(advice("OOM command not allowed").contains("raise maxmemory"));
        assert_eq!(advice("ERR whatever"), "ERR whatever");
        assert_eq!(advice("ERR \x1b]0;title\x07\u{9b}"), r"ERR \u{1b}]0;title\u{7}\u{9b}", "all is escaped");
        let old = advice("ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'secret'");
        assert!(old.contains("Redis 6") && !old.contains("secret"), "{old}");
    }

    #[test]
    fn a_command_that_was_taken_away_is_named_without_its_arguments() {
        for said in
            ["ERR unknown command 'SCRIPT', with args beginning with: 'LOAD' '-- x' ", "ERR unknown command `SCRIPT`"]
        {
            let told = advice(said);
            assert!(told.starts_with("ERR unknown command 'SCRIPT' (the server's configuration disables it"), "{told}");
        }
        for said in [
            "ERR Unknown Redis command called from script script: 3f, on @user_script:7.",
            "ERR Error running script (call to f_3f): @user_script:7: Unknown Redis command called from Lua script",
        ] {
            assert!(advice(said).contains("rename-command"), "{}", advice(said));
        }
    }

    #[test]
    fn known_refusal_is_reported_with_a_remedy() {
        for (said, hint) in [
            ("WRONGTYPE x", "another type"),
            ("OOM x", "raise maxmemory"),
            ("READONLY x", "configure its master"),
            ("LOADING x", "when that is done"),
            ("WRONGPASS x", "check user and password; in an address they must be percent-encoded"),
            ("BUSY x", "SCRIPT KILL"),
            ("MISCONF x", "see its log"),
            ("NOREPLICAS x", "min-replicas-to-write 0"),
            ("DENIED x", "protected-mode no"),
            ("ERR max number of clients reached", "raise maxclients"),
        ] {
            let told = advice(said);
            assert!(told.starts_with(said.trim_end_matches('x')) && told.contains(hint), "{told}");
        }
        assert_eq!([advice("ERR x"), advice("NOAUTH HELLO must be called")], ["ERR x", "the server needs a password"]);
    }
}
