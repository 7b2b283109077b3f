//! The agent's sockets: files, modes, users, TCP, and sockets of systemd.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;

use rustix::process::geteuid;
use serde_json::{Value, json};

use super::super::{Background, done, over, until};
use super::{Agent, Client, by_shell, path, serve, socket, wanted};
use crate::common::port::Port;
use crate::common::program::command;
use crate::common::servers;

#[tokio::test]
async fn stale_socket_is_replaced_and_a_live_one_is_not() {
    let servers = servers(1).await;
    let folder = tempfile::tempdir().unwrap();
    drop(UnixListener::bind(socket(folder.path())).unwrap());
    let agent = Agent::within(folder, &servers, &[]);
    let mode = std::fs::metadata(agent.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (code, _, err) = done(&mut serve(&servers, agent.folder.path()));
    assert!(code == 64 && err.contains("another program listens there"), "{code}: {err}");
    assert_eq!(agent.client().asks("GET", "/healthz", "").0, 200);
    // The result is the same if the other program is no agent, and so has no lock file.
    let folder = tempfile::tempdir().unwrap();
    let _other = UnixListener::bind(socket(folder.path())).unwrap();
    let (code, _, err) = done(&mut serve(&servers, folder.path()));
    assert!(code == 64 && err.contains("another program listens there"), "{code}: {err}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(socket(folder.path()), "precious").unwrap();
    let (code, _, err) = done(&mut serve(&servers, folder.path()));
    assert!(code == 64 && err.contains("no socket"), "{code}: {err}");
    assert_eq!(std::fs::read_to_string(socket(folder.path())).unwrap(), "precious");
}

#[tokio::test]
async fn lock_file_of_the_socket_is_no_link() {
    let servers = servers(1).await;
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("precious");
    std::os::unix::fs::symlink(&target, folder.path().join("agent.sock.lock")).unwrap();
    let (code, _, err) = done(&mut serve(&servers, folder.path()));
    assert!(code == 64 && err.contains("agent.sock.lock"), "{code}: {err}");
    assert!(!target.exists());
}

#[tokio::test]
async fn mode_and_group_are_as_asked() {
    let servers = servers(1).await;
    let agent = Agent::start(&servers, &["--socket-mode", "666"]);
    let mode = |agent: &Agent| std::fs::metadata(agent.socket()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&agent), 0o666);
    let group = rustix::process::getegid().as_raw().to_string();
    let agent = Agent::start(&servers, &["--socket-group", &group]);
    assert_eq!(mode(&agent), 0o660);
    let folder = tempfile::tempdir().unwrap();
    let (code, _, err) = done(serve(&servers, folder.path()).args(["--socket-group", "no such group"]));
    assert!(code == 64 && err.contains("has no group"), "{code}: {err}");
}

#[tokio::test]
async fn locks_of_another_uid_are_unknown() {
    if !geteuid().is_root() || command("curl").arg("--version").output().is_err() {
        eprintln!("skipped: only root can become another user, and curl is needed");
        return;
    }
    let servers = servers(1).await;
    let agent = Agent::start(&servers, &["--socket-mode", "666"]);
    std::fs::set_permissions(agent.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut client = agent.client();
    let lock = client.acquires("a", Value::Null);
    let asked = |arguments: &[&str]| {
        let mut curl = command("curl");
        curl.args(["-sS", "--unix-socket"]).arg(agent.socket()).args(arguments).uid(65_534).gid(65_534);
        String::from_utf8(curl.output().unwrap().stdout).unwrap()
    };
    let url = format!("http://agent{}", path(&lock));
    assert!(asked(&[&url]).contains("\"unknown\""));
    assert!(asked(&["-X", "DELETE", &url]).contains("\"unknown\""));
    assert!(asked(&["-X", "POST", &format!("{url}/keep")]).contains("\"unknown\""));
    assert_eq!(client.asks("GET", &path(&lock), "").0, 200);
    let held = asked(&["-d", r#"{"names": ["a"], "timeout_ms": 0}"#, "http://agent/v1/locks"]);
    assert!(held.contains("\"held\""), "{held}");
}

#[tokio::test]
async fn tcp_is_for_loopback_and_for_programs() {
    let servers = servers(3).await;
    let folder = tempfile::tempdir().unwrap();
    let (code, _, err) = done(serve(&servers, folder.path()).args(["--listen", "0.0.0.0:7000"]));
    assert!(code == 64 && err.contains("not on loopback"), "{code}: {err}");
    let port = Port::take();
    let agent = Agent::start(&servers, &["--listen", &format!("127.0.0.1:{}", port.number())]);
    let mut client = Client::to_port(port.number());
    let lock = client.acquires("a", Value::Null);
    // A lock over TCP belongs to no uid, so it is unknown on the Unix socket.
    assert_eq!(agent.client().asks("GET", &path(&lock), "").0, 404);
    let own_host = format!("127.0.0.1:{}", port.number());
    let evil_host = format!("evil.example:{}", port.number());
    for (host, header, error) in [
        (&*own_host, "Origin: http://evil.example\r\n", "origin"),
        (&own_host, "Sec-Fetch-Site: same-origin\r\n", "origin"),
        (&own_host, "Host: evil.example\r\n", "host"),
        (&evil_host, "", "host"),
        ("127.0.0.1:1", "", "host"),
    ] {
        let mut page = Client { host: host.to_owned(), ..Client::to_port(port.number()) };
        page.sends_with(header, "POST", "/v1/locks", wanted("b", Value::Null));
        let (status, told) = page.hears();
        assert_eq!((status, &told["error"]), (403, &json!(error)), "{host} {header}: {told}");
    }
    let mut local = Client { host: format!("localhost:{}", port.number()), ..Client::to_port(port.number()) };
    local.sends_with("Sec-Fetch-Site: none\r\n", "GET", "/healthz", "");
    assert_eq!(local.hears().0, 200);
    let mut waiter = agent.client();
    waiter.sends("POST", "/v1/locks", wanted("a", Value::Null));
    until("it waits", || agent.counts("waiting") == 1);
    drop(client);
    assert_eq!(waiter.hears().0, 200);
}

/// A shell passes its standard input as the first socket of systemd.
#[tokio::test]
async fn sockets_of_systemd_are_used() {
    let servers = servers(1).await;
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(socket(folder.path())).unwrap();
    let agent = |stdin: std::process::Stdio| {
        let script = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\" 3<&0 </dev/null";
        let mut shell = by_shell(script, over(&servers).arg("serve").env_remove("XDG_RUNTIME_DIR"));
        shell.stdin(stdin);
        shell
    };
    let mut process = Background::start(&mut agent(std::os::fd::OwnedFd::from(listener).into()));
    assert!(process.says("listening on").contains("systemd"));
    let mut client = Client::to(&socket(folder.path()));
    until("a quorum votes", || client.asks("GET", "/healthz", "").0 == 200);
    client.acquires("a", Value::Null);
    drop(client);
    process.send(rustix::process::Signal::TERM);
    let (code, _, err) = process.done();
    assert_eq!(code, 0, "{err}");
    assert!(socket(folder.path()).exists(), "systemd keeps the file");
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, _, err) = done(&mut agent(std::os::fd::OwnedFd::from(port).into()));
    assert!(code == 64 && err.contains("no Unix stream socket"), "{code}: {err}");
}
