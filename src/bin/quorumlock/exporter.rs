//! Metrics over HTTP, for Prometheus.

use std::net::SocketAddr;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use quorumlock::metrics::BUCKETS;

use crate::failure::Failure;

/// Serves metrics at `address` from now on. Called before a quorum connects: it looks its meters up
/// then.
pub(crate) fn serve(address: Option<&str>) -> Result<(), Failure> {
    let Some(text) = address else { return Ok(()) };
    let address = listening(text).ok_or_else(|| {
        Failure::usage(format!("--metrics {text:?} is no address; write a port (9100), or ADDRESS:PORT (0.0.0.0:9100)"))
    })?;
    PrometheusBuilder::new()
        .with_http_listener(address)
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS)
        .and_then(PrometheusBuilder::install)
        .map_err(|error| Failure::usage(format!("metrics cannot be served at {address}: {error}")))?;
    tracing::info!("metrics at http://{address}/metrics");
    Ok(())
}

/// A bare port, or a port behind a colon, is on loopback: who wants to be seen from outside says
/// so.
fn listening(text: &str) -> Option<SocketAddr> {
    let port = text.strip_prefix(':').unwrap_or(text);
    match port.parse::<u16>() {
        Ok(port) => Some(SocketAddr::from(([127, 0, 0, 1], port))),
        Err(_) => text.replace("localhost:", "127.0.0.1:").parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_port_is_on_loopback() {
        let shown = |text| listening(text).map(|address| address.to_string());
        assert_eq!(shown("9100").as_deref(), Some("127.0.0.1:9100"));
        assert_eq!(shown(":9100").as_deref(), Some("127.0.0.1:9100"));
        assert_eq!(shown("0.0.0.0:9100").as_deref(), Some("0.0.0.0:9100"));
        assert_eq!(shown("[::1]:9100").as_deref(), Some("[::1]:9100"));
        assert_eq!([shown("eu:9100"), shown("99999"), shown("")], [None, None, None]);
    }
}
