//! The error type of the command: an exit code and a message.

use std::io;
use std::process::ExitCode;

use console::strip_ansi_codes;
use quorumlock::{Error, ErrorKind, NodeReport};
use serde_json::json;

use crate::output::{self, explained_below, explained_once};

/// The exit codes. The numbers are those of sysexits.h with the closest meaning.
pub(crate) const USAGE: u8 = 64;
pub(crate) const UNAVAILABLE: u8 = 69;
pub(crate) const INTERNAL: u8 = 70;
pub(crate) const TIMEOUT: u8 = 75;
pub(crate) const LOST: u8 = 76;
/// As of a program that SIGPIPE ended: 128 + 13.
const UNREAD: u8 = 141;

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

    /// An error of the library, with advice at the end of its first line.
    pub(crate) fn advised(error: Error, advice: &str) -> Self {
        let Self { code, message } = error.into();
        let (first, nodes) = message.split_at(message.find('\n').unwrap_or(message.len()));
        Self::new(code, format!("{first}; {advice}{nodes}"))
    }

    /// Adds a line to the message.
    pub(crate) fn and(self, line: &str) -> Self {
        Self { message: format!("{}\n  {line}", self.message), ..self }
    }

    /// Writes the message on standard error. With code 0, the message is only a note: by `-E 0`,
    /// the user has chosen not to treat this result as a failure. If `as_json` is set, also writes
    /// the message as an object on standard output.
    pub(crate) fn told(&self, as_json: bool) -> ExitCode {
        let message = crate::redact::hidden(&self.message);
        match self.code {
            _ if message.is_empty() => {}
            0 => output::note(&message),
            _ => output::failed(&message),
        }
        if as_json && !message.is_empty() {
            output::wait();
            let object = json!({ "error": strip_ansi_codes(&message), "exit_code": self.code });
            // Ignore an error: standard error already has the message.
            let _ = output::to_stdout(format!("{object}\n").as_bytes());
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
    /// If the reader of standard output has gone (`quorumlock status | head -1`), the message is
    /// empty, so nothing is printed.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(UNREAD, ""),
            _ => Self::internal(error.to_string()),
        }
    }
}

/// The error, with the report of each node on its own line.
fn node_by_node(error: &Error) -> String {
    let whole = error.to_string();
    let said: Vec<_> = error.nodes().iter().map(|report| format!("{}: {}", report.node, report.said)).collect();
    // The reports begin at the first node's address. Do not search for the whole first report: the
    // error's text shortens this report if the message explains another list.
    let begins = error.nodes().first().and_then(|first| whole.find(&format!(": {}: ", first.node)));
    let Some(message) = begins.map(|at| &whole[..at]) else { return whole };
    format!("{message}\n  {}", explained_below(message, said).join("\n  "))
}

/// Why a server refuses a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// The client has no password, and the server asks for one.
    Missing,
    /// The password is wrong, or the user is unknown.
    Wrong,
    /// The client has a password, and the server has none.
    Unwanted,
}

/// Texts in error messages of servers and of the library. Each text shows why a server refuses the
/// login.
const REFUSED: [(&str, Login); 5] = [
    ("without any password configured", Login::Unwanted),
    ("NOAUTH", Login::Missing),
    ("the server needs a password", Login::Missing),
    ("WRONGPASS", Login::Wrong),
    ("invalid password", Login::Wrong),
];

impl Login {
    /// The reason, if this message says that a server refuses the login.
    pub(crate) fn refused(why: &str) -> Option<Self> {
        REFUSED.iter().find(|(sign, _)| why.contains(sign)).map(|(_, login)| *login)
    }

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
    fn login_refusal_is_missing_wrong_or_unwanted_with_a_remedy() {
        for (why, login, mend) in [
            ("down: the server needs a password", Login::Missing, "Give its password"),
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
