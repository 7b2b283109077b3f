//! Settings that come from the environment, if the command line does not have them.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::status::looked;
use super::{Background, IN_VAIN, bare, done, over, run, tried, until};
use crate::common::server::Server;
use crate::common::servers;

/// A configuration file with these nodes, without a quarantine, and with the settings in `more`.
fn written(servers: &[Server], more: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.toml");
    let node = |server: &Server| format!("[[nodes]]\nurl = \"{}\"\n", server.url());
    let nodes = servers.iter().map(node).collect::<String>();
    std::fs::write(&file, format!("max_ttl = \"0\"\n{more}\n{nodes}")).unwrap();
    (folder, file)
}

/// Whether no client has acquired a lock on this server.
fn empty(server: &Server) -> bool {
    server.command(&["KEYS", "*"]) == "quorumlock:node" && server.record("high") == "0"
}

fn status(command: &mut Command) -> String {
    let (code, out, err) = looked(command.args(["status", "job"]));
    assert_eq!(code, 0, "{out}{err}");
    out
}

#[tokio::test]
async fn a_file_that_it_names_tells_nodes_and_options() {
    let servers = servers(3).await;
    let (_folder, file) = written(&servers, "key_prefix = \"app:\"");
    let script = ["run", "job", "--", "sh", "-c", "echo $QUORUMLOCK_FENCING_TOKEN; env | grep QUORUMLOCK_CONFIG="];
    let (code, out, err) = done(bare().env("QUORUMLOCK_TIMEOUT", "1h").env("QUORUMLOCK_CONFIG", &file).args(script));
    assert_eq!(code, 0, "{err}");
    let (token, inherited) = out.split_once('\n').unwrap();
    assert_eq!(inherited.trim(), format!("QUORUMLOCK_CONFIG={}", file.display()), "as all of the environment");
    let fence = format!("its tokens so far are at most {token}\n");
    assert!(status(bare().env("QUORUMLOCK_CONFIG", &file)).contains(&fence));
    assert!(!status(&mut over(&servers)).contains(&fence), "the prefix was that of the file");
}

#[tokio::test]
async fn a_key_format_comes_from_the_file_or_the_environment() {
    let servers = servers(1).await;
    let (_folder, file) = written(&servers, "key_format = \"umbrella/{name}\"");
    let keys = |command: &mut Command| {
        let (code, _, err) = done(command.args(["run", "job", "--", "true"]));
        assert_eq!(code, 0, "{err}");
        servers[0].command(&["KEYS", "*"])
    };
    assert!(keys(over(&servers).env("QUORUMLOCK_KEY_FORMAT", "acme/{name}")).contains("{acme/job}"));
    let keys = keys(bare().env("QUORUMLOCK_TIMEOUT", "1h").env("QUORUMLOCK_CONFIG", &file));
    assert!(keys.contains("{umbrella/job}") && !keys.contains("{job}"), "{keys}");
    let (code, _, err) = done(over(&servers).env("QUORUMLOCK_KEY_FORMAT", "acme").arg("status"));
    assert!(code == 64 && err.contains("key_format must have {name}"), "{err}");
}

#[tokio::test]
async fn the_command_lines_file_goes_before_and_an_empty_name_is_none() {
    let (ours, others) = (servers(1).await, servers(1).await);
    let ((_one, file), (_two, other)) = (written(&ours, ""), written(&others, ""));
    let (code, out, err) = looked(bare().env("QUORUMLOCK_CONFIG", &other).args(["status", "--config"]).arg(&file));
    assert_eq!(code, 0, "{err}");
    assert!(out.contains(&ours[0].port().to_string()) && !out.contains(&others[0].port().to_string()), "{out}");
    assert!(status(over(&ours).env("QUORUMLOCK_CONFIG", "")).contains("1 of 1 node votes"));
    let (code, _, err) = done(bare().env("QUORUMLOCK_CONFIG", "").arg("status"));
    assert!(code == 64 && err.contains("no node is configured") && err.contains("QUORUMLOCK_CONFIG"), "{err}");
}

#[tokio::test]
async fn variable_overrides_the_file_that_another_variable_names() {
    let (ours, others) = (servers(1).await, servers(1).await);
    let (_folder, other) = written(&others, "key_prefix = \"app:\"");
    let mut command = over(&ours);
    command.env("QUORUMLOCK_CONFIG", &other).env("QUORUMLOCK_KEY_PREFIX", "mine:").args(["run", "job", "--", "true"]);
    let (code, _, err) = done(&mut command);
    assert_eq!(code, 0, "{err}");
    assert!(ours[0].command(&["KEYS", "*"]).contains("mine:") && empty(&others[0]));
    let (code, _, err) = done(command.env("QUORUMLOCK_MAX_TTL", "1h").env("QUORUMLOCK_TIMEOUT", IN_VAIN));
    assert!(code == 69 && err.contains("another list"), "the file's max_ttl is 0: {err}");
}

#[tokio::test]
async fn file_of_the_command_line_overrides_variables() {
    let (ours, others) = (servers(1).await, servers(1).await);
    let (_folder, file) = written(&ours, "key_prefix = \"app:\"");
    let mut command = over(&others);
    command.env("QUORUMLOCK_KEY_PREFIX", "mine:").env("QUORUMLOCK_MAX_TTL", "1h");
    let (code, _, err) = done(command.args(["run", "job", "--config"]).arg(&file).args(["--", "true"]));
    assert_eq!(code, 0, "{err}");
    assert!(ours[0].command(&["KEYS", "*"]).contains("app:"));
}

#[tokio::test]
async fn a_sandbox_is_a_sandbox_whatever_file_is_named() {
    let others = servers(1).await;
    let (_folder, file) = written(&others, "key_prefix = \"app:\"");
    let me = env!("CARGO_BIN_EXE_quorumlock");
    let mut sandbox = bare();
    sandbox.env("QUORUMLOCK_CONFIG", &file).args(["sandbox", "--", me, "run", "job", "--timeout", "1h", "--", "env"]);
    let (code, out, err) = done(&mut sandbox);
    assert!(code == 0 && out.contains("\nQUORUMLOCK_CONFIG=\n"), "{out}{err}");
    assert!(empty(&others[0]), "the file's node was left alone");
}

#[tokio::test]
async fn demo_workers_use_the_settings_of_the_demo() {
    let (given, others) = (servers(1).await, servers(1).await);
    let (_folder, file) = written(&others, "key_prefix = \"app:\"");
    let demo = ["demo", "--seconds", "1", "--json", "--nodes", &given[0].url()];
    // The one second of the demo begins before its workers have started. So repeat the demo until
    // the workers have had the lock.
    until("they have had the lock", || {
        let (code, out, err) = done(bare().env("QUORUMLOCK_CONFIG", &file).args(demo));
        assert_eq!(code, 0, "{out}{err}");
        !out.contains("\"sections\":0,")
    });
    assert!(given[0].command(&["KEYS", "*"]).contains("app:{quorumlock-demo}"));
    assert!(empty(&others[0]));
}

#[tokio::test]
async fn ttl_variable_overrides_the_file_and_yields_to_the_option() {
    let servers = servers(1).await;
    let (folder, file) = written(&servers, "ttl = \"50s\"");
    let left = |variable: Option<&str>, options: &[&str]| {
        let me = env!("CARGO_BIN_EXE_quorumlock");
        let mut command = run(&[], "job", options, &format!("{me} status job --json"), folder.path());
        command.env_remove("QUORUMLOCK_NODES").env("QUORUMLOCK_CONFIG", &file).env("QUORUMLOCK_MAX_TTL", "0");
        variable.map(|ttl| command.env("QUORUMLOCK_TTL", ttl));
        let (code, out, err) = looked(&mut command);
        assert_eq!(code, 0, "{err}");
        serde_json::from_str::<serde_json::Value>(&out).unwrap()["remaining_ms"].as_f64().unwrap()
    };
    // The ranges are wide: on a busy machine, some of the ttl passes before `status` reads the
    // remaining time.
    assert!((31_000.0..=50_000.0).contains(&left(None, &[])));
    assert!((60_000.0..=200_000.0).contains(&left(Some("200s"), &[])));
    assert!((210_000.0..=800_000.0).contains(&left(Some("200s"), &["--ttl", "800s"])));
}

#[tokio::test]
async fn timeout_variable_overrides_the_file_and_yields_to_options() {
    let servers = servers(1).await;
    servers[0].take("job", "somebody");
    let (_folder, file) = written(&servers, "timeout = \"1h\"");
    let run = |variable: &str, options: &[&str]| {
        let mut command = bare();
        command.args(["run", "job", "--config"]).arg(&file).args(options).args(["--", "true"]);
        command.env("QUORUMLOCK_TIMEOUT", variable);
        command
    };
    let waits = |variable: &str, options: &[&str]| Background::start(&mut run(variable, options));
    // On a busy machine, `run` may first write that it waits for a quorum.
    waits("50m", &[]).says("for \"job\", for 50 min at most");
    waits("50m", &["--timeout", "40m"]).says("for \"job\", for 40 min at most");
    for (variable, options) in [("0", &[][..]), ("1h", &["-n"]), ("soon", &["-n"])] {
        let (code, _, err) = tried(&mut run(variable, options));
        assert!(code == 75 && !err.contains("waiting for \"job\""), "{variable} {options:?}: {code} {err}");
        assert!(!err.contains("QUORUMLOCK_TIMEOUT"), "it is not asked: {err}");
    }
}

#[test]
fn bad_values_are_refused_with_the_variables_name() {
    let refused = |name: &str, value: &str, options: &[&str], hint: &str| {
        let mut command = bare();
        command.args(["run", "job", "--nodes", "redis://127.0.0.1:1"]).args(options).args(["--", "true"]);
        let (code, out, err) = done(command.env(name, value));
        assert_eq!((code, out.as_str()), (64, ""), "{err}");
        assert!(err.contains(hint), "{hint}: {err}");
    };
    refused("QUORUMLOCK_TTL", "long", &[], "QUORUMLOCK_TTL: not a duration; write 500ms");
    refused("QUORUMLOCK_TTL", "1ms", &[], "QUORUMLOCK_TTL is 1 ms; use 100 ms to 24 h");
    refused("QUORUMLOCK_TTL", "2d", &["--max-ttl", "0"], "QUORUMLOCK_TTL is 48 h; use 100 ms to 24 h");
    refused("QUORUMLOCK_TTL", "90s", &[], "ttl is 90 s (QUORUMLOCK_TTL), above max_ttl (60 s); use --ttl 60s");
    refused("QUORUMLOCK_TTL", "20s", &["--max-ttl", "10s"], "(QUORUMLOCK_TTL), above max_ttl (10 s); use --ttl 10s");
    refused("QUORUMLOCK_TIMEOUT", "soon", &[], "QUORUMLOCK_TIMEOUT: not a duration");
    refused("QUORUMLOCK_CONFIG", "/nowhere.toml", &[], "QUORUMLOCK_CONFIG: /nowhere.toml: No such file");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.toml");
    std::fs::write(&file, "ttl = 30").unwrap();
    let wrong = format!("QUORUMLOCK_CONFIG: {}: line 1: write the time", file.display());
    refused("QUORUMLOCK_CONFIG", file.to_str().unwrap(), &[], &wrong);
    std::fs::write(&file, "").unwrap();
    let (code, _, err) = done(bare().env("QUORUMLOCK_CONFIG", &file).arg("status"));
    let wrong = format!("QUORUMLOCK_CONFIG: {}: it names no node; write [[nodes]]", file.display());
    assert!(code == 64 && err.contains(&wrong), "{err}");
}
