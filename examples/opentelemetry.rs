//! Exports the spans of a lock to OpenTelemetry. The span of the work contains the span of the
//! acquisition, which contains the spans of rounds and of calls to nodes.
//!
//! ```sh
//! quorumlock sandbox -- cargo run --example opentelemetry
//! ```
//!
//! This example prints the spans. To send them to a collector, use the exporter of the crate
//! `opentelemetry-otlp` as `exporter`, and `with_batch_exporter` instead of `with_simple_exporter`.

use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use quorumlock::{Quorum, Result};
use tracing::{Instrument, Level, info_span};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let provider = exported()?;
    let quorum = connected().await?;

    let token = ship(&quorum).instrument(info_span!("ship", order = 42)).await?;
    println!("shipped, with token {token}");

    quorum.shutdown(Duration::from_secs(1)).await;
    // Exports the spans that are still in memory. Without this call, the last spans are lost.
    provider.shutdown()?;
    Ok(())
}

/// The caller runs this function in a span. That span contains the spans of all calls in this
/// function.
async fn ship(quorum: &Quorum) -> Result<u64> {
    // Without `trace_name`, spans do not show the lock's name, because names may be secret.
    let lock = quorum.lock_with("orders/42", &quorum.options().trace_name(true))?;
    let guard = lock.acquire_default().await?;
    let token = guard.token();
    guard.release().await?;
    Ok(token)
}

/// From now on, exports the spans of this program, and the library's spans up to the level `DEBUG`:
/// acquisitions, rounds, renewals, releases. The level `TRACE` adds a span for each call to a node.
fn exported() -> Result<SdkTracerProvider, Box<dyn std::error::Error>> {
    let exporter = opentelemetry_stdout::SpanExporter::default();
    let resource = Resource::builder().with_service_name("orders").build();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).with_resource(resource).build();
    let wanted = Targets::new().with_target("quorumlock", Level::DEBUG).with_target("opentelemetry", Level::INFO);
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("orders")).with_filter(wanted);
    tracing_subscriber::registry().with(layer).try_init()?;
    Ok(provider)
}

/// Connects to the nodes in QUORUMLOCK_NODES. Without this variable, makes nodes in memory, so that
/// this example runs without servers. A real program only calls `Quorum::from_env()`: locks in
/// memory exclude only callers of this process.
async fn connected() -> Result<Quorum> {
    if std::env::var_os("QUORUMLOCK_NODES").is_some() {
        return Quorum::from_env().await;
    }
    eprintln!("QUORUMLOCK_NODES is not set: three nodes in memory");
    Quorum::in_memory(3)
}
