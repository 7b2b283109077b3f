//! Certificates that openssl makes, and servers that have them.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::server::Server;

/// A folder with the authorities `ca` and `other`, of which the second signed nothing here but
/// `stranger`, and certificates with their keys.
pub struct Certificates(TempDir);

impl Certificates {
    pub fn new() -> Self {
        let this = Self(TempDir::new().unwrap());
        for name in ["ca", "other"] {
            let made = format!("req -x509 -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.pem -days 9");
            this.openssl(&format!("{made} -subj /CN={name}"));
        }
        this.sign("client", "ca", "client", 9);
        this.sign("stranger", "other", "client", 9);
        this
    }

    /// A certificate for the host `host`, signed by `authority`, that lasts for so many days.
    pub fn sign(&self, name: &str, authority: &str, host: &str, days: i32) {
        self.sign_as(name, authority, host, days, &format!("subjectAltName=DNS:{host}\nbasicConstraints=CA:FALSE\n"));
    }

    /// The same, with these extensions. Without any it is of version 1.
    pub fn sign_as(&self, name: &str, authority: &str, host: &str, days: i32, extensions: &str) {
        std::fs::write(self.path(&format!("{name}.ext")), extensions).unwrap();
        self.openssl(&format!("req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={host}"));
        let by = format!("-CA {authority}.pem -CAkey {authority}.key -CAcreateserial");
        let by = if extensions.is_empty() { by } else { format!("{by} -extfile {name}.ext") };
        self.openssl(&format!("x509 -req -in {name}.csr -out {name}.pem -days {days} {by}"));
    }

    /// A certificate for `localhost` that signed itself.
    pub fn sign_itself(&self, name: &str, days: i32) {
        let made = format!("req -x509 -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.pem -days {days}");
        self.openssl(&format!("{made} -subj /CN=localhost -addext subjectAltName=DNS:localhost"));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn file(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A server that speaks TLS on a port of its own, beside the plain one, with the certificate
    /// `name`.
    pub async fn server(&self, name: &str, clients: &str) -> (Server, u16) {
        self.server_with(name, clients, &[]).await
    }

    /// The same, with more options.
    pub async fn server_with(&self, name: &str, clients: &str, more: &[&str]) -> (Server, u16) {
        for _ in 0..20 {
            let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
            let (number, cert, key, ca) = (
                port.to_string(),
                self.file(&format!("{name}.pem")),
                self.file(&format!("{name}.key")),
                self.file("ca.pem"),
            );
            let files = ["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
            let server =
                Server::with(&[&["--tls-port", &number, "--tls-auth-clients", clients][..], &files, more].concat())
                    .await;
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return (server, port);
            }
        }
        panic!("redis-server does not listen on its TLS port");
    }

    fn openssl(&self, words: &str) {
        openssl(self.0.path(), words);
    }
}

fn openssl(folder: &Path, words: &str) {
    let done = Command::new("openssl").args(words.split(' ')).current_dir(folder).output();
    let done = done.expect("openssl is there; install it (apt-get install openssl)");
    assert!(done.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&done.stderr));
}
