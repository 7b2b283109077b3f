//! Reads the certificates, and makes the configuration of rustls.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::Semaphore;

use super::{Pem, Tls};

/// No file of certificates needs as many bytes as this, so a longer file was named by mistake.
const LONGEST: u64 = 4 << 20;

const AUTHORITY: &str = "authority (CA)";

/// Allows one read of files at a time. Otherwise a file system that hangs would block one more
/// thread at each attempt to connect.
#[derive(Clone)]
pub(super) struct Reading(Arc<Semaphore>);

/// The provider of cryptography: the one that the program has installed as its default, else that
/// of the feature. If both features for TLS are on, this is ring.
fn provider(installed: Option<&Arc<CryptoProvider>>) -> Arc<CryptoProvider> {
    #[cfg(not(feature = "tls"))]
    use rustls::crypto::aws_lc_rs as chosen;
    #[cfg(feature = "tls")]
    use rustls::crypto::ring as chosen;
    installed.cloned().unwrap_or_else(|| Arc::new(chosen::default_provider()))
}

impl Tls {
    /// Reads and checks the files, if any option is set.
    pub(crate) fn checked(&self) -> Result<(), String> {
        if !self.is_set() {
            return Ok(());
        }
        self.client_config()?;
        self.name("host").map(drop)
    }

    /// The name that a server's certificate must have.
    pub(crate) fn name(&self, host: &str) -> Result<ServerName<'static>, String> {
        let name = self.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.to_owned())
            .map_err(|_| "no certificate can be for a host with this name; set another name (server_name)".to_owned())
    }

    pub(crate) fn given_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// The trusted authorities.
    pub(crate) fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        for certificate in self.authorities()? {
            roots.add(certificate).map_err(|error| self.unfit_authority(&error))?;
        }
        if self.authorities.is_none() || self.and_system {
            add_system(&mut roots)?;
        }
        Ok(roots)
    }

    /// The authorities that the user gave; empty if the user gave none.
    pub(crate) fn authorities(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        self.authorities.as_ref().map_or_else(|| Ok(Vec::new()), |own| own.certificates(AUTHORITY))
    }

    fn unfit_authority(&self, error: &rustls::Error) -> String {
        self.authorities.as_ref().map_or_else(String::new, |own| own.wrong(AUTHORITY, &error.to_string()))
    }

    /// The client's certificate and key, if the user gave them.
    pub(crate) fn identity(&self) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, String> {
        match (&self.certificate, &self.key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => {
                Ok(Some((certificate.certificates("client certificate")?, key.private_key()?)))
            }
            (Some(_), None) => Err("a client certificate is named without its private key; name both".to_owned()),
            (None, Some(_)) => Err("a private key is named without its client certificate; name both".to_owned()),
        }
    }

    /// The configuration of rustls, with a provider of cryptography: if a program links two
    /// providers and chooses none, rustls panics.
    pub(crate) fn client_config(&self) -> Result<ClientConfig, String> {
        let versions = ClientConfig::builder_with_provider(provider(CryptoProvider::get_default()))
            .with_safe_default_protocol_versions();
        let config = versions.map_err(|error| format!("TLS cannot be used: {error}"))?;
        let config = config.with_root_certificates(self.roots()?);
        match self.identity()? {
            None => Ok(config.with_no_client_auth()),
            Some((chain, key)) => config.with_client_auth_cert(chain, key).map_err(|error| unfit(&error)),
        }
    }

    /// Like [`client_config`](Self::client_config), but reads the files on a blocking thread: the
    /// runtime's own threads must go on renewing leases.
    ///
    /// # Cancel safety
    /// Safe: a read that has begun ends by itself, and the next read waits for its end.
    pub(crate) async fn at_connect(&self, limit: Duration) -> Result<ClientConfig, String> {
        tokio::select! {
            biased;
            read = self.elsewhere() => read,
            () = tokio::time::sleep(limit) => Err("the certificates' files were not read within node_timeout".to_owned()),
        }
    }

    async fn elsewhere(&self) -> Result<ClientConfig, String> {
        let turn = self.reading.0.clone().acquire_owned().await.map_err(|error| error.to_string())?;
        let own = self.clone();
        let read = tokio::task::spawn_blocking(move || {
            let read = own.client_config();
            drop(turn);
            read
        });
        read.await.map_err(|error| error.to_string())?
    }
}

impl Default for Reading {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl PartialEq for Reading {
    /// All values are equal, because a `Reading` is not an option.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Reading {}

/// Adds those of the system's certificates that can be read.
fn add_system(roots: &mut RootCertStore) -> Result<(), String> {
    let found = rustls_native_certs::load_native_certs();
    let (_, unread) = roots.add_parsable_certificates(found.certs);
    for error in &found.errors {
        tracing::debug!(%error, "a system certificate cannot be read");
    }
    if !roots.is_empty() {
        return Ok(());
    }
    let why = found.errors.first().map_or_else(|| format!("{unread} are garbled"), ToString::to_string);
    Err(format!("none of the system's certificates can be read ({why}); SSL_CERT_FILE names others"))
}

fn unfit(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            "the private key does not belong to the client certificate; name a matching pair".to_owned()
        }
        rustls::Error::InvalidCertificate(rustls::CertificateError::Other(error))
            if format!("{error:?}").contains("UnsupportedCertVersion") =>
        {
            "the client certificate is of an X.509 version below 3; make one of version 3, that is, with an \
             extension (openssl x509 -req needs -extfile for that)"
                .to_owned()
        }
        error => format!("the client certificate and its key cannot be used ({error})"),
    }
}

impl Pem {
    fn certificates(&self, what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.bytes(what)?).collect();
        match read {
            Ok(found) if !found.is_empty() => Ok(found),
            Ok(_) => Err(self.wrong(what, "it has no certificate; name a PEM file with -----BEGIN CERTIFICATE-----")),
            Err(_) => Err(self.wrong(what, "it is garbled; name a PEM file with -----BEGIN CERTIFICATE-----")),
        }
    }

    /// The private key in this data. The error does not repeat the data.
    fn private_key(&self) -> Result<PrivateKeyDer<'static>, String> {
        let what = "private key";
        PrivateKeyDer::from_pem_slice(&self.bytes(what)?).map_err(|_| {
            self.wrong(
                what,
                "it has no private key, or the key has a passphrase; name a PEM file with -----BEGIN PRIVATE KEY-----",
            )
        })
    }

    fn bytes(&self, what: &str) -> Result<Vec<u8>, String> {
        match self {
            Self::Text(text) => Ok(text.to_vec()),
            Self::File(path) => read(path).map_err(|why| self.wrong(what, &why)),
        }
    }

    fn wrong(&self, what: &str, why: &str) -> String {
        match self {
            Self::File(path) => format!("the {what} {}: {why}", path.display()),
            Self::Text(_) => format!("the {what}: {why}"),
        }
    }
}

/// Reads only regular files, because a pipe cannot be read a second time.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let file = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !file.is_file() || file.len() > LONGEST {
        return Err("it is not a file of at most 4 MiB".to_owned());
    }
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(path);
    opened.and_then(|file| file.take(LONGEST).read_to_end(&mut bytes)).map_err(|error| error.to_string())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rustls_is_told_its_provider_and_takes_none_for_the_process() {
        Tls::new().client_config().unwrap();
        assert!(rustls::crypto::CryptoProvider::get_default().is_none());
    }

    #[test]
    fn provider_that_the_program_has_installed_is_used() {
        let installed = provider(None);
        assert!(Arc::ptr_eq(&provider(Some(&installed)), &installed));
        assert!(!Arc::ptr_eq(&provider(None), &installed));
    }

    /// The runtime's only blocking thread is busy, as if a file system hung.
    #[test]
    fn files_are_not_read_on_the_threads_that_keep_leases() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().max_blocking_threads(1).build().unwrap();
        let (mended, hangs) = std::sync::mpsc::channel::<()>();
        runtime.block_on(async {
            let hung = tokio::task::spawn_blocking(move || hangs.recv());
            let tls = Tls::new();
            for _ in 0..3 {
                let late = tls.at_connect(Duration::from_millis(1)).await.unwrap_err();
                assert!(late.contains("not read within node_timeout"), "{late}");
            }
            assert_eq!(tls.reading.0.available_permits(), 0, "later reads wait for the first");
            mended.send(()).unwrap();
            hung.await.unwrap().unwrap();
            tls.at_connect(Duration::from_secs(60)).await.unwrap();
        });
    }

    #[test]
    fn malformed_certificate_or_key_is_refused_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file.pem");
        std::fs::write(&file, "secret").unwrap();
        let begin = "-----BEGIN CERTIFICATE-----\nsecret!\n-----END CERTIFICATE-----\n";
        for (tls, says) in [
            (Tls::new().ca_file("/nowhere/ca.pem"), "the authority (CA) /nowhere/ca.pem: No such file"),
            (Tls::new().ca_file(folder.path()), "it is not a file of at most 4 MiB"),
            (Tls::new().ca_file(&file), "file.pem: it has no certificate"),
            (Tls::new().ca_pem("secret"), "the authority (CA): it has no certificate"),
            (Tls::new().ca_pem(begin), "it is garbled"),
            (Tls::new().client_certificate_pem("secret", "secret"), "the client certificate: it has no certificate"),
            (Tls::new().certificate_file(&file), "without its private key; name both"),
            (Tls::new().key_file(&file), "without its client certificate; name both"),
        ] {
            let said = tls.client_config().unwrap_err();
            assert!(said.contains(says) && !said.contains("secret"), "{said}");
        }
        let key = Pem::Text(b"secret".as_slice().into()).private_key().unwrap_err();
        assert!(key.contains("no private key, or the key has a passphrase") && !key.contains("secret"), "{key}");
    }
}
