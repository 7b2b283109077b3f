//! TLS for all transports: trusted authorities, client certificates, and server names.
//!
//! The command line uses the same functions for its own connections.

// The command includes this file with `#[path]`, which changes the default path of submodules.
#[cfg(feature = "__tls")]
#[path = "tls/client.rs"]
mod client;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "__tls")]
use client::Reading;

/// The reason why a program that was built without TLS refuses addresses and options for TLS.
pub(crate) const NO_TLS: &str = "quorumlock was built without TLS; turn on its feature tls or tls-aws-lc";

/// The TLS options for nodes: the trusted authorities, the client's certificate, and the servers'
/// names.
///
/// TLS needs the feature `tls` or `tls-aws-lc`. Without these features, all `rediss://` addresses
/// and TLS options are refused with a `Config` error.
///
/// Certificates are always checked; no option disables the checks. By default, the client trusts
/// the system's authorities (`SSL_CERT_FILE` names others), and has no certificate of its own. A
/// server's certificate must be for the host in the node's address, unless
/// [`server_name`](Self::server_name) is set.
///
/// Files are in PEM format, and have at most 4 MiB. They are read when the quorum is opened, and
/// again for each connection, so a renewed certificate needs no restart. The contents of files are
/// never shown.
///
/// # Examples
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> quorumlock::Result<()> {
/// use quorumlock::{Quorum, Tls};
///
/// let tls = Tls::new().ca_file("ca.pem").client_certificate("client.pem", "client.key");
/// let quorum = Quorum::builder().node("rediss://eu:6380").tls(tls).connect().await?;
/// # drop(quorum);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
#[must_use = "TLS options do nothing until a builder has them"]
pub struct Tls {
    authorities: Option<Pem>,
    and_system: bool,
    certificate: Option<Pem>,
    key: Option<Pem>,
    server_name: Option<String>,
    #[cfg(feature = "__tls")]
    reading: Reading,
}

/// Data in PEM format.
#[derive(Clone, PartialEq, Eq)]
enum Pem {
    File(PathBuf),
    Text(Arc<[u8]>),
}

impl Tls {
    /// The default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts only the authorities in this file, and not the system's authorities.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.authorities = Some(Pem::File(path.into()));
        self
    }

    /// Like [`ca_file`](Self::ca_file), but takes the contents of the file.
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities = Some(Pem::Text(pem.into().into()));
        self
    }

    /// Trusts the system's authorities in addition to those of [`ca_file`](Self::ca_file) or
    /// [`ca_pem`](Self::ca_pem).
    pub const fn and_system(mut self) -> Self {
        self.and_system = true;
        self
    }

    /// The client's certificate with its chain, and its private key without a passphrase. Servers
    /// with `tls-auth-clients yes` need both.
    pub fn client_certificate(self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.certificate_file(certificate).key_file(key)
    }

    /// Like [`client_certificate`](Self::client_certificate), but takes the contents of the files.
    pub fn client_certificate_pem(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.certificate = Some(Pem::Text(certificate.into().into()));
        self.key = Some(Pem::Text(key.into().into()));
        self
    }

    /// The host name or IP address that the servers' certificates must have. Default: the host of
    /// each address. Set this if clients reach the nodes by another name, such as through a tunnel.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Sets the client's certificate, but not its key, for configurations. See
    /// [`client_certificate`](Self::client_certificate).
    pub(crate) fn certificate_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.certificate = Some(Pem::File(path.into()));
        self
    }

    /// Sets the client's private key, but not its certificate.
    pub(crate) fn key_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.key = Some(Pem::File(path.into()));
        self
    }

    /// Whether any option is set.
    pub(crate) fn is_set(&self) -> bool {
        *self != Self::default()
    }

    /// Returns these options. Each option that is not set here is copied from `others`. The
    /// certificate and its key are copied only together. `and_system` is copied only if no
    /// authorities are set here.
    pub(crate) fn or(&self, others: &Self) -> Self {
        let own = self.certificate.is_some() || self.key.is_some();
        let (certificate, key) = if own { (&self.certificate, &self.key) } else { (&others.certificate, &others.key) };
        let authorities = self.authorities.as_ref().or(others.authorities.as_ref());
        Self {
            authorities: authorities.cloned(),
            and_system: self.and_system || (self.authorities.is_none() && others.and_system),
            certificate: certificate.clone(),
            key: key.clone(),
            server_name: self.server_name.clone().or_else(|| others.server_name.clone()),
            #[cfg(feature = "__tls")]
            reading: Reading::default(),
        }
    }

    pub(crate) const fn is_identified(&self) -> bool {
        self.certificate.is_some()
    }

    /// Always fails: this build has no TLS.
    #[cfg(not(feature = "__tls"))]
    pub(crate) fn checked(&self) -> Result<(), String> {
        Err(NO_TLS.to_owned())
    }
}

impl fmt::Debug for Tls {
    /// Shows which options are set, but not the data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("own_ca", &self.authorities.is_some())
            .field("client_certificate", &self.certificate.is_some())
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodes_own_options_go_first_and_nothing_secret_is_shown() {
        let all = Tls::new().ca_file("all").and_system().client_certificate("all", "all").server_name("all");
        assert_eq!(Tls::new().or(&all), all);
        let own = Tls::new().ca_file("own").client_certificate_pem("secret", "secret").server_name("own");
        assert_eq!(own.or(&all), own);
        assert_eq!(Tls::new().server_name("own").or(&all), all.clone().server_name("own"));
        assert!(!format!("{own:?}").contains("secret") && all.is_set() && !Tls::new().is_set());
    }
}
