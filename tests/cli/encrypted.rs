//! Checks docs/deploy.md, "TLS and users": TLS by options, by the environment and by a file, with a
//! user whose password is in a file.

use quorumlock::{Credentials, CredentialsProvider, PasswordFile};

use super::status::looked;
use super::{bare, done};
use crate::common::certificates::Certificates;
use crate::common::server::Server;

/// The rights that docs/deploy.md gives to the user for locks.
const RIGHTS: [&str; 6] = ["on", ">passw0rd", "~quorumlock:*", "&quorumlock:*", "+@all", "-@dangerous"];

#[tokio::test]
async fn a_lock_under_tls_and_a_user_is_reached_as_the_readme_says() {
    let made = Certificates::new();
    made.sign("server", "ca", "redis.internal", 90);
    let (server, port) = made.server("server", "yes").await;
    user(&server);
    std::fs::write(made.path("password"), "passw0rd\n").unwrap();
    let file = |name: &str| made.file(name);
    let url = format!("rediss://locks@127.0.0.1:{port}");
    let names = [("CA", "ca.pem"), ("CERT", "client.pem"), ("KEY", "client.key")];
    // By options.
    for words in [&["run", "job"][..], &["status"], &["doctor"]] {
        let mut command = bare();
        command.env("QUORUMLOCK_MAX_TTL", "0").env("QUORUMLOCK_TIMEOUT", "1h").args(words).args([
            "--node-timeout",
            "20s",
            "--nodes",
            &url,
            "--tls-server-name",
            "redis.internal",
        ]);
        for (name, path) in names {
            command.args([format!("--tls-{}", name.to_lowercase()), file(path)]);
        }
        command.args(["--password-file", &file("password")]);
        if words[0] == "run" {
            command.args(["--", "true"]);
        }
        if words[0] == "doctor" {
            let (code, out, err) = done(command.arg("--json"));
            let object: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{code} {out}{err}"));
            assert_eq!(object["nodes"][0]["certificates_accepted_for_days"], 89, "{object:#}");
        } else {
            let (code, out, err) = looked(&mut command);
            assert_eq!(code, 0, "{words:?}: {out}{err}");
        }
    }
    // By the environment.
    let mut command = bare();
    command
        .env("QUORUMLOCK_MAX_TTL", "0")
        .env("QUORUMLOCK_TIMEOUT", "1h")
        .env("QUORUMLOCK_NODES", &url)
        .env("QUORUMLOCK_PASSWORD_FILE", file("password"));
    for (name, path) in names {
        command.env(format!("QUORUMLOCK_TLS_{name}"), file(path));
    }
    command.env("QUORUMLOCK_TLS_SERVER_NAME", "redis.internal");
    assert_eq!(done(command.args(["run", "job", "--", "true"])).0, 0);
    // By a configuration file. The other files are in the same folder.
    let node = format!("[[nodes]]\nurl = \"rediss://127.0.0.1:{port}\"\nuser = \"locks\"\n");
    let tls = "tls_ca = \"ca.pem\"\ntls_cert = \"client.pem\"\ntls_key = \"client.key\"\ntls_server_name = \"redis.internal\"\n";
    std::fs::write(made.path("nodes.toml"), format!("max_ttl = \"0\"\npassword_file = \"password\"\n{tls}{node}"))
        .unwrap();
    let (code, out, err) = looked(bare().args(["status", "--config", &file("nodes.toml")]).current_dir("/"));
    assert_eq!(code, 0, "{out}{err}");
}

fn user(server: &Server) {
    assert_eq!(server.command(&[&["ACL", "SETUSER", "locks"][..], &RIGHTS, &["+info"]].concat()), "OK");
}

#[test]
fn tls_options_that_make_no_sense_are_refused() {
    let status = |words: &[&str]| done(bare().args(["status", "--nodes", "rediss://127.0.0.1:1"]).args(words));
    let (code, _, err) = status(&["--tls-cert", "client.pem"]);
    assert!(code == 64 && err.contains("go together; give both"), "{err}");
    let (code, _, err) = status(&["--tls-ca", "/nowhere/ca.pem"]);
    assert!(code == 64 && err.contains("/nowhere/ca.pem: No such file"), "{err}");
    let (code, _, err) = done(bare().args(["status", "--nodes", "redis://127.0.0.1:1", "--tls-server-name", "eu"]));
    assert!(code == 64 && err.contains("write rediss:// for nodes that speak TLS"), "{err}");
}

#[tokio::test]
async fn library_password_file_drops_the_line_end_and_refuses_folders() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    std::fs::write(&path, "pass word\r\n").unwrap();
    let file = PasswordFile::new(&path).unwrap();
    assert_eq!(file.fetch("redis://eu:6379").await.unwrap(), Credentials::password("pass word"));
    assert!(PasswordFile::new(folder.path()).unwrap_err().is_config());
}
