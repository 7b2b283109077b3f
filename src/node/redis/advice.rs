//! What a server's refusal means, and what can be done about it.

/// What the server said, and what can be done about it where that is known.
pub(super) fn advice(said: &str) -> String {
    match right(said) {
        Some(right) => format!("{said} (the user lacks {right})"),
        None if said.starts_with("ERR unknown command 'HELLO'") || said.starts_with("ERR unknown command `HELLO`") => {
            format!("{said} (this server is too old: Redis 6 or later is needed, or Valkey)")
        }
        None => of_code(said),
    }
}

/// Which right the server's user lacks, if that is why it refuses. Scripts are refused in other
/// words than commands.
fn right(said: &str) -> Option<String> {
    let script = said.contains("user executing the script");
    // redis-rs tells the refusal of SELECT as another error.
    if !script && !said.starts_with("NOPERM") && !said.contains("has no permissions to run the '") {
        return None;
    }
    Some(if said.contains("channel") {
        "the wake-up channels: &quorumlock:wake:*, or with another key prefix &PREFIXwake:*".to_owned()
    } else if said.contains("key") {
        "the keys: ~quorumlock:*, or with another key prefix ~PREFIX*".to_owned()
    } else if let Some(command) = quoted(said) {
        format!("+{command}")
    } else {
        "a command that the lock's script runs; `quorumlock doctor` names it, and +@all -@dangerous has all of them"
            .to_owned()
    })
}

/// The command that a refusal names: `... to run the 'script|load' command`.
fn quoted(said: &str) -> Option<&str> {
    said.split('\'').nth(1).filter(|command| !command.is_empty() && !command.contains(' '))
}

/// The word that an error begins with.
pub(super) fn code(said: &str) -> &str {
    said.split_whitespace().next().unwrap_or_default()
}

/// What can be done is told by the word that it begins with.
fn of_code(said: &str) -> String {
    let hint = match code(said) {
        "WRONGTYPE" => "a key of another type is in the way; use another key prefix, or delete it",
        "OOM" => "raise maxmemory or free some",
        "READONLY" => "this is a replica; configure its master",
        "LOADING" => "it is loading its data; it will answer when that is done",
        // What else the server says tells how to write the command by hand.
        "NOAUTH" => return "it needs a password".to_owned(),
        "WRONGPASS" => "check user and password; in an address they must be percent-encoded",
        "BUSY" => "another script blocks it; see SCRIPT KILL",
        "MISCONF" => "it cannot persist and refuses writes; see its log",
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
            (
                "NOPERM this user has no permissions to access one of the channels used as arguments",
                "&quorumlock:wake:*",
            ),
            ("ERR this user has no permissions to run the 'select' command", "lacks +select"),
            ("ERR The user executing the script can't run this command or subcommand", "`quorumlock doctor` names it"),
            ("ERR The user executing the script can't publish to the channel mentioned in the command", "&quorumlock"),
        ] {
            let told = advice(said);
            assert!(told.starts_with(said) && told.contains(right), "{told}");
        }
    }

    #[test]
    fn what_has_nothing_to_do_with_rights_is_told_as_before() {
        assert!(advice("OOM command not allowed").contains("raise maxmemory"));
        assert_eq!(advice("ERR whatever"), "ERR whatever");
        assert!(advice("ERR unknown command 'HELLO', with args beginning with: '3'").contains("Redis 6"));
    }

    #[test]
    fn each_refusal_that_is_known_is_told_with_what_can_be_done() {
        for (said, hint) in [
            ("WRONGTYPE x", "another type"),
            ("OOM x", "raise maxmemory"),
            ("READONLY x", "configure its master"),
            ("LOADING x", "when that is done"),
            ("WRONGPASS x", "check user and password; in an address they must be percent-encoded"),
            ("BUSY x", "SCRIPT KILL"),
            ("MISCONF x", "see its log"),
        ] {
            let told = advice(said);
            assert!(told.starts_with(said) && told.contains(hint), "{told}");
        }
        assert_eq!([advice("ERR x"), advice("NOAUTH HELLO must be called")], ["ERR x", "it needs a password"]);
    }
}
