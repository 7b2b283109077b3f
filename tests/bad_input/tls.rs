//! TLS needs a process of its own: the certificates to trust are named by a variable of the
//! environment.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::PATIENCE;
use crate::common::server::Server;
use crate::{SECOND, builder, refused};

const NODES: &str = "QUORUMLOCK_TEST_TLS";

#[tokio::test]
async fn a_node_is_reached_over_tls_and_only_with_a_certificate_that_is_trusted() {
    let folder = tempfile::TempDir::new().unwrap();
    certify(folder.path());
    let (server, port) = encrypted(folder.path()).await;
    let url = format!("rediss://localhost:{port}");
    let said = child(&url, &folder.path().join("ca.pem"));
    assert!(said.contains("voted over TLS"), "{said}");
    let said = child(&url, &folder.path().join("other.pem"));
    assert!(said.contains("its certificate is not trusted here (bad signature)"), "a stranger's: {said}");
    let said = child(&url.replace("localhost", "127.0.0.1"), &folder.path().join("ca.pem"));
    assert!(said.contains("its certificate is for other host names"), "another name's: {said}");
    drop(server);
}

#[tokio::test]
async fn a_system_certificate_that_cannot_be_read_does_not_keep_the_others_from_being_trusted() {
    let folder = tempfile::TempDir::new().unwrap();
    certify(folder.path());
    let (server, port) = encrypted(folder.path()).await;
    let (begin, end) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----");
    let good = std::fs::read_to_string(folder.path().join("ca.pem")).unwrap();
    let bundle = folder.path().join("bundle.pem");
    let broken = [format!("{begin}\nMAAA\n{end}\n"), format!("{begin}\n!\n{end}\n")];
    for broken in broken {
        std::fs::write(&bundle, format!("{broken}{good}")).unwrap();
        let said = child(&format!("rediss://localhost:{port}"), &bundle);
        assert!(said.contains("voted over TLS"), "{broken}: {said}");
        std::fs::write(&bundle, &broken).unwrap();
        let said = child(&format!("rediss://localhost:{port}"), &bundle);
        assert!(said.contains("none of the system's certificates can be read"), "{broken}: {said}");
    }
    drop(server);
}

#[tokio::test]
async fn a_port_that_expects_tls_is_told_as_such() {
    let folder = tempfile::TempDir::new().unwrap();
    certify(folder.path());
    let (_server, port) = encrypted(folder.path()).await;
    assert!(refused(builder(&[format!("redis://127.0.0.1:{port}")]), "write rediss://").await.is_unavailable());
}

fn child(url: &str, trusted: &Path) -> String {
    let child = Command::new(std::env::current_exe().unwrap())
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
                quorum.lock("encrypted").acquire(PATIENCE).await.unwrap().release().await.unwrap();
                return println!("voted over TLS");
            }
            Err(error) if error.to_string().contains("certificate") => return println!("{error}"),
            // It has not got so far.
            Err(_) => {}
        }
    }
}

/// A server that speaks TLS on a port of its own, beside the plain one.
async fn encrypted(folder: &Path) -> (Server, u16) {
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    for _ in 0..20 {
        let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let server = Server::with(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &file("server.pem"),
            "--tls-key-file",
            &file("server.key"),
            "--tls-ca-cert-file",
            &file("ca.pem"),
            "--tls-auth-clients",
            "no",
        ])
        .await;
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return (server, port);
        }
    }
    panic!("redis-server does not listen on its TLS port");
}

/// An authority, a certificate of localhost signed by it, and an authority that signed nothing.
fn certify(folder: &Path) {
    std::fs::write(folder.join("server.ext"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n").unwrap();
    let authority = |name: &str| {
        let (key, file) = (format!("{name}.key"), format!("{name}.pem"));
        openssl(
            folder,
            &[
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-keyout",
                &key,
                "-out",
                &file,
                "-days",
                "2",
                "-subj",
                "/CN=quorumlock test",
            ],
        );
    };
    authority("ca");
    authority("other");
    openssl(
        folder,
        &[
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            "server.key",
            "-out",
            "server.csr",
            "-subj",
            "/CN=localhost",
        ],
    );
    openssl(
        folder,
        &[
            "x509",
            "-req",
            "-in",
            "server.csr",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-out",
            "server.pem",
            "-days",
            "2",
            "-extfile",
            "server.ext",
        ],
    );
}

fn openssl(folder: &Path, words: &[&str]) {
    let done = Command::new("openssl").args(words).current_dir(folder).output();
    let done = done.expect("openssl is there; install it (apt-get install openssl)");
    assert!(done.status.success(), "openssl {words:?}: {}", String::from_utf8_lossy(&done.stderr));
}
