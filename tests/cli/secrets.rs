//! No output of the command contains a password.

use std::path::Path;
use std::process::Command;

use super::bare;
use super::status::looked;
use crate::common::server::Server;

pub(super) const PASSWORD: &str = "hunter2@/:secret";
pub(super) const ENCODED: &str = "hunter2%40%2F%3Asecret";

/// Runs the command, and checks that its output has no password. Returns the exit code and the
/// output. Each node that is not down must have answered in time.
pub(super) fn silent(command: &mut Command) -> (i32, String) {
    let (code, out, err) = looked(command);
    let said = out + &err;
    for secret in [PASSWORD, ENCODED, "hunter2", "wr0ng", "73131737313"] {
        assert!(!said.contains(secret), "{secret} in {said}");
    }
    (code, said)
}

pub(super) async fn guarded() -> Vec<Server> {
    let start = || Server::with(&["--requirepass", PASSWORD]);
    vec![start().await, start().await, start().await]
}

fn config(file: &Path, servers: &[Server]) {
    let node = |server: &Server| format!("[[nodes]]\nurl = \"{}\"\npassword_env = \"REDIS_PASSWORD\"\n", server.url());
    let text = servers.iter().map(node).collect::<String>() + "";
    std::fs::write(file, format!("max_ttl = \"0\"\nttl = \"30s\"\n{text}")).unwrap();
}

#[tokio::test]
async fn a_password_from_the_environment_works_and_is_not_told() {
    let (servers, folder) = (guarded().await, tempfile::tempdir().unwrap());
    let file = folder.path().join("nodes.toml");
    config(&file, &servers);
    let command = |arguments: &[&str]| {
        let mut command = bare();
        command.args(arguments).args(["-v", "--config"]).arg(&file).env("REDIS_PASSWORD", PASSWORD);
        command.env("QUORUMLOCK_TIMEOUT", "1h");
        command
    };
    assert_eq!(silent(&mut command(&["status", "job"])).0, 0);
    assert_eq!(silent(&mut command(&["status", "--json"])).0, 0);
    assert_eq!(silent(&mut command(&["status", "--log-format", "json"])).0, 0);
    assert_eq!(silent(command(&["run", "job"]).args(["--", "true"])).0, 0);
    assert_eq!(silent(&mut command(&["release", "job", "--force", "--yes"])).0, 0);
    assert_eq!(silent(&mut command(&["demo", "--seconds", "1"])).0, 0);
    let (code, said) = silent(&mut command(&["doctor", "--node-timeout", "20s"]));
    assert!(code == 2 && said.contains("restart-guard") && !said.contains("cannot tell"), "{said}");
    let (_, said) = silent(command(&["doctor", "--node-timeout", "20s"]).env("REDIS_PASSWORD", "wr0ng"));
    assert!(said.contains("It refuses the login"), "{said}");
    let (code, said) = silent(command(&["status"]).env("REDIS_PASSWORD", "wr0ng"));
    assert!(code == 69 && said.contains("WRONGPASS"), "{said}");
    let mut run = command(&["run", "job", "-n"]);
    let (code, said) = silent(run.env("REDIS_PASSWORD", "wr0ng").args(["--log-format=json", "--", "true"]));
    assert!(code == 69 && said.contains("WRONGPASS"), "{said}");
}

#[tokio::test]
async fn password_in_a_good_or_bad_address_is_never_shown() {
    let servers = guarded().await;
    let address = |scheme: &str, rest: &str| format!("{scheme}://:{ENCODED}@127.0.0.1:{}{rest}", servers[0].port());
    let said = |nodes: &str| silent(bare().args(["status", "-v", "--max-ttl", "0", "--nodes", nodes]));
    assert_eq!(said(&address("redis", "")).0, 0);
    for wrong in [address("http", ""), address("redis", "/x"), address("redis", "?a=b"), address("redis", "#f")] {
        assert_eq!(said(&wrong).0, 64);
    }
    let twice = format!("{},{}", address("redis", ""), address("redis", ""));
    assert_eq!(said(&twice).0, 64);
    let mut environment = bare();
    assert_eq!(silent(environment.env("QUORUMLOCK_NODES", address("http", "")).args(["status", "-v"])).0, 64);
    assert_eq!(silent(environment.arg("--help")).0, 0);
}

/// The list of nodes is split at commas. A part before a comma may lack the `@` that ends a
/// password.
#[test]
fn a_password_that_is_not_percent_encoded_is_not_told_either() {
    for password in
        ["/hunter2,more", "12/hunter2,more", "?hunter2,more", "1?hunter2=1,more", "hunter2,more", "h,hunter2"]
    {
        for rest in ["", "@127.0.0.1:17000"] {
            let nodes = format!("redis://us:{password}{rest}");
            let (code, said) = silent(bare().args(["status", "-v", "--nodes", &nodes]));
            assert!(code == 64 && said.contains("split at commas") && said.contains("%2C"), "{nodes}: {said}");
        }
    }
    for nodes in ["redis://us:/hunter2", "redis://us:?hunter2", "redis://us:hunter2", "hunter2://127.0.0.1"] {
        for list in [nodes.to_owned(), format!("redis://eu,{nodes}")] {
            let (code, said) = silent(bare().args(["members", "-v", "--nodes", &list]));
            assert_eq!(code, 64, "{said}");
            let (code, said) = silent(bare().args(["status", "-v"]).env("QUORUMLOCK_NODES", &list));
            assert_eq!(code, 64, "{said}");
        }
    }
}

/// The address stands in the place of a name or an option, or in a place where no argument belongs.
#[test]
fn a_password_of_an_address_at_the_wrong_place_is_not_told() {
    let address = format!("rediss://locks:{ENCODED}@eu:6380");
    let as_name: [&[&str]; 6] = [
        &["status", &address],
        &["watch", &address],
        &["release", "--force", &address],
        &["run", "job", &address, "--", "true"],
        &["elect", &address, "--", "true"],
        &["run", "--log-format=json", &address, "--", "true"],
    ];
    for line in as_name {
        let (code, said) = silent(bare().args(line).args(["--nodes", "redis://127.0.0.1:1"]));
        assert!(code == 64 && said.contains("rediss://***") && said.contains("--nodes"), "{line:?}: {said}");
    }
    for line in [
        &["status", "job", &address] as &[&str],
        &["doctor", &address],
        &["status", "--connect-timeout", &address],
        &["run", "job", &format!("--node={address}"), "--", "true"],
        &[&address],
    ] {
        let (code, said) = silent(bare().args(line));
        assert!(code == 64 && said.contains("error:"), "{line:?}: {said}");
    }
    for line in [
        &["status", "--config", &address] as &[&str],
        &["status", "--nodes", "rediss://127.0.0.1:1", "--tls-ca", &address],
        &["run", "--nodes", "redis://127.0.0.1:1", "--metrics", &address, "job", "--", "true"],
        &["run", "--nodes", "redis://127.0.0.1:1", "--metrics-textfile", &address, "job", "--", "true"],
        &["manpage", "--into", &address],
        &["doctor", &format!("locks:{ENCODED}@eu")],
    ] {
        let (code, said) = silent(bare().args(line));
        assert!(code != 0 && said.contains("***@eu"), "{line:?}: {code} {said}");
    }
    let (code, _) = silent(bare().args(["status"]).env("QUORUMLOCK_CONFIG", &address));
    assert_eq!(code, 64);
    // Here, all writes to standard error fail.
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let status = bare().args(["doctor", &address]).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(64));
}

#[test]
fn a_broken_file_is_refused_without_its_words() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.toml");
    for text in [
        "nodes = \"redis://:hunter2@eu\"",
        "[[nodes]]\nurl = \"redis://eu\"\npassword = hunter2",
        "[[nodes]]\nurl = \"redis://eu\"\npassword = \"hunter2",
        "[[nodes]]\nurl = \"redis://:hunter2@eu\"\npassword = \"wr0ng\"",
        "ttl = \"hunter2\"",
        "[[nodes]]\nurl = \"redis://eu\"\npassword = 73131737313",
    ] {
        std::fs::write(&file, text).unwrap();
        let (code, said) = silent(bare().args(["status", "-v", "--config"]).arg(&file));
        assert!(code == 64 && said.contains("nodes.toml"), "{said}");
    }
}
