//! Metrics for Prometheus: over HTTP, and as a file for jobs that end before Prometheus scrapes
//! them.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use quorumlock::metrics::buckets;

use crate::failure::Failure;
use crate::output;
use crate::textfile::Textfile;

/// Records metrics from now on, and serves them at `address`. The returned value renders the
/// metrics for another server of this process. If the address cannot be used, only writes a note.
pub(crate) fn start_rendered(address: Option<&str>) -> Result<PrometheusHandle, Failure> {
    recorded(address.map(|text| listening("--metrics", text)).transpose()?.and_then(served))
}

/// With an address or a file, records metrics from now on. Serves the metrics at `address`, and
/// returns a value that writes the metrics to `file` at the end of the command. Call this before a
/// `Quorum` connects, because a `Quorum` registers its metrics when it connects. If the address
/// cannot be used, only writes a note, so that the command goes on.
pub(crate) fn start(address: Option<&str>, file: Option<&Path>) -> Result<Option<Textfile>, Failure> {
    let address = address.map(|text| listening("--metrics", text)).transpose()?;
    let checked = file.map(Textfile::check).transpose()?;
    let served = address.and_then(served);
    let Some(checked) = checked else { return Ok(None) };
    Ok(Some(Textfile::new(checked, recorded(served)?)))
}

/// Serves metrics at `address`. If this fails, only writes a note.
fn served(address: SocketAddr) -> Option<PrometheusHandle> {
    match serving(address) {
        Ok(handle) => {
            tracing::info!("metrics at http://{address}/metrics");
            Some(handle)
        }
        Err(error) => {
            output::note(&format!("metrics are not served at {address}: {error}"));
            None
        }
    }
}

/// The recorder that serves metrics, else one that only records them.
fn recorded(served: Option<PrometheusHandle>) -> Result<PrometheusHandle, Failure> {
    let recorded = served.map_or_else(recording, Ok);
    recorded.map_err(|error| Failure::usage(format!("metrics cannot be recorded: {error}")))
}

fn builder() -> Result<PrometheusBuilder, BuildError> {
    buckets().try_fold(PrometheusBuilder::new(), |builder, (name, bounds)| {
        builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), bounds)
    })
}

/// How often to move recorded samples into buckets. Without this, memory grows with each sample.
const UPKEEP: Duration = Duration::from_secs(5);

fn recording() -> Result<PrometheusHandle, BuildError> {
    let handle = builder()?.install_recorder()?;
    let kept = handle.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP).await;
            kept.run_upkeep();
        }
    });
    Ok(handle)
}

fn serving(address: SocketAddr) -> Result<PrometheusHandle, BuildError> {
    let (recorder, exporter) = builder()?.with_http_listener(address).build()?;
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder)?;
    tokio::spawn(async move {
        if let Err(error) = exporter.await {
            tracing::warn!("metrics are no longer served: {error:?}");
        }
    });
    Ok(handle)
}

/// The address in an option's value.
pub(crate) fn listening(option: &str, text: &str) -> Result<SocketAddr, Failure> {
    address(text).ok_or_else(|| {
        Failure::usage(format!("{option} {text:?} is no address; write a port (9100), or ADDRESS:PORT (0.0.0.0:9100)"))
    })
}

/// Parses an address. `9100` and `:9100` mean a port on loopback: to serve other hosts, the user
/// must write an address.
fn address(text: &str) -> Option<SocketAddr> {
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
        let shown = |text| address(text).map(|address| address.to_string());
        assert_eq!(shown("9100").as_deref(), Some("127.0.0.1:9100"));
        assert_eq!(shown(":9100").as_deref(), Some("127.0.0.1:9100"));
        assert_eq!(shown("0.0.0.0:9100").as_deref(), Some("0.0.0.0:9100"));
        assert_eq!(shown("[::1]:9100").as_deref(), Some("[::1]:9100"));
        assert_eq!([shown("eu:9100"), shown("99999"), shown("")], [None, None, None]);
    }
}
