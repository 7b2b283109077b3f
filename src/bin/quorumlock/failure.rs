//! How the command fails: an exit code and what is said.

use std::io;
use std::process::ExitCode;

use quorumlock::{Error, ErrorKind, NodeReport};

use crate::output::explained_once;

/// The codes of sysexits.h where one fits.
pub(crate) const USAGE: u8 = 64;
pub(crate) const UNAVAILABLE: u8 = 69;
pub(crate) const INTERNAL: u8 = 70;
pub(crate) const TIMEOUT: u8 = 75;
pub(crate) const LOST: u8 = 76;

/// What a subcommand comes to.
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

    /// With one line more.
    pub(crate) fn and(self, line: &str) -> Self {
        Self { message: format!("{}\n  {line}", self.message), ..self }
    }

    /// Says it on standard error. With 0 it was asked for.
    pub(crate) fn told(&self) -> ExitCode {
        let message = crate::logins::hidden(&self.message);
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
    /// Standard output that went away (`quorumlock status | head -1`) is nobody's fault, and nobody
    /// reads about it.
    fn from(error: io::Error) -> Self {
        let gone = error.kind() == io::ErrorKind::BrokenPipe;
        Self::internal(if gone { String::new() } else { error.to_string() })
    }
}

/// The error, with what each node said on a line of its own.
fn node_by_node(error: &Error) -> String {
    let whole = error.to_string();
    let said: Vec<_> = error.nodes().iter().map(|report| format!("{}: {}", report.node, report.said)).collect();
    let begins = said.first().and_then(|first| whole.find(&format!(": {first}")));
    let Some(message) = begins.map(|at| &whole[..at]) else { return whole };
    format!("{message}\n  {}", explained_once(said).join("\n  "))
}

/// How servers refuse a password, and a connection that gave none.
const REFUSED: [&str; 5] =
    ["WRONGPASS", "NOAUTH", "it needs a password", "invalid password", "without any password configured"];

/// Whether that is why a node cannot be used.
pub(crate) fn refuses_login(why: &str) -> bool {
    REFUSED.iter().any(|sign| why.contains(sign))
}

/// What each node said, on lines of their own below a message.
pub(crate) fn below(message: &str, nodes: &[NodeReport]) -> String {
    let said = nodes.iter().map(|report| format!("\n  {}: {}", report.node, report.said));
    [message.to_owned()].into_iter().chain(explained_once(said)).collect()
}
