//! The certificates of a server, and for how long they will be accepted.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const DAY: Duration = Duration::from_secs(24 * 3_600);
/// Nobody looks further ahead.
const FAR: u32 = 3_650;

pub(super) type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// Agrees on TLS as the library does, with the system's certificates. Also for how many days the
/// server's chain will be accepted.
pub(super) fn encrypted(host: &str, mut stream: TcpStream) -> Result<(Encrypted, u32), String> {
    let told = |error: rustls::Error| error.to_string();
    let roots = Arc::new(roots()?);
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
    let verifier = verifier.map_err(|error| error.to_string())?;
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(told)?;
    let config = config.with_webpki_verifier(verifier.clone()).with_no_client_auth();
    let mut connection = ClientConnection::new(Arc::new(config), name.clone()).map_err(told)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).map_err(|error| error.to_string())?;
    }
    let days = days(&*verifier, connection.peer_certificates().unwrap_or_default(), &name);
    Ok((StreamOwned::new(connection, stream), days))
}

fn roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err("none of the system's certificates can be read".to_owned()) } else { Ok(roots) }
}

/// For how many whole days the chain will be accepted: the verifier is asked about later times,
/// which needs no parser of certificates.
fn days(verifier: &dyn ServerCertVerifier, chain: &[CertificateDer<'_>], name: &ServerName<'_>) -> u32 {
    let Some((first, rest)) = chain.split_first() else { return 0 };
    let now = Duration::from_secs(UnixTime::now().as_secs());
    last(FAR, |days| {
        verifier.verify_server_cert(first, rest, name, &[], UnixTime::since_unix_epoch(now + DAY * days)).is_ok()
    })
}

/// The largest number up to `most` for which it holds, if it holds up to there and not above; 0 if
/// it never does.
fn last(most: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, most + 1);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_day_is_found() {
        for last_day in [0, 1, 13, 364, FAR] {
            assert_eq!(last(FAR, |day| day <= last_day), last_day);
        }
    }
}
