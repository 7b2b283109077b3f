//! Hides the logins of the nodes' addresses in messages. A login is a user, a password, or both.

use std::env;

/// Hides in a text the logins that occur in the command's arguments, or in environment variables
/// whose names begin with `QUORUMLOCK_`.
pub(crate) fn hidden(said: &str) -> String {
    let variables = env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("QUORUMLOCK_"));
    let given = env::args_os().skip(1).chain(variables.map(|(_, value)| value));
    given.fold(said.to_owned(), |said, given| without(said, &given.to_string_lossy()))
}

/// Hides the logins that occur in the argument `given`. A login is the text before an `@`, if this
/// text follows the scheme of an address or has a `:` between user and password.
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
    fn redaction_replaces_credentials_and_no_other_text() {
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
