//! Refuses addresses of nodes in the place of a lock's name.

use crate::cli::Command;
use crate::failure::Failure;

/// The schemes of addresses of Redis, in this command and in other programs.
const SCHEMES: [&str; 10] = [
    "redis",
    "rediss",
    "redis+unix",
    "redis+tls",
    "rediss+tls",
    "redis-socket",
    "redis-sentinel",
    "valkey",
    "valkeys",
    "unix",
];

/// An error if a name is an address with a user or a password: names are shown, and are stored on
/// the nodes.
pub(crate) fn refused(command: &Command) -> Result<(), Failure> {
    match command.names().iter().find_map(|name| scheme(name)) {
        Some(scheme) => Err(Failure::usage(format!(
            "the name is a node's address ({scheme}://***); give nodes with --nodes or QUORUMLOCK_NODES, and the name of a lock here"
        ))),
        None => Ok(()),
    }
}

/// The scheme of an address with a login.
fn scheme(name: &str) -> Option<String> {
    let (scheme, rest) = name.trim().split_once("://").filter(|(_, rest)| rest.contains('@'))?;
    Some(scheme.to_lowercase()).filter(|scheme| SCHEMES.contains(&&**scheme) && !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_addresses_unless_they_have_a_login() {
        for name in ["rediss://u:a@b@eu:6380", " REDISS://u@eu", "valkeys://:p@eu"] {
            assert!(scheme(name).is_some(), "{name}");
        }
        for name in ["job", "redis://eu", "https://user@example.com", "mail://me@example.com", "a@b", "://@"] {
            assert_eq!(scheme(name), None, "{name}");
        }
    }
}
