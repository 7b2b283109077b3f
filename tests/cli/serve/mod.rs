//! `quorumlock serve`, as its clients see it: HTTP over a socket.

mod elections;
mod ends;
mod kept;
mod locks;
mod requests;
mod sockets;

use std::fmt::Display;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Background, over, until};
use crate::common::server::Server;
use crate::common::{PATIENCE, program};

/// A timeout for a request that must succeed.
const HOUR: u64 = 3_600_000;
/// The header `Host` of requests over a Unix socket.
const HOST: &str = "unix-agent";
/// A timeout that must pass: see `IN_VAIN`.
const IN_VAIN_MS: u64 = 5_000;

/// An agent with a socket in a folder of its own.
struct Agent {
    process: Background,
    folder: TempDir,
}

impl Agent {
    fn start(servers: &[Server], options: &[&str]) -> Self {
        Self::within(tempfile::tempdir().unwrap(), servers, options)
    }

    fn within(folder: TempDir, servers: &[Server], options: &[&str]) -> Self {
        let mut process = Background::start(serve(servers, folder.path()).args(options));
        process.says("listening on");
        let agent = Self { process, folder };
        // A try before the nodes are connected would fail.
        until("a quorum votes", || agent.client().asks("GET", "/healthz", "").0 == 200);
        agent
    }

    fn socket(&self) -> PathBuf {
        socket(self.folder.path())
    }

    fn client(&self) -> Client {
        Client::to(&self.socket())
    }

    /// Waits for this warning about a lock of this process. The line must have the lock's id, and
    /// the client's pid and uid.
    fn logs(&mut self, lock: &Value, warning: &str) {
        let mut line = None;
        until(warning, || {
            let text = self.process.err().text();
            let mut whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            line = whole.find(|line| line.contains(warning)).map(str::to_owned);
            line.is_some()
        });
        let line = line.unwrap();
        let (pid, uid) = (std::process::id(), rustix::process::getuid().as_raw());
        for field in [format!("id={}", lock["id"].as_str().unwrap()), format!("pid={pid}"), format!("uid={uid}")] {
            assert!(line.contains(&field), "{field} is missing: {line}");
        }
    }

    /// A count from the agent's status.
    fn counts(&self, what: &str) -> u64 {
        let (status, told) = self.client().asks("GET", "/v1/status", "");
        assert_eq!(status, 200, "{told}");
        told["agent"][what].as_u64().unwrap()
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("agent.sock")
}

/// `quorumlock serve --socket FOLDER/agent.sock`
fn serve(servers: &[Server], folder: &Path) -> Command {
    let mut command = over(servers);
    command.arg("serve").arg("--socket").arg(socket(folder)).env_remove("XDG_RUNTIME_DIR");
    command
}

/// A shell with this script, in which `exec "$@"` runs the command.
fn by_shell(script: &str, command: &Command) -> Command {
    let mut shell = program::command("sh");
    shell.args(["-c", script, "sh"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

/// A connection to an agent.
struct Client {
    writer: Box<dyn Write + Send>,
    reader: BufReader<Box<dyn Read + Send>>,
    unix: Option<UnixStream>,
    /// The header `Host` of requests.
    host: String,
}

impl Client {
    fn to(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let clone = || stream.try_clone().unwrap();
        let (writer, reader) = (Box::new(clone()), BufReader::new(Box::new(clone()) as Box<dyn Read + Send>));
        Self { writer, reader, unix: Some(stream), host: HOST.to_owned() }
    }

    fn to_port(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let clone = stream.try_clone().unwrap();
        let (writer, reader) = (Box::new(clone), BufReader::new(Box::new(stream) as Box<dyn Read + Send>));
        Self { writer, reader, unix: None, host: format!("127.0.0.1:{port}") }
    }

    fn writes(&mut self, bytes: impl AsRef<[u8]>) {
        self.writer.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a request, and does not wait for the answer.
    fn sends(&mut self, method: &str, path: &str, body: impl Display) {
        self.sends_with("", method, path, body);
    }

    /// As `sends`, with more headers.
    fn sends_with(&mut self, headers: &str, method: &str, path: &str, body: impl Display) {
        self.writes(request(method, path, headers, &body.to_string()).replacen(HOST, &self.host, 1));
    }

    /// Waits for an answer.
    fn hears(&mut self) -> (u16, Value) {
        let (status, length) = self.head();
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into()))
    }

    /// The status of an answer, and the length of its body.
    fn head(&mut self) -> (u16, usize) {
        let (mut status, mut length) = (0, 0);
        loop {
            let line = self.line();
            match line.split_once(": ") {
                None if line.is_empty() => return (status, length),
                None => status = line.split(' ').nth(1).unwrap().parse().unwrap(),
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().unwrap(),
                Some(_) => {}
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.reader.read_line(&mut line).unwrap() > 0, "the agent closed the connection");
        line.trim_end().to_owned()
    }

    /// Waits until the agent has closed the connection. Returns the text that came before the end.
    fn rest(&mut self) -> String {
        let mut rest = String::new();
        let _ = self.reader.read_to_string(&mut rest);
        rest
    }

    fn asks(&mut self, method: &str, path: &str, body: impl Display) -> (u16, Value) {
        self.sends(method, path, body);
        let (status, answer) = self.hears();
        assert!(is_listed(method, path, status), "docs/openapi.json has no {status} for {method} {path}: {answer}");
        (status, answer)
    }

    /// Closes the direction to the agent.
    fn closes_half(&self) {
        self.unix.as_ref().unwrap().shutdown(Shutdown::Write).unwrap();
    }

    /// Acquires a lock on this connection, with more fields in the request.
    fn acquires(&mut self, name: &str, more: Value) -> Value {
        let (status, lock) = self.asks("POST", "/v1/locks", wanted(name, more));
        assert_eq!(status, 200, "{lock}");
        lock
    }
}

/// Whether docs/openapi.json lists this status for a request. The file lists no unknown paths and
/// methods.
fn is_listed(method: &str, path: &str, status: u16) -> bool {
    static PAGE: OnceLock<Value> = OnceLock::new();
    let read = || serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
    let path: Vec<_> = path.split('?').next().unwrap().split('/').collect();
    let is_of = |form: &str| {
        let form: Vec<_> = form.split('/').collect();
        form.len() == path.len() && form.iter().zip(&path).all(|(form, part)| form.starts_with('{') || form == part)
    };
    let mut forms = PAGE.get_or_init(read)["paths"].as_object().unwrap().iter().filter(|(form, _)| is_of(form));
    let told = forms.find_map(|(_, methods)| methods.get(method.to_lowercase()));
    told.is_none_or(|told| told["responses"].get(status.to_string()).is_some())
}

fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: {HOST}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// The body of a request for a lock, with more fields.
fn wanted(name: &str, more: Value) -> Value {
    let mut body = json!({ "names": [name], "timeout_ms": HOUR });
    let more = more.as_object().cloned().unwrap_or_default();
    body.as_object_mut().unwrap().extend(more);
    body
}

fn path(lock: &Value) -> String {
    format!("/v1/locks/{}", lock["id"].as_str().unwrap())
}
