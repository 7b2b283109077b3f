//! `--password-file`, and the other settings that name such a file.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::secrets::{ENCODED, PASSWORD, guarded, silent};
use super::{Background, IN_VAIN, bare, done};
use crate::common::server::Server;
use crate::common::servers;

/// A folder with the file `password`, which has this content.
fn said(text: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

fn urls(servers: &[Server]) -> String {
    servers.iter().map(Server::url).collect::<Vec<_>>().join(",")
}

/// The command over these servers, with `-v`. The addresses do not contain the password.
fn told(servers: &[Server], arguments: &[&str]) -> Command {
    let mut command = bare();
    let (first, rest) = arguments.split_at(1);
    command.env("QUORUMLOCK_MAX_TTL", "0").env("QUORUMLOCK_TIMEOUT", "1h").env("QUORUMLOCK_NODES", urls(servers));
    command.args(first).arg("-v").args(rest);
    command
}

#[tokio::test]
async fn first_line_of_the_file_is_the_password_and_never_shown() {
    let servers = guarded().await;
    let (_folder, file) = said(format!("{PASSWORD}\r\nwr0ng\n"));
    // Begin with `init`, which needs nodes without a record.
    for arguments in [
        &["init", "--yes"][..],
        &["run", "job", "--", "true"],
        &["status", "job"],
        &["status", "--json"],
        &["release", "job", "--force", "--yes"],
        &["members", "--json"],
        &["demo", "--seconds", "1", "--json"],
    ] {
        let (options, cmd) = arguments.split_at(arguments.iter().position(|&it| it == "--").unwrap_or(arguments.len()));
        let mut command = told(&servers, options);
        let (code, said) = silent(command.arg("--password-file").arg(&file).args(cmd));
        assert_eq!(code, 0, "{arguments:?}: {said}");
    }
}

#[tokio::test]
async fn the_environment_or_the_configuration_names_it_too() {
    let (servers, (_other, wrong)) = (guarded().await, said("wr0ng"));
    let (folder, file) = said(PASSWORD);
    let config = folder.path().join("nodes.toml");
    std::fs::write(&config, "password_file = \"password\"\n").unwrap();
    let status = || told(&servers, &["status"]);
    assert_eq!(silent(status().env("QUORUMLOCK_PASSWORD_FILE", &file)).0, 0);
    // A relative path starts at the configuration's folder.
    assert_eq!(silent(status().env("QUORUMLOCK_CONFIG", &config).current_dir("/")).0, 0);
    assert_eq!(silent(status().args(["--config", "nodes.toml"]).current_dir(folder.path())).0, 0);
    // The command line has precedence over the environment, and the environment over the
    // configuration.
    let (code, said) = silent(status().arg("--config").arg(&config).env("QUORUMLOCK_PASSWORD_FILE", &wrong));
    assert!(code == 69 && said.contains("WRONGPASS"), "{said}");
    let mut command = status();
    command.env("QUORUMLOCK_PASSWORD_FILE", &wrong).arg("--password-file").arg(&file);
    assert_eq!(silent(&mut command).0, 0);
    assert_eq!(silent(command.env("QUORUMLOCK_PASSWORD_FILE", "")).0, 0);
}

/// Waiting does not help if all nodes refuse the login.
#[tokio::test]
async fn run_ends_at_once_with_advice_if_all_nodes_refuse_the_login() {
    let mut servers = guarded().await;
    let run = |nodes: &str, options: &[&str]| {
        let mut command = bare();
        command.env("QUORUMLOCK_NODES", nodes).args(["run", "job"]).args(options).args(["--", "true"]);
        Background::start(&mut command).done()
    };
    let wrong = urls(&servers).replace("redis://", "redis://:wr0ng@");
    for (nodes, why) in [(urls(&servers), "the server needs a password"), (wrong, "WRONGPASS")] {
        let (code, _, err) = run(&nodes, &["--timeout", "1h"]);
        assert!(code == 69 && err.contains("all 3 nodes refuse the login") && err.contains(why), "{code}: {err}");
        assert!(
            err.contains("--password-file FILE") && !err.contains("waits longer") && !err.contains("wr0ng"),
            "{err}"
        );
    }
    // The killed node may come back, so the command waits. The message must not advise a longer
    // wait.
    servers[2].kill();
    let (code, _, err) = run(&urls(&servers), &["--timeout", IN_VAIN]);
    assert!(code == 69 && err.contains("no quorum within 5 s"), "{code}: {err}");
    assert!(err.contains("--password-file FILE") && !err.contains("waits longer"), "{err}");
}

/// Starts `run` over a server that has the user `locks` and the default user. Returns, among other
/// values, the lines that `run` writes to standard error.
async fn in_a_rotation(text: Option<&str>) -> (Server, PathBuf, Background, impl Iterator<Item = String>, TempDir) {
    let server = Server::start().await;
    server.command(&["ACL", "SETUSER", "locks", "on", &format!(">{PASSWORD}"), "~*", "&*", "+@all"]);
    let (folder, file) = said(text.unwrap_or_default());
    if text.is_none() {
        std::fs::remove_file(&file).unwrap();
    }
    let mut command = bare();
    command.env("QUORUMLOCK_MAX_TTL", "0").args(["run", "job", "-v", "--timeout", "60s", "--password-file"]).arg(&file);
    command.args(["--nodes", &server.url().replace("redis://", "redis://locks@"), "--", "true"]);
    let mut run = Background::start(&mut command);
    let said = BufReader::new(run.child().stderr.take().unwrap()).lines().map_while(Result::ok);
    (server, file, run, said, folder)
}

#[tokio::test]
async fn missing_or_empty_file_is_read_again_until_the_timeout() {
    for (text, why) in [(None, "No such file"), (Some(""), "it is empty"), (Some("\n"), "its first line is empty")] {
        let (_server, file, run, mut said, _folder) = in_a_rotation(text).await;
        let told = said.find(|line| line.contains("waiting for the file with the password, for 60 s at most")).unwrap();
        assert!(told.contains(&format!("{}: {why}", file.display())), "{told}");
        std::fs::write(&file, PASSWORD).unwrap();
        let said = std::thread::spawn(move || said.collect::<Vec<_>>().join("\n"));
        assert_eq!(run.done().0, 0, "{text:?}: {}", said.join().unwrap());
    }
    let nodes = ["run", "job", "--nodes", "redis://127.0.0.1:1", "--timeout", "100ms"];
    let (code, _, err) = done(bare().args(nodes).args(["--password-file", "/nowhere/password", "--", "true"]));
    assert!(code == 64 && err.contains("--password-file: /nowhere/password: No such file"), "{code}: {err}");
}

#[tokio::test]
async fn new_password_is_tried_until_the_servers_know_it() {
    let (server, _file, run, mut said, _folder) = in_a_rotation(Some("the-next-one")).await;
    assert!(said.any(|line| line.contains("WRONGPASS")));
    server.command(&["ACL", "SETUSER", "locks", ">the-next-one"]);
    let said = std::thread::spawn(move || said.collect::<Vec<_>>().join("\n"));
    assert_eq!(run.done().0, 0, "{}", said.join().unwrap());
}

#[tokio::test]
async fn an_address_keeps_the_password_that_it_has() {
    let servers = [Server::with(&["--requirepass", PASSWORD]).await, Server::with(&["--requirepass", "wr0ng"]).await];
    let (_folder, file) = said("wr0ng\n");
    let own = format!("redis://:{ENCODED}@127.0.0.1:{},{}", servers[0].port(), servers[1].url());
    let mut command = bare();
    command.env("QUORUMLOCK_MAX_TTL", "0").env("QUORUMLOCK_NODES", own).args(["status", "--password-file"]).arg(&file);
    let (code, said) = silent(&mut command);
    assert!(code == 0 && said.contains("2 of 2 nodes vote"), "{said}");
}

/// A server with a user for locks, and without the default user.
async fn with_user() -> Server {
    let server = Server::start().await;
    server.command(&["ACL", "SETUSER", "locks", "on", &format!(">{PASSWORD}"), "~*", "&*", "+@all"]);
    assert_eq!(server.command(&["ACL", "SETUSER", "default", "off"]), "OK");
    server
}

#[tokio::test]
async fn a_user_without_password_gets_it() {
    let (server, (folder, file)) = (with_user().await, said(PASSWORD));
    let url = server.url().replace("redis://", "redis://locks@");
    let mut command = bare();
    command.env("QUORUMLOCK_MAX_TTL", "0").args(["status", "--nodes", &url, "--password-file"]).arg(&file);
    assert_eq!(silent(&mut command).0, 0);
    let mut command = bare();
    command.env("QUORUMLOCK_MAX_TTL", "0").env("QUORUMLOCK_NODES", &url).env("QUORUMLOCK_PASSWORD_FILE", &file);
    assert_eq!(silent(command.arg("members")).0, 0);
    let config = folder.path().join("nodes.toml");
    let node = format!("[[nodes]]\nurl = \"{}\"\nuser = \"locks\"\n", server.url());
    std::fs::write(&config, format!("max_ttl = \"0\"\n{node}")).unwrap();
    let (code, out, err) = done(bare().args(["status", "--config"]).arg(&config));
    assert!(code == 64 && out.is_empty() && err.contains("or a password_file for all nodes"), "{err}");
    std::fs::write(&config, format!("max_ttl = \"0\"\npassword_file = \"password\"\n{node}")).unwrap();
    assert_eq!(silent(bare().args(["status", "--config"]).arg(&config)).0, 0);
}

#[tokio::test]
async fn a_socket_may_have_it_and_a_pipe_may_tell_it() {
    let (folder, file) = said(PASSWORD);
    let socket = folder.path().join("redis.sock");
    let server = Server::with(&["--requirepass", PASSWORD, "--unixsocket", socket.to_str().unwrap()]).await;
    let status = |url: &str, file: &str| {
        let mut command = bare();
        command.env("QUORUMLOCK_MAX_TTL", "0").args(["status", "--nodes", url, "--password-file", file]);
        command
    };
    assert_eq!(silent(&mut status(&format!("redis+unix://{}", socket.display()), file.to_str().unwrap())).0, 0);
    let stdin = std::fs::File::open(&file).unwrap();
    assert_eq!(silent(status(&server.url(), "/dev/stdin").stdin(stdin)).0, 0);
}

#[tokio::test]
async fn password_is_hidden_from_process_listings_and_the_command() {
    let (servers, (_folder, file)) = (guarded().await, said(PASSWORD));
    let mut command = told(&servers, &["run", "job", "--password-file", file.to_str().unwrap()]);
    let look = "cat /proc/$PPID/cmdline /proc/$PPID/environ /proc/$$/environ | tr '\\0' '\\n'; ls -l /proc/$$/fd";
    let (code, said) = silent(command.args(["--", "sh", "-c", look]));
    assert!(code == 0 && said.contains("--password-file"), "{said}");
}

#[tokio::test]
async fn servers_that_are_started_here_are_not_told_it() {
    let me = env!("CARGO_BIN_EXE_quorumlock");
    let mut sandbox = bare();
    sandbox.env("QUORUMLOCK_PASSWORD_FILE", "/nowhere").args([
        "sandbox",
        "--",
        me,
        "run",
        "job",
        "--timeout",
        "1h",
        "--",
        "true",
    ]);
    let (code, _, err) = done(&mut sandbox);
    assert_eq!(code, 0, "{err}");
    let mut demo = bare();
    let (code, _, err) =
        done(demo.env("QUORUMLOCK_PASSWORD_FILE", "/nowhere").args(["demo", "--seconds", "1", "--json"]));
    assert_eq!(code, 0, "{err}");
}

/// Checks that the command refuses the file with this hint, whichever setting names the file.
fn refused(file: &Path, hint: &str) {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("nodes.toml");
    let file = file.to_str().unwrap();
    std::fs::write(&config, format!("password_file = '{file}'\n")).unwrap();
    let nodes = ["status", "-v", "--nodes", "redis://127.0.0.1:1"];
    for (command, by) in [
        (bare().args(nodes).args(["--password-file", file]), "--password-file"),
        (bare().args(nodes).env("QUORUMLOCK_PASSWORD_FILE", file), "QUORUMLOCK_PASSWORD_FILE"),
        (bare().args(nodes).arg("--config").arg(&config), "nodes.toml: password_file"),
    ] {
        let (code, said) = silent(command);
        assert!(code == 64 && said.contains(&format!("{by}: ")) && said.contains(hint), "{hint}: {code} {said}");
        assert!(said.contains("; name a file whose first line is the password\n"), "{said}");
    }
}

#[test]
fn bad_password_file_is_refused_with_a_reason() {
    refused(Path::new("/nowhere/password"), "/nowhere/password: No such file or directory");
    let folder = tempfile::tempdir().unwrap();
    refused(folder.path(), &format!("{}: Is a directory", folder.path().display()));
    for (text, hint) in [
        (Vec::new(), "password: it is empty"),
        (b"\nhunter2\n".to_vec(), "password: its first line is empty"),
        (b"hunter2\n".repeat(513), "password: it is over 4 KiB"),
        (b"hunter2\0".to_vec(), "password: it has a NUL byte"),
        (b"hunter2\xff".to_vec(), "password: it is not UTF-8"),
    ] {
        let (_folder, file) = said(text);
        refused(&file, hint);
    }
}

/// The command refuses the password before it connects to a node, as it does for a password in an
/// address.
#[test]
fn a_password_that_the_transport_cannot_send_is_refused_at_once() {
    let (_folder, file) = said("two words\n");
    let file = file.to_str().unwrap();
    for arguments in [&["doctor"][..], &["status"], &["run", "job", "--", "true"]] {
        let (options, cmd) = arguments.split_at(arguments.iter().position(|&it| it == "--").unwrap_or(arguments.len()));
        let ended = |transport: &str| {
            let mut command = bare();
            command.env("QUORUMLOCK_NODES", "redis://127.0.0.1:1").env("QUORUMLOCK_TRANSPORT", transport).args(options);
            done(command.args(["--connect-timeout", "300ms", "--password-file", file]).args(cmd))
        };
        let (code, out, err) = ended("fred");
        assert!(code == 64 && err.contains("--password-file: fred cannot send a user or password"), "{code} {err}");
        assert!(!(out + &err).contains("two words"), "{err}");
        if cfg!(feature = "redis-rs") {
            assert_ne!(ended("redis-rs").0, 64);
        }
    }
}

#[test]
fn a_relative_path_is_told_where_there_is_such_a_file() {
    let (folder, _) = said("");
    let mut command = bare();
    command.args(["status", "--nodes", "redis://127.0.0.1:1", "--password-file", "password"]);
    let (code, _, err) = done(command.current_dir(folder.path()));
    assert!(code == 64 && err.contains("--password-file: password: it is empty; name a file"), "{err}");
}

#[test]
fn a_password_in_the_place_of_a_file_is_not_told() {
    for password in ["hunter2", PASSWORD] {
        let nodes = ["status", "-v", "--nodes", "redis://127.0.0.1:1"];
        let (code, said) = silent(bare().args(nodes).env("QUORUMLOCK_PASSWORD_FILE", password));
        assert!(code == 64 && said.contains("QUORUMLOCK_PASSWORD_FILE: No such file"), "{said}");
        assert!(said.contains("a relative path is not shown"), "{said}");
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("nodes.toml");
        std::fs::write(&config, format!("password_file = '{password}'\n")).unwrap();
        let (code, said) = silent(bare().args(nodes).arg("--config").arg(&config));
        assert!(code == 64 && said.contains("nodes.toml: password_file: No such file"), "{said}");
    }
}

#[tokio::test]
async fn password_file_is_not_read_without_nodes() {
    let servers = servers(1).await;
    let (code, _, err) = done(told(&servers, &["status"]).args(["--password-file", "/nowhere"]));
    assert!(code == 64 && err.contains("--password-file: /nowhere"), "{err}");
    let (code, _, err) = done(bare().args(["status", "--password-file", "/nowhere"]));
    assert!(code == 64 && err.contains("no node is configured"), "{err}");
}
