//! Certificates that openssl makes, and servers that have them.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::clockwork::library;
use super::port::Port;
use super::program::command;
use super::server::Server;

/// Keys of this kind are made within a millisecond.
const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

/// A folder with certificates and their keys, and with two authorities. `ca` signed `client`, and
/// `other` signed `stranger`.
///
/// openssl's clock is half a day late. So a certificate for nine days has eight whole days left
/// while a test runs.
pub struct Certificates(TempDir);

impl Certificates {
    pub fn new() -> Self {
        let this = Self(TempDir::new().unwrap());
        for name in ["ca", "other"] {
            let made = format!("req -x509 {KEY} -keyout {name}.key -out {name}.pem -days 9");
            this.openssl(&format!("{made} -subj /CN={name}"));
        }
        this.sign("client", "ca", "client", 9);
        this.sign("stranger", "other", "client", 9);
        this
    }

    /// Makes a certificate for `host` that is signed by `authority` and valid for this many days.
    pub fn sign(&self, name: &str, authority: &str, host: &str, days: i32) {
        self.sign_as(name, authority, host, days, &format!("subjectAltName=DNS:{host}\nbasicConstraints=CA:FALSE\n"));
    }

    /// As `sign`, with these extensions. A certificate without extensions has version 1.
    pub fn sign_as(&self, name: &str, authority: &str, host: &str, days: i32, extensions: &str) {
        std::fs::write(self.path(&format!("{name}.ext")), extensions).unwrap();
        self.openssl(&format!("req {KEY} -keyout {name}.key -out {name}.csr -subj /CN={host}"));
        let by = format!("-CA {authority}.pem -CAkey {authority}.key -CAcreateserial");
        let by = if extensions.is_empty() { by } else { format!("{by} -extfile {name}.ext") };
        self.openssl(&format!("x509 -req -in {name}.csr -out {name}.pem -days {days} {by}"));
    }

    /// Makes a self-signed certificate for `localhost`.
    pub fn sign_itself(&self, name: &str, days: i32) {
        let made = format!("req -x509 {KEY} -keyout {name}.key -out {name}.pem -days {days}");
        self.openssl(&format!("{made} -subj /CN=localhost -addext subjectAltName=DNS:localhost"));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn file(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A server with the certificate `name`. Besides its plain port, it has a port for TLS.
    pub async fn server(&self, name: &str, clients: &str) -> (Server, u16) {
        self.server_with(name, clients, &[]).await
    }

    /// As `server`, with more options.
    pub async fn server_with(&self, name: &str, clients: &str, more: &[&str]) -> (Server, u16) {
        let port = Port::take();
        let number = port.number();
        let (cert, key, ca) =
            (self.file(&format!("{name}.pem")), self.file(&format!("{name}.key")), self.file("ca.pem"));
        let tls = ["--tls-port", &number.to_string(), "--tls-auth-clients", clients];
        let files = ["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
        let mut server = Server::with(&[&tls[..], &files, more].concat()).await;
        server.keep(port);
        (server, number)
    }

    fn openssl(&self, words: &str) {
        openssl(self.0.path(), words);
    }
}

fn openssl(folder: &Path, words: &str) {
    let mut openssl = command("openssl");
    openssl.args(words.split(' ')).current_dir(folder).env("LD_PRELOAD", library()).env("FAKETIME", "-12h");
    let done = openssl.output();
    let done = done.expect("openssl is there; install it (apt-get install openssl)");
    assert!(done.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&done.stderr));
}
