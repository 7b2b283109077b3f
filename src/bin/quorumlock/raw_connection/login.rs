//! Connects and logs in, and says what to do if that fails.

use std::io;
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::connection::{Connection, Reply};
use super::remedies::mend;
use super::target::{Place, Target};
use super::tls::encrypted;
use crate::failure::Login;
use crate::trouble::Trouble;

/// The remedy if a connection without TLS ends at once. If a server expects TLS, it answers such a
/// connection's first command with an alert, or closes the connection.
pub(crate) const TO_TLS: &str = "Write rediss:// if this port expects TLS. If not, see the server's log.";

const NOT_TLS: &str = "Does this port speak TLS? If not, write redis://. If so, the server hangs: see its log.";

/// Why the connection or a command failed, and what to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) why: String,
    /// What to do; empty if that is unknown.
    pub(crate) mend: String,
    pub(crate) kind: Kind,
}

/// The step that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Reaching,
    Tls,
    Login,
    /// The user may not select the database.
    Select,
}

/// A connection that is logged in.
pub(crate) struct Open {
    pub(crate) connection: Connection,
    /// For how many days the server's certificates will be accepted; `None` without TLS.
    pub(crate) days: Option<u32>,
    /// Whether the address has a password, although the server asks for none.
    pub(crate) unguarded: bool,
}

impl Open {
    /// Connects and logs in. Each step takes `step` at most, except name resolution, which has no
    /// limit. Blocks.
    pub(crate) fn to(target: &Target, step: Duration) -> Result<Self, Failed> {
        let mut open = Self::connect(target, step)?;
        for words in target.greeting() {
            let reply = open.connection.ask(&words).map_err(|error| Failed::asking(target, &error))?;
            match reply {
                // An unneeded password is no failure. The library logs in with HELLO, and a server
                // without a password accepts any password in HELLO.
                Reply::Refused(why) if Login::refused(&why) == Some(Login::Unwanted) => open.unguarded = true,
                Reply::Refused(why) => return Err(Failed::refused(words[0], why)),
                _ => {}
            }
        }
        Ok(open)
    }

    fn connect(target: &Target, step: Duration) -> Result<Self, Failed> {
        match &target.place {
            Place::Tcp { host, port, tls: false } => {
                Ok(Self { connection: Connection::new(reached(host, *port, step)?), days: None, unguarded: false })
            }
            Place::Tcp { host, port, tls: true } => {
                let agreed = encrypted(&target.tls, host, reached(host, *port, step)?);
                let (stream, days) = agreed.map_err(|error| Failed::agreeing(target, &error))?;
                Ok(Self { connection: Connection::new(stream), days: Some(days), unguarded: false })
            }
            Place::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(|error| Failed::reaching(&error))?;
                let limited = stream.set_read_timeout(Some(step)).and(stream.set_write_timeout(Some(step)));
                limited.map_err(|error| Failed::reaching(&error))?;
                Ok(Self { connection: Connection::new(stream), days: None, unguarded: false })
            }
        }
    }
}

impl Failed {
    pub(crate) fn new(why: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { why: why.into(), mend: mend.into(), kind: Kind::Reaching }
    }

    /// A failure to connect, before anything was sent.
    fn reaching(error: &io::Error) -> Self {
        let mend = match error.kind() {
            io::ErrorKind::ConnectionRefused => "Start the server there, or correct the port in its address.",
            io::ErrorKind::NotFound => "Start the server, or correct the path of its socket.",
            io::ErrorKind::PermissionDenied => "Give this user access to the server's socket (unixsocketperm).",
            _ if is_late(error) => "See whether the machine is up, and whether a firewall blocks this port.",
            _ => "Check its address, the network and firewalls.",
        };
        Self::new(said(error), mend)
    }

    /// A failure of the TLS handshake.
    fn agreeing(target: &Target, error: &io::Error) -> Self {
        match is_late(error) {
            true => Self { kind: Kind::Tls, ..Self::new("no TLS connection in time", NOT_TLS) },
            false => Self::asking(target, error),
        }
    }

    /// A failure of an open connection.
    pub(crate) fn asking(target: &Target, error: &io::Error) -> Self {
        let ended = !is_late(error);
        match &target.place {
            Place::Tcp { tls: true, .. } => match Trouble::of(&format!("{error:?}"), target.tls.is_identified()) {
                Some(Trouble { what, mend }) => Self { why: what, mend: sentence(&mend), kind: Kind::Tls },
                None => Self::new(said(error), "See the server's log."),
            },
            Place::Tcp { tls: false, .. } if ended => Self::new(said(error), TO_TLS),
            _ if ended => Self::new(said(error), "See the server's log."),
            _ => Self::new(said(error), "See whether the server hangs. A longer --node-timeout may help."),
        }
    }

    /// The failure if the server refused `command` with the error `why`.
    pub(crate) fn refused(command: &str, why: String) -> Self {
        let (kind, mend) = match (command, mend(&why)) {
            _ if Login::refused(&why).is_some() => (Kind::Login, Login::refused(&why).map_or("", Login::mend)),
            (_, Some(mend)) => (Kind::Reaching, mend),
            ("SELECT", None) if why.contains("permission") => {
                (Kind::Select, "ACL SETUSER the user with +select, or name no database in its address.")
            }
            ("SELECT", None) => {
                (Kind::Reaching, "Name a database that the server has (its option databases), or none.")
            }
            _ => (Kind::Reaching, "See the server's log."),
        };
        Self { kind, ..Self::new(why, mend) }
    }
}

/// Connects to the first of the host's addresses that accepts a connection.
fn reached(host: &str, port: u16, step: Duration) -> Result<TcpStream, Failed> {
    let unknown =
        |error: io::Error| Failed::new(said(&error), "Correct the host in its address, or mend name resolution (DNS).");
    let mut met = unknown(io::Error::other("the host's name has no address"));
    for address in (host, port).to_socket_addrs().map_err(unknown)? {
        match TcpStream::connect_timeout(&address, step) {
            Ok(stream) => {
                let limited = stream.set_read_timeout(Some(step)).and(stream.set_write_timeout(Some(step)));
                limited.and(stream.set_nodelay(true)).map_err(|error| Failed::reaching(&error))?;
                return Ok(stream);
            }
            Err(error) => met = Failed::reaching(&error),
        }
    }
    Err(met)
}

/// The addresses of a host. Blocks.
pub(crate) fn resolved(host: &str) -> Vec<IpAddr> {
    (host, 0).to_socket_addrs().map(|all| all.map(|address| address.ip()).collect()).unwrap_or_default()
}

/// The text of an I/O error.
pub(crate) fn said(error: &io::Error) -> String {
    if is_late(error) { "no answer in time".to_owned() } else { error.to_string() }
}

/// Whether the error is a timeout. Sockets report a timeout as `WouldBlock`.
fn is_late(error: &io::Error) -> bool {
    [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&error.kind())
}

/// The text as a sentence: with a capital letter and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}
