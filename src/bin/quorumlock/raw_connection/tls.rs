//! The certificates of a server, and for how long they will be accepted.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConnection, StreamOwned};

use crate::tls::Tls;

const DAY: Duration = Duration::from_secs(24 * 3_600);
/// The largest number of days that this module returns.
const FAR: u32 = 3_650;

pub(super) type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// Does the TLS handshake with the same options as the library. Also returns for how many days the
/// server's chain of certificates will be accepted.
pub(super) fn encrypted(tls: &Tls, host: &str, mut stream: TcpStream) -> io::Result<(Encrypted, u32)> {
    let name = tls.name(host).map_err(io::Error::other)?;
    let config = Arc::new(tls.client_config().map_err(io::Error::other)?);
    let roots = Arc::new(tls.roots().map_err(io::Error::other)?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, config.crypto_provider().clone());
    let verifier = verifier.build().map_err(io::Error::other)?;
    let mut connection = ClientConnection::new(config, name.clone()).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    let days = days(&*verifier, connection.peer_certificates().unwrap_or_default(), &name);
    Ok((StreamOwned::new(connection, stream), days))
}

/// For how many whole days the chain will be accepted. Verifies the chain at later times, which
/// needs no parser for certificates.
fn days(verifier: &dyn ServerCertVerifier, chain: &[CertificateDer<'_>], name: &ServerName<'_>) -> u32 {
    let Some((first, rest)) = chain.split_first() else { return 0 };
    let now = Duration::from_secs(UnixTime::now().as_secs());
    last(FAR, |days| {
        verifier.verify_server_cert(first, rest, name, &[], UnixTime::since_unix_epoch(now + DAY * days)).is_ok()
    })
}

/// The largest number up to `most` for which `holds` is true; 0 if there is none. `holds` must be
/// true up to the result, and false above.
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
