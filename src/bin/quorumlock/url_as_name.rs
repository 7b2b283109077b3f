//! Refuses a lock's name that is a node's address with a login.

use crate::cli::Command;
use crate::failure::Failure;

/// The schemes of Redis addresses that this command and other programs accept.
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

/// Fails if a lock's name is an address with a login. Names are shown and stored on the nodes, so
/// everybody could read the password.
pub(crate) fn refused(command: &Command) -> Result<(), Failure> {
    match command.names().iter().find_map(|name| scheme(name)) {
        Some(scheme) => Err(Failure::usage(format!(
            "the name is a node's address ({scheme}://***); give nodes with --nodes or QUORUMLOCK_NODES, and the name of a lock here"
        ))),
        None => Ok(()),
    }
}

pub(crate) fn has_login(name: &str) -> bool {
    scheme(name).is_some()
}

/// The scheme, if the name is an address with a login (a user or a password).
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
