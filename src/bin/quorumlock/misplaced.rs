//! Addresses of nodes at the wrong place on a command line. They may have passwords.

use std::ffi::OsString;

use crate::cli::Command;
use crate::failure::Failure;

const SCHEMES: [&str; 3] = ["redis", "rediss", "redis+unix"];

/// An error if a name is an address with a user or a password: names are shown, and are kept on the
/// nodes.
pub(crate) fn refused(command: &Command) -> Result<(), Failure> {
    match command.names().iter().find_map(|name| login(name)) {
        Some((scheme, _)) => Err(Failure::usage(format!(
            "the name is a node's address ({scheme}://***); give nodes with --nodes or QUORUMLOCK_NODES, and the name of a lock here"
        ))),
        None => Ok(()),
    }
}

/// Scheme and login of an address that has one.
fn login(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://").filter(|(scheme, _)| SCHEMES.contains(scheme))?;
    rest.rsplit_once('@').map(|(login, _)| (scheme, login))
}

/// What is said of a command line that cannot be parsed, without the logins in its arguments.
pub(crate) fn hidden(said: &str, arguments: impl Iterator<Item = OsString>) -> String {
    arguments.fold(said.to_owned(), |said, argument| {
        let argument = argument.to_string_lossy();
        let logins = argument.split("://").skip(1).filter_map(|rest| rest.rsplit_once('@'));
        logins.fold(said, |said, (login, _)| said.replace(&format!("://{login}@"), "://***@"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_addresses_unless_they_have_a_login() {
        assert_eq!(login("rediss://u:a@b@eu:6380"), Some(("rediss", "u:a@b")));
        for name in ["job", "redis://eu", "https://user@example.com", "mail://me@example.com", "a@b", "://@"] {
            assert_eq!(login(name), None, "{name}");
        }
    }

    #[test]
    fn nothing_else_of_what_is_said_changes() {
        let arguments = ["--nodes=redis://u:p1@eu,rediss://:p 2@us", "redis://u@asia", "x"].map(OsString::from);
        let said = format!("error: what are {:?}? u:p1@", arguments);
        let hidden = hidden(&said, arguments.into_iter());
        assert_eq!(
            hidden,
            r#"error: what are ["--nodes=redis://***@eu,rediss://***@us", "redis://***@asia", "x"]? u:p1@"#
        );
    }
}
