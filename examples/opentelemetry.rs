//! Exports the spans of a lock by OpenTelemetry. The spans of rounds and of calls to nodes are
//! within the span of the acquisition, which is within the span of the work that needs the lock.
//!
//! ```sh
//! quorumlock sandbox -- cargo run --example opentelemetry
//! ```
//!
//! This example prints the spans. To send the spans to a collector, replace `exporter` by the
//! exporter of the crate `opentelemetry-otlp`, and `with_simple_exporter` by `with_batch_exporter`.

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
    // Sends the spans that were not sent yet. Without this call, the last spans are lost.
    provider.shutdown()?;
    Ok(())
}

/// Runs within a span. So the spans of all calls in here are within this span.
async fn ship(quorum: &Quorum) -> Result<u64> {
    // Spans have the lock's name only with `trace_name`, since names may be secret.
    let lock = quorum.lock_with("orders/42", &quorum.options().trace_name(true))?;
    let guard = lock.acquire_default().await?;
    let token = guard.token();
    guard.release().await?;
    Ok(token)
}

/// Exports spans from now on: the spans of this program, and the library's spans at `debug`
/// (acquisitions, rounds, renewals, releases). `TRACE` adds a span for each call to a node.
fn exported() -> Result<SdkTracerProvider, Box<dyn std::error::Error>> {
    let exporter = opentelemetry_stdout::SpanExporter::default();
    let resource = Resource::builder().with_service_name("orders").build();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).with_resource(resource).build();
    let wanted = Targets::new().with_target("quorumlock", Level::DEBUG).with_target("opentelemetry", Level::INFO);
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("orders")).with_filter(wanted);
    tracing_subscriber::registry().with(layer).try_init()?;
    Ok(provider)
}

/// Connects to the nodes that the environment names, or makes nodes in memory, to try this without
/// servers. Locks in memory exclude callers of this process only. So a program in production
/// calls `Quorum::from_env()` alone.
async fn connected() -> Result<Quorum> {
    if std::env::var_os("QUORUMLOCK_NODES").is_some() {
        return Quorum::from_env().await;
    }
    eprintln!("QUORUMLOCK_NODES is not set: three nodes in memory");
    Quorum::in_memory(3)
}
