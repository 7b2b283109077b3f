//! TLS as every transport speaks it: who is trusted, and by which provider.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

use crate::node::reply::{Fault, FaultKind};

/// Who is trusted: the system's certificates, as far as they can be read. rustls is told which
/// provider to use: it panics where a program has linked two and chosen none.
pub(super) fn client_config() -> Result<ClientConfig, Fault> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (_, unread) = roots.add_parsable_certificates(found.certs);
    for error in &found.errors {
        tracing::debug!(%error, "a system certificate cannot be read");
    }
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(|| format!("{unread} are garbled"), ToString::to_string);
        let message = format!("none of the system's certificates can be read ({why}); SSL_CERT_FILE names others");
        return Err(Fault::new(FaultKind::Down, message));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = versions.map_err(|error| Fault::new(FaultKind::Down, format!("TLS cannot be used: {error}")))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rustls_is_told_its_provider_and_takes_none_for_the_process() {
        client_config().unwrap();
        assert!(rustls::crypto::CryptoProvider::get_default().is_none());
    }
}
