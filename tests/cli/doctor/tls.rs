//! Certificates that expire, or are not trusted.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use super::clinic::{doctor, finding, report};
use crate::common::server::Server;

#[tokio::test]
async fn certificates_that_expire_soon_or_are_not_trusted_are_told() {
    for (days, id) in [("60", "tls"), ("5", "tls-expiry")] {
        let folder = tempfile::tempdir().unwrap();
        certify(folder.path(), days);
        let (_server, port) = encrypted(folder.path()).await;
        let mut over_tls = doctor(&[format!("rediss://localhost:{port}")]);
        let (_, object) =
            report(over_tls.env("SSL_CERT_FILE", folder.path().join("ca.pem")).env_remove("SSL_CERT_DIR"));
        let level = if id == "tls" { "fine" } else { "warning" };
        assert_eq!(finding(&object, id)["level"], level, "{object:#}");
        let left = object["nodes"][0]["certificates_accepted_for_days"].as_u64().unwrap();
        assert!([days.parse::<u64>().unwrap(), days.parse::<u64>().unwrap() - 1].contains(&left), "{object:#}");
        let mut stranger = doctor(&[format!("rediss://127.0.0.1:{port}")]);
        let (code, object) =
            report(stranger.env("SSL_CERT_FILE", folder.path().join("ca.pem")).env_remove("SSL_CERT_DIR"));
        assert_eq!((code, &finding(&object, "tls")["level"]), (2, &"warning".into()), "{object:#}");
    }
}

/// A server that speaks TLS on a port of its own, beside the plain one.
async fn encrypted(folder: &Path) -> (Server, u16) {
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    for _ in 0..20 {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let (number, certificate, key, authority) =
            (port.to_string(), file("server.pem"), file("server.key"), file("ca.pem"));
        let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &authority];
        let server = Server::with(&[&["--tls-port", &number, "--tls-auth-clients", "no"][..], &files].concat()).await;
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return (server, port);
        }
    }
    panic!("redis-server does not listen on its TLS port");
}

/// An authority, and a certificate of localhost signed by it that lasts for so many days.
fn certify(folder: &Path, days: &str) {
    std::fs::write(folder.join("server.ext"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n").unwrap();
    openssl(folder, "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 365 -subj /CN=quorumlock");
    openssl(folder, "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost");
    let sign = "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -extfile server.ext";
    openssl(folder, &format!("{sign} -days {days}"));
}

fn openssl(folder: &Path, words: &str) {
    let done = Command::new("openssl").args(words.split(' ')).current_dir(folder).output();
    let done = done.expect("openssl is there; install it (apt-get install openssl)");
    assert!(done.status.success(), "openssl {words:?}: {}", String::from_utf8_lossy(&done.stderr));
}
