//! Bad input: exit code 64, and a message that helps.

use super::{EACH_NODE, IN_VAIN, bare, done, over, tried};
use crate::common::servers;

/// Asserts that arguments are refused, with a message that helps.
fn refused(arguments: &[&str], hint: &str) {
    let (code, out, err) = done(bare().args(arguments));
    assert_eq!((code, out.as_str()), (64, ""), "{arguments:?}: {err}");
    assert!(err.contains(hint), "{arguments:?}: {err}");
}

#[test]
fn bad_arguments_are_refused_with_64() {
    let nodes = ["--nodes", "redis://127.0.0.1:1"];
    let run = |options: &[&'static str]| [&["run", "job"], options, &nodes, &["--", "true"]].concat();
    refused(&[], "Usage");
    refused(&["fly"], "unrecognized subcommand");
    refused(&["run", "job"], "required");
    refused(&["run", "--", "true"], "NAME");
    refused(&["run", "job", "--", "true"], "QUORUMLOCK_NODES");
    refused(&["status"], "no node is configured");
    refused(&run(&["--ttl", "soon"]), "not a duration");
    refused(&run(&["--ttl", "1ms"]), "ttl is 1 ms; use at least 100 ms");
    refused(&run(&["--ttl", "2m"]), "above max_ttl");
    refused(&run(&["--kill-grace", "20s"]), "--kill-grace is 20 s; use");
    refused(&run(&["--metrics", "nowhere"]), "no address");
    refused(&run(&["-n", "--timeout", "3s"]), "cannot be used with");
    for code in ["--conflict-exit-code=256", "--conflict-exit-code=-1", "-Ebusy"] {
        refused(&run(&[code]), "'--conflict-exit-code <N>'");
    }
    refused(&run(&["-E", "256"]), "256 is not in 0..=255");
    refused(&["status", "--nodes", "http://eu"], "use redis://");
    refused(&["status", "--nodes", "redis://eu,redis://eu:6379"], "configured twice");
    refused(&["release", "job"], "--force");
    refused(&["status", "-vv", nodes[0], nodes[1]], "cannot be used multiple times");
    refused(&["status", "--key-prefix", "", nodes[0], nodes[1]], "key_prefix is empty");
    refused(&["status", "--wait", "job"], "'--wait [<TIME>]': not a duration");
    refused(&["status", "--log-format", "xml"], "[possible values: text, json]");
    refused(&["sandbox", "--masters", "0"], "1..=64");
    refused(&["demo", "--workers", "0"], "1..=10000");
}

#[test]
fn failure_with_json_is_one_object_on_standard_output() {
    let bad = ["--json", "--nodes", "http://me:secret@eu"];
    let commands = [
        "status",
        "doctor",
        "members",
        "clients",
        "init",
        "release job --force",
        "demo",
        "bench uncontended",
        "bench throughput",
        "bench distance",
    ];
    for command in commands {
        let (code, out, err) = done(bare().args(command.split(' ')).args(bad));
        let told: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{command}: {out}{err}"));
        let error = told["error"].as_str().unwrap();
        assert!(error.contains("use redis://") && !error.contains("secret"), "{command}: {error}");
        assert_eq!((code, told["exit_code"].as_u64()), (64, Some(64)), "{command}: {err}");
        // `demo` and debug builds write notes first.
        assert!(err.ends_with(&format!("quorumlock: {error}\n")), "{command}: {err}");
    }
    refused(&["status", "--json", "--limit", "few"], "'--limit <N>'");
    refused(&["release", "redis://me:secret@eu", "--force"], "the name is a node's address");
}

#[test]
fn help_of_each_command_describes_its_own_behavior() {
    let help = |words: &[&str]| {
        let (code, out, err) = done(bare().args(words).arg("--help"));
        assert_eq!(code, 0, "{err}");
        // Ignore line breaks.
        out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let all = help(&[]);
    assert!(
        ["126 CMD cannot be run", "127 CMD was not found", "75 not acquired", "2 unsafe"]
            .iter()
            .all(|code| all.contains(code)),
        "{all}"
    );
    let run = help(&["run"]);
    assert!(run.contains("waits for a quorum of nodes (for --connect-timeout, 15s)"), "{run}");
    assert!(run.contains("the period is used up") && run.contains("NAME/0"), "{run}");
    let elect = help(&["elect"]);
    assert!(!elect.contains("several names") && !elect.contains("permits") && !elect.contains("once-per"), "{elect}");
}

#[tokio::test]
async fn bad_names_are_refused_with_64() {
    let servers = servers(1).await;
    for name in ["", &"x".repeat(2_000)] {
        let (code, _, err) = done(over(&servers).args(["run", name, "--", "true"]));
        assert_eq!(code, 64, "{err}");
        let (code, _, err) = done(over(&servers).args(["status", name]));
        assert_eq!(code, 64, "{err}");
    }
}

#[test]
fn a_bad_environment_and_a_bad_file_are_refused_with_64() {
    let (code, _, err) = done(bare().env("QUORUMLOCK_MAX_TTL", "long").arg("status"));
    assert!(code == 64 && err.contains("QUORUMLOCK_MAX_TTL: not a duration"), "{err}");
    let (code, _, err) = done(bare().args(["status", "--config", "/nowhere.toml"]));
    assert!(code == 64 && err.contains("/nowhere.toml"), "{err}");
    let (code, _, err) =
        done(bare().env("QUORUMLOCK_KEY_PREFIX", "").args(["status", "--nodes", "redis://127.0.0.1:1"]));
    assert!(code == 64 && err.contains("key_prefix is empty"), "{err}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.toml");
    std::fs::write(&file, "ttl = \"10s\"\n").unwrap();
    let (code, _, err) = done(bare().args(["status", "--config"]).arg(&file));
    assert!(code == 64 && err.contains("nodes.toml: it names no node; write [[nodes]]"), "{err}");
    std::fs::write(&file, "[[nodes]]\nurl = \"redis://eu\"\npassword_env = \"NOT_SET_ANYWHERE\"\n").unwrap();
    let (code, _, err) = done(bare().args(["status", "--config"]).arg(&file));
    assert!(code == 64 && err.contains("node 1: the environment variable NOT_SET_ANYWHERE"), "{err}");
}

#[tokio::test]
async fn nodes_option_makes_passwords_of_the_file_unnecessary() {
    let servers = servers(1).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.toml");
    let node = "[[nodes]]\nurl = \"redis://eu\"\npassword_env = \"NOT_SET_ANYWHERE\"\n";
    std::fs::write(&file, format!("max_ttl = \"0\"\n{node}")).unwrap();
    let (code, out, err) =
        done(bare().args(["status", "--nodes", &servers[0].url(), "--config"]).arg(&file).args(EACH_NODE));
    assert!(code == 0 && out.contains("1 of 1 node votes"), "{out}{err}");
}

#[tokio::test]
async fn timeout_of_the_file_yields_to_the_command_line() {
    let servers = servers(1).await;
    servers[0].take("job", "somebody");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.toml");
    let text = format!("max_ttl = \"0\"\ntimeout = \"{IN_VAIN}\"\n[[nodes]]\nurl = \"{}\"\n", servers[0].url());
    std::fs::write(&file, text).unwrap();
    let run = |more: &[&str]| tried(bare().args(["run", "job", "--config"]).arg(&file).args(more).args(["--", "true"]));
    let (code, _, err) = run(&[]);
    assert!(code == 75 && err.contains("for 5 s at most"), "{err}");
    let (code, _, err) = run(&["--timeout", "0"]);
    assert!(code == 75 && !err.contains("waiting for \"job\""), "{err}");
}

#[test]
fn value_of_a_wrong_type_is_refused_with_the_right_form() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.toml");
    let nodes = "[[nodes]], and below it url = \"redis://host:port\"";
    for (text, right) in [
        ("ttl = 30", "such as \"500ms\", \"30s\""),
        ("nodes = [\"redis://eu\", \"redis://us\"]", nodes),
        ("nodes = \"redis://eu,redis://us\"", nodes),
    ] {
        std::fs::write(&file, text).unwrap();
        let (code, _, err) = done(bare().args(["status", "--config"]).arg(&file));
        assert!(code == 64 && err.contains("line 1") && err.contains(right), "{text}: {err}");
    }
}

#[test]
fn help_is_no_mistake() {
    let (code, out, err) = done(bare().arg("--help"));
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("sandbox") && !out.contains("demo-worker"));
}
