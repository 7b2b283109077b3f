//! How the command fails: with an exit code and a message.

use std::io;
use std::process::ExitCode;

use quorumlock::{Error, ErrorKind, NodeReport};

use crate::output::{explained_below, explained_once};

/// Exit codes, from sysexits.h if one fits.
pub(crate) const USAGE: u8 = 64;
pub(crate) const UNAVAILABLE: u8 = 69;
pub(crate) const INTERNAL: u8 = 70;
pub(crate) const TIMEOUT: u8 = 75;
pub(crate) const LOST: u8 = 76;

/// The result of a subcommand.
pub(crate) type Outcome = Result<ExitCode, Failure>;

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(INTERNAL, message)
    }

    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// Adds a line to the message.
    pub(crate) fn and(self, line: &str) -> Self {
        Self { message: format!("{}\n  {line}", self.message), ..self }
    }

    /// Writes the message on standard error. With code 0 the user accepts this result, so the
    /// message is only a note.
    pub(crate) fn told(&self) -> ExitCode {
        let message = crate::redact::hidden(&self.message);
        match self.code {
            _ if message.is_empty() => {}
            0 => crate::output::note(&message),
            _ => crate::output::failed(&message),
        }
        ExitCode::from(self.code)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Contended | ErrorKind::Timeout => TIMEOUT,
            ErrorKind::Unavailable => UNAVAILABLE,
            ErrorKind::Lost => LOST,
            ErrorKind::Config => USAGE,
            _ => INTERNAL,
        };
        Self::new(code, node_by_node(&error))
    }
}

impl From<io::Error> for Failure {
    /// A closed standard output (`quorumlock status | head -1`) is not worth a message.
    fn from(error: io::Error) -> Self {
        let gone = error.kind() == io::ErrorKind::BrokenPipe;
        Self::internal(if gone { String::new() } else { error.to_string() })
    }
}

/// The error, with the report of each node on its own line.
fn node_by_node(error: &Error) -> String {
    let whole = error.to_string();
    let said: Vec<_> = error.nodes().iter().map(|report| format!("{}: {}", report.node, report.said)).collect();
    // The error explains another list only once, so its text about the first node may be shorter
    // than that node's report. So look only for the node's address.
    let begins = error.nodes().first().and_then(|first| whole.find(&format!(": {}: ", first.node)));
    let Some(message) = begins.map(|at| &whole[..at]) else { return whole };
    format!("{message}\n  {}", explained_below(message, said).join("\n  "))
}

/// What is wrong with a login that a server refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// No password was given, and the server asks for one.
    Missing,
    /// The password is wrong, or the user is unknown.
    Wrong,
    /// A password was given, and the server has none.
    Unwanted,
}

/// Parts of messages, and what they say about the login.
const REFUSED: [(&str, Login); 5] = [
    ("without any password configured", Login::Unwanted),
    ("NOAUTH", Login::Missing),
    ("it needs a password", Login::Missing),
    ("WRONGPASS", Login::Wrong),
    ("invalid password", Login::Wrong),
];

impl Login {
    /// What is wrong with the login, if this message says that a server refuses it.
    pub(crate) fn refused(why: &str) -> Option<Self> {
        REFUSED.iter().find(|(sign, _)| why.contains(sign)).map(|(_, login)| *login)
    }

    /// What to do.
    pub(crate) const fn mend(self) -> &'static str {
        match self {
            Self::Missing => {
                "Give its password: in its address (percent-encoded), in the file of --config, or by --password-file."
            }
            Self::Wrong => "Correct user and password in its address, in the password file, or on the server.",
            Self::Unwanted => {
                "The server asks for no password, so anybody may log in. Set one there (requirepass), or give none here."
            }
        }
    }
}

/// Whether this message says that the node refuses the login.
pub(crate) fn refuses_login(why: &str) -> bool {
    Login::refused(why).is_some()
}

/// The message, with the report of each node on its own line below.
pub(crate) fn below(message: &str, nodes: &[NodeReport]) -> String {
    let said = nodes.iter().map(|report| format!("\n  {}: {}", report.node, report.said));
    [message.to_owned()].into_iter().chain(explained_once(said)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_login_is_told_by_what_is_wrong_with_it() {
        for (why, login, mend) in [
            ("down: it needs a password", Login::Missing, "Give its password"),
            ("NOAUTH Authentication required.", Login::Missing, "Give its password"),
            (
                "WRONGPASS invalid username-password pair or user is disabled.",
                Login::Wrong,
                "Correct user and password",
            ),
            (
                "ERR AUTH <password> called without any password configured for the default user.",
                Login::Unwanted,
                "give none here",
            ),
        ] {
            assert_eq!(Login::refused(why), Some(login), "{why}");
            assert!(login.mend().contains(mend), "{why}");
        }
        assert_eq!(Login::refused("Connection refused"), None);
    }
}
