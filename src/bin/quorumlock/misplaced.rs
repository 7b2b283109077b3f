//! Addresses of nodes at the wrong place on a command line or in a variable. They may have passwords.

use std::env;

use crate::cli::Command;
use crate::failure::Failure;

/// How addresses of Redis begin, here and elsewhere.
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

/// An error if a name is an address with a user or a password: names are shown, and are kept on the
/// nodes.
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

/// What is said of a command line, without the logins in its arguments and in the variables that
/// belong to it.
pub(crate) fn hidden(said: &str) -> String {
    let variables = env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("QUORUMLOCK_"));
    let given = env::args_os().skip(1).chain(variables.map(|(_, value)| value));
    given.fold(said.to_owned(), |said, given| without(said, &given.to_string_lossy()))
}

/// A login is what stands before an `@`, if it has a `:` that parts user and password, or an address
/// begins there.
fn without(said: String, given: &str) -> String {
    given.split(',').fold(said, |said, part| {
        let Some((before, _)) = part.rsplit_once('@') else { return said };
        let login = before.split_once("://").map_or(before, |(_, login)| login);
        let hides = !login.is_empty() && (login.len() < before.len() || login.contains(':'));
        if hides { said.replace(&format!("{login}@"), "***@") } else { said }
    })
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

    #[test]
    fn nothing_else_of_what_is_said_changes() {
        let told = |given: &str| without(format!("what is {given:?}? p1@ me@x"), given);
        for (given, shown) in [
            ("--nodes=redis://u:p1@eu,rediss://:p 2@us", "--nodes=redis://***@eu,rediss://***@us"),
            ("redis://a@b@asia", "redis://***@asia"),
            ("u:p1@eu:6379", "***@eu:6379"),
            ("redis:/u:pw@eu", "***@eu"),
            ("me@x", "me@x"),
            ("x", "x"),
        ] {
            assert_eq!(told(given), format!("what is {shown:?}? p1@ me@x"));
        }
    }
}
