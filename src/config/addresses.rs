//! Nodes' addresses in configurations. The command reads addresses with the same functions.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// Splits a list of addresses at its commas. Errors quote no part of the list, because any part may
/// belong to a password that contains a comma.
pub(crate) fn split(list: &str) -> Result<Vec<String>, String> {
    let addresses: Vec<_> =
        list.split(',').map(str::trim).filter(|address| !address.is_empty()).map(str::to_owned).collect();
    let lacking = addresses.iter().position(|address| !address.contains("://")).filter(|_| addresses.len() > 1);
    match lacking {
        Some(node) => Err(format!(
            "node {} of {}: a node's address lacks its scheme, as in redis://eu:6379. The list is split at commas: in \
             a user or password write %2C for a comma",
            node + 1,
            addresses.len()
        )),
        None => Ok(addresses),
    }
}

/// A node's address, user and password. Not `Debug`, because of the password.
pub(crate) struct Parts<'a> {
    pub(crate) url: &'a str,
    pub(crate) user: Option<&'a str>,
    pub(crate) password: Option<&'a str>,
    /// The environment variable that holds the password.
    pub(crate) password_env: Option<&'a str>,
}

impl Parts<'_> {
    /// The address with user and password, percent-encoded. With `later`, the password may be
    /// missing, because it will come from a password file.
    pub(crate) fn joined(&self, variable: impl Fn(&str) -> Option<String>, later: bool) -> Result<String, String> {
        let password = match (self.secret(variable)?, self.user) {
            (None, None) => return Ok(self.url.to_owned()),
            (None, Some(_)) if !later => {
                return Err("user without password; add password_env, or a password_file for all nodes".to_owned());
            }
            (password, _) => password.unwrap_or_default(),
        };
        let Some((scheme, rest)) = self.url.split_once("://") else {
            return Err("its url has no scheme; write redis://host:port".to_owned());
        };
        if rest.split('/').next().is_some_and(|authority| authority.contains('@')) {
            return Err("its url has a user or password already; give them once".to_owned());
        }
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let user = self.user.map(encoded).unwrap_or_default();
        Ok(format!("{scheme}://{user}:{}@{rest}", encoded(&password)))
    }

    fn secret(&self, variable: impl Fn(&str) -> Option<String>) -> Result<Option<String>, String> {
        // Show the name only if it looks like the name of a variable. Another text may be the
        // password itself.
        let is_usual = |name: &str| name.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'));
        let unset = |name: &str| match is_usual(name) {
            true => format!("the environment variable {name} (password_env) is not set"),
            false => "the environment variable that password_env names is not set".to_owned(),
        };
        match (self.password, self.password_env) {
            (Some(_), Some(_)) => Err("give password or password_env, not both".to_owned()),
            (None, Some(name)) => variable(name).ok_or_else(|| unset(name)).map(Some),
            (password, None) => Ok(password.map(str::to_owned)),
        }
    }
}
