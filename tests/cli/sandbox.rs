//! `quorumlock sandbox`: its servers end with the command.

use std::io::{BufRead, BufReader};

use rustix::process::Signal;

use super::{Background, bare, done, line_of, note, runs, until};

/// The pids of the servers at these addresses.
fn serving(nodes: &str) -> Vec<String> {
    nodes.split(',').map(|node| pid_at(node.strip_prefix("redis://").unwrap())).inspect(|pid| note(pid)).collect()
}

fn pid_at(address: &str) -> String {
    use std::io::Write;
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"INFO server\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.find_map(|line| line.strip_prefix("process_id:").map(|pid| pid.trim().to_owned())).unwrap()
}

/// Starts a sandbox, and returns it with its servers' pids.
fn started(masters: &str) -> (Background, Vec<String>) {
    let mut sandbox = Background::start(bare().args(["sandbox", "--masters", masters]));
    let line = sandbox.first_line();
    let nodes = line.trim().strip_prefix("export QUORUMLOCK_NODES=").unwrap();
    assert!(!nodes.contains(' '), "the restart guard is on: {line}");
    (sandbox, serving(nodes))
}

#[test]
fn sandbox_prints_the_export_line_and_ends_by_ctrl_c() {
    let (mut sandbox, servers) = started("5");
    assert!(servers.len() == 5 && servers.iter().all(|pid| runs(pid)));
    sandbox.send(Signal::INT);
    let (code, _, err) = sandbox.done();
    assert_eq!(code, 0);
    assert!(err.contains("5 new servers on loopback") && err.contains("not for locks that matter"), "{err}");
    assert!(!servers.iter().any(|pid| runs(pid)));
}

#[test]
fn sandbox_servers_end_with_it_by_sigterm_or_sighup() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let (mut sandbox, servers) = started("3");
        sandbox.send(signal);
        assert_eq!(sandbox.done().0, code);
        assert!(!servers.iter().any(|pid| runs(pid)));
    }
}

#[test]
fn sandbox_servers_end_with_it_by_sigkill() {
    let (mut sandbox, servers) = started("3");
    sandbox.send(Signal::KILL);
    until("the servers are gone", || !servers.iter().any(|pid| runs(pid)));
}

/// A sandbox with a command, which writes the nodes' addresses to a file and then runs `then`.
fn with(folder: &std::path::Path, then: &str) -> std::process::Command {
    let mut command = bare();
    let script = format!("echo $QUORUMLOCK_NODES > $0/nodes; sleep 1000 & echo $! > $0/left; {then}");
    command.args(["sandbox", "--masters", "3", "--", "sh", "-c", &script]).arg(folder);
    command
}

#[test]
fn sandbox_ends_with_its_commands_code_and_kills_leftovers() {
    let folder = tempfile::tempdir().unwrap();
    let mut sandbox = Background::start(&mut with(folder.path(), "until [ -e $0/go ]; do sleep 0.02; done; exit 5"));
    let left = line_of(&folder.path().join("left"));
    let servers = serving(&line_of(&folder.path().join("nodes")));
    assert!(sandbox.child().try_wait().unwrap().is_none());
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(sandbox.done().0, 5);
    assert!(!servers.iter().any(|pid| runs(pid)));
    until("what the command left is gone", || !runs(&left));
}

#[test]
fn a_command_is_told_of_sigterm_and_nothing_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut sandbox = Background::start(&mut with(folder.path(), "trap 'exit 9' TERM; echo > $0/set; wait"));
    let left = line_of(&folder.path().join("left"));
    let servers = serving(&line_of(&folder.path().join("nodes")));
    until("the trap is set", || folder.path().join("set").exists());
    sandbox.send(Signal::TERM);
    assert_eq!(sandbox.done().0, 9);
    assert!(!servers.iter().any(|pid| runs(pid)));
    until("what the command left is gone", || !runs(&left));
}

#[test]
fn a_lock_can_be_had_in_it() {
    let me = env!("CARGO_BIN_EXE_quorumlock");
    let run = ["sandbox", "--", me, "run", "job", "--timeout", "1h", "--", "echo", "inside"];
    let (code, out, err) = done(bare().args(run));
    assert_eq!((code, out.as_str()), (0, "inside\n"), "{err}");
}

#[test]
fn sandbox_without_redis_explains_how_to_install_it() {
    let (code, _, err) = done(bare().env("PATH", "/nowhere").arg("sandbox"));
    assert!(code == 69 && err.contains("apt-get install redis-server"), "{code}: {err}");
    assert!(!err.contains("--nodes"), "it takes none: {err}");
}
