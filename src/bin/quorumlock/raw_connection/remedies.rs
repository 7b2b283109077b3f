//! What to do about a server's error. The error is recognised by its first words.

/// First words of errors, each with its remedy. The first match counts.
const MENDS: &[(&str, &str)] = &[
    ("DENIED", "Set a password for the server's default user and log in with it, or set protected-mode no."),
    ("ERR Client sent AUTH", OPEN),
    ("ERR max number of clients", "Raise maxclients on the server, or end clients that are not needed."),
    ("ERR unknown command 'HELLO'", OLD),
    ("ERR unknown command `HELLO`", OLD),
    ("ERR unknown command", "Do not rename this command: remove its rename-command from the server's configuration."),
    ("BUSY", "End the script that blocks the server: run SCRIPT KILL there."),
    ("LOADING", "Wait until the server has loaded its data."),
    ("MISCONF", "Free disk space and see its log. Or switch persistence off: locks do not need persistence."),
    ("NOREPLICAS", "Set min-replicas-to-write 0: the quorum replaces replication."),
    ("CLUSTERDOWN", "Set cluster-enabled no."),
];

const OLD: &str = "Use Redis 6 or later, or Valkey, and do not rename the command HELLO there.";

const OPEN: &str =
    "The server asks for no password, so anybody may log in. Set a password there, or give no password here.";

/// What to do about an error; `None` if no remedy is known.
pub(crate) fn mend(why: &str) -> Option<&'static str> {
    MENDS.iter().find(|(begins, _)| why.starts_with(begins)).map(|(_, mend)| *mend)
}

/// Whether this error means that the server refuses every write.
pub(crate) fn refuses_writes(why: &str) -> bool {
    ["MISCONF", "NOREPLICAS"].iter().any(|code| why.starts_with(code))
}

/// Whether this error means that the server refuses every command on this connection.
pub(crate) fn refuses_connection(why: &str) -> bool {
    ["NOAUTH", "DENIED", "ERR max number of clients"].iter().any(|begins| why.starts_with(begins))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_of_each_kind_has_its_own_remedy() {
        for (why, says) in [
            ("DENIED Redis is running in protected mode because ..", "protected-mode no"),
            ("ERR max number of clients reached", "maxclients"),
            ("ERR unknown command 'HELLO', with args beginning with: '3'", "Redis 6 or later"),
            ("ERR unknown command `HELLO`, with args beginning with: `3`", "Redis 6 or later"),
            ("ERR unknown command 'INFO', with args beginning with: ", "rename-command"),
            ("BUSY Redis is busy running a script.", "SCRIPT KILL"),
            ("LOADING Redis is loading the dataset in memory", "Wait"),
            ("MISCONF Redis is configured to save RDB snapshots", "disk space"),
            ("NOREPLICAS Not enough good replicas to write.", "min-replicas-to-write 0"),
            ("CLUSTERDOWN Hash slot not served", "cluster-enabled no"),
        ] {
            assert!(mend(why).is_some_and(|mend| mend.contains(says) && mend.ends_with('.')), "{why}");
        }
        assert_eq!(mend("NOPERM this user has no permissions to run the 'info' command"), None);
    }
}
