//! The sockets on which the agent listens: a Unix socket, a TCP port on loopback, and sockets that
//! systemd has opened.

use std::env;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use listenfd::ListenFd;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::process::umask;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::time::sleep;

use super::stream::Socket;
use crate::cli::Serve;
use crate::failure::Failure;

/// The pause after a failed accept, for example because no file descriptor is left.
const PAUSE: Duration = Duration::from_millis(100);
/// The modes of the socket's file: only its owner may connect, or also its group.
const OWN: u32 = 0o600;
const WITH_GROUP: u32 = 0o660;

pub(super) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// All sockets, and the socket's file if this agent has made one.
pub(super) struct Listeners {
    pub(super) all: Vec<Listener>,
    /// The addresses, for people.
    pub(super) shown: Vec<String>,
    /// Removed at the end.
    file: Option<SocketFile>,
}

impl Listener {
    pub(super) async fn accept(&self) -> Socket {
        loop {
            let accepted = match self {
                Self::Unix(listener) => listener.accept().await.map(|(socket, _)| Socket::Unix(socket)),
                Self::Tcp(listener) => listener.accept().await.map(|(socket, _)| Socket::Tcp(socket)),
            };
            match accepted {
                Ok(socket) => return socket,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

impl Listeners {
    /// Opens the sockets that the options name, and takes the sockets of systemd. If there are
    /// none, opens the default socket.
    pub(super) async fn open(args: &Serve) -> Result<Self, Failure> {
        let mut listeners = Self::of_systemd()?;
        if let Some(address) = &args.listen {
            listeners.listen(loopback(address)?)?;
        }
        match &args.socket {
            Some(path) => listeners.bind(path, args).await?,
            None if listeners.all.is_empty() => listeners.bind(&default_path(), args).await?,
            None => {}
        }
        Ok(listeners)
    }

    fn of_systemd() -> Result<Self, Failure> {
        let mut listeners = Self { all: Vec::new(), shown: Vec::new(), file: None };
        let mut given = ListenFd::from_env();
        for index in 0..given.len() {
            let socket = given
                .take_unix_listener(index)
                .ok()
                .flatten()
                .ok_or_else(|| Failure::usage(format!("socket {index} of systemd is no Unix stream socket")))?;
            socket.set_nonblocking(true)?;
            listeners.all.push(Listener::Unix(UnixListener::from_std(socket)?));
            listeners.shown.push("a Unix socket of systemd".to_owned());
        }
        Ok(listeners)
    }

    fn listen(&mut self, address: SocketAddr) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::usage(format!("cannot listen on {address}: {error}"));
        let socket = std::net::TcpListener::bind(address).map_err(failed)?;
        socket.set_nonblocking(true)?;
        let socket = TcpListener::from_std(socket).map_err(failed)?;
        // Port 0 means any free port, so show the port that was chosen.
        self.shown.push(format!("http://{}", socket.local_addr()?));
        self.all.push(Listener::Tcp(socket));
        Ok(())
    }

    async fn bind(&mut self, path: &Path, args: &Serve) -> Result<(), Failure> {
        let failed = |why: String| Failure::usage(format!("cannot listen on {}: {why}", path.display()));
        let group = args.socket_group.as_deref().map(group).transpose().map_err(failed)?;
        let mode = args.socket_mode.unwrap_or(if group.is_some() { WITH_GROUP } else { OWN });
        let (socket, file) = SocketFile::bind(path).await.map_err(failed)?;
        chown(path, None, group).map_err(|error| failed(format!("its group cannot be set: {error}")))?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| failed(error.to_string()))?;
        socket.set_nonblocking(true)?;
        self.all.push(Listener::Unix(UnixListener::from_std(socket)?));
        self.shown.push(path.display().to_string());
        self.file = Some(file);
        Ok(())
    }

    pub(super) fn close(self) {
        drop(self.file);
    }
}

/// The file of a socket, and its lock file. An agent locks the lock file while it uses the socket.
struct SocketFile {
    path: PathBuf,
    _lock: File,
}

impl SocketFile {
    /// Binds a socket that only this user can use until the caller sets its mode. Replaces a socket
    /// on which nobody listens.
    async fn bind(path: &Path) -> Result<(StdUnixListener, Self), String> {
        let in_use = || "another program listens there".to_owned();
        let lock = lock_file(&beside(path)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "its folder does not exist; make it, or give another --socket".to_owned(),
            _ => format!("{}: {error}", beside(path).display()),
        })?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| in_use())?;
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => return Err("there is a file that is no socket".to_owned()),
            // This call does not wait, even if a program listens and accepts nothing.
            Ok(_) => match UnixStream::connect(path).await {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(path).map_err(|error| error.to_string())?;
                }
                _ => return Err(in_use()),
            },
            Err(_) => {}
        }
        let before = umask(Mode::from_raw_mode(0o177));
        let bound = StdUnixListener::bind(path);
        umask(before);
        let socket = bound.map_err(|error| error.to_string())?;
        Ok((socket, Self { path: path.to_owned(), _lock: lock }))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Opens the lock file. Does not follow a link, which could lead anywhere in another user's folder.
fn lock_file(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    File::options().create(true).append(true).mode(0o600).custom_flags(flags).open(path)
}

/// The path of the lock file. Nobody removes this file, because another agent may be about to lock
/// it.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// The default socket, in the first folder that is set: systemd's, the user's, or else
/// /run/quorumlock.
fn default_path() -> PathBuf {
    let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // This variable may have several folders.
    let of_service =
        env::var("RUNTIME_DIRECTORY").ok().and_then(|folders| folders.split(':').next().map(PathBuf::from));
    let of_service = of_service.filter(|folder| !folder.as_os_str().is_empty());
    of_service
        .map(|folder| folder.join("agent.sock"))
        .or_else(|| folder("XDG_RUNTIME_DIR").map(|folder| folder.join("quorumlock.sock")))
        .unwrap_or_else(|| PathBuf::from("/run/quorumlock/agent.sock"))
}

fn loopback(text: &str) -> Result<SocketAddr, Failure> {
    let text = text.replace("localhost:", "127.0.0.1:");
    let address = text
        .parse()
        .map_err(|_| Failure::usage(format!("--listen {text:?} is no address; write 127.0.0.1:PORT or [::1]:PORT")))?;
    only_loopback(address)?;
    Ok(address)
}

fn only_loopback(address: SocketAddr) -> Result<(), Failure> {
    match address.ip().is_loopback() {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{address} is not on loopback: other hosts could take locks there, without a password and without encryption"
        ))),
    }
}

/// The number of a group: a number, or a name in /etc/group.
fn group(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let groups = fs::read_to_string("/etc/group").map_err(|error| format!("/etc/group: {error}"))?;
    let found = groups.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == name);
    let number = found.and_then(|fields| fields.get(2)?.parse().ok());
    number.ok_or_else(|| format!("/etc/group has no group {name:?}; give its number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_accepts_only_loopback_addresses() {
        for text in ["127.0.0.1:80", "[::1]:0", "localhost:9", "127.1.2.3:1"] {
            assert!(loopback(text).is_ok(), "{text}");
        }
        for text in ["0.0.0.0:80", "[::]:80", "10.0.0.1:80", "80", "example.com:80", ""] {
            assert!(loopback(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lock_file_is_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let [path, link] = ["agent.sock.lock", "link"].map(|name| folder.path().join(name));
        assert!(lock_file(&path).is_ok());
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(lock_file(&link).is_err());
    }

    #[test]
    fn groups_have_names_and_numbers() {
        assert_eq!((group("root"), group("4711")), (Ok(0), Ok(4_711)));
        assert!(group("no such group").is_err());
    }
}
