//! TLS with the system's certificates. In these tests, the client is a child process, because an
//! environment variable names the certificates that count as the system's.

use std::path::Path;
use std::process::Stdio;

use crate::common::certificates::Certificates;
use crate::common::program::command;
use crate::common::server::Server;
use crate::common::{PATIENCE, released};
use crate::{SECOND, builder, refused};

const NODES: &str = "QUORUMLOCK_TEST_TLS";

/// A server that speaks TLS on a port of its own, with a certificate of localhost.
async fn encrypted() -> (Certificates, Server, u16) {
    let made = Certificates::new();
    made.sign("server", "ca", "localhost", 9);
    let (server, port) = made.server("server", "no").await;
    (made, server, port)
}

#[tokio::test]
async fn tls_node_votes_only_with_a_trusted_certificate() {
    let (made, _server, port) = encrypted().await;
    let url = format!("rediss://localhost:{port}");
    let said = child(&url, &made.path("ca.pem"));
    assert!(said.contains("voted over TLS"), "{said}");
    let said = child(&url, &made.path("other.pem"));
    assert!(said.contains("its certificate is not trusted here"), "a stranger's: {said}");
    let said = child(&url.replace("localhost", "127.0.0.1"), &made.path("ca.pem"));
    assert!(said.contains("its certificate is not for the host name in the address"), "another name's: {said}");
}

#[tokio::test]
async fn unreadable_system_certificate_does_not_hide_the_others() {
    let (made, _server, port) = encrypted().await;
    let (begin, end) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----");
    let good = std::fs::read_to_string(made.path("ca.pem")).unwrap();
    let bundle = made.path("bundle.pem");
    let broken = [format!("{begin}\nMAAA\n{end}\n"), format!("{begin}\n!\n{end}\n")];
    for broken in broken {
        std::fs::write(&bundle, format!("{broken}{good}")).unwrap();
        let said = child(&format!("rediss://localhost:{port}"), &bundle);
        assert!(said.contains("voted over TLS"), "{broken}: {said}");
        std::fs::write(&bundle, &broken).unwrap();
        let said = child(&format!("rediss://localhost:{port}"), &bundle);
        assert!(said.contains("none of the system's certificates can be read"), "{broken}: {said}");
    }
}

#[tokio::test]
async fn a_port_that_expects_tls_is_told_as_such() {
    let (_made, _server, port) = encrypted().await;
    assert!(refused(builder(&[format!("redis://127.0.0.1:{port}")]), "write rediss://").await.is_unavailable());
}

fn child(url: &str, trusted: &Path) -> String {
    let child = command(std::env::current_exe().unwrap())
        .args(["--exact", "tls::child_that_votes_over_tls", "--ignored", "--nocapture"])
        .env(NODES, url)
        .env("SSL_CERT_FILE", trusted)
        .env_remove("SSL_CERT_DIR")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    String::from_utf8_lossy(&child.stdout).into_owned()
}

#[tokio::test]
#[ignore = "the other half of a_node_is_reached_over_tls, which starts it"]
async fn child_that_votes_over_tls() {
    let Ok(url) = std::env::var(NODES) else { return };
    let quorum = match builder(&[url]).open() {
        Ok(quorum) => quorum,
        Err(error) => return println!("{error}"),
    };
    for _ in 0..PATIENCE.as_secs() {
        match quorum.ready(SECOND).await {
            Ok(()) => {
                released(quorum.lock("encrypted").acquire(PATIENCE).await.unwrap().release()).await;
                return println!("voted over TLS");
            }
            Err(error) if error.to_string().contains("certificate") => return println!("{error}"),
            // The client is still connecting.
            Err(_) => {}
        }
    }
}
