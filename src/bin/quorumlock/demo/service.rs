//! A service that works under one lock until a signal comes. Several services, in different
//! regions, share the counter.

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;

use quorumlock::{Quorum, QuorumBuilder};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;

use super::counter::Counter;
use super::worker::{Pace, Report, Workers};
use super::{TICK, votes};
use crate::cli::DemoService;
use crate::exporter;
use crate::failure::{Failure, Outcome};
use crate::output::{self, milliseconds};
use crate::process::{self, Signals};
use crate::settings::{self, Settings};

/// The lock's name. `demo` has another counter, so it uses another lock.
const LOCK: &str = "quorumlock-service";
/// How long most sections take.
const USUAL: Duration = Duration::from_millis(20);
/// One section in 40 takes half of the ttl, which is long enough for a renewal of its lock.
const ONE_IN: u64 = 40;
/// The ttl if none is set.
const TTL: Duration = Duration::from_secs(6);

/// Works until a signal comes, and then prints its counts as one JSON object. The exit code is 1 if
/// two sections overlapped.
pub(crate) async fn service(args: DemoService) -> Outcome {
    let mut signals = Signals::ending()?;
    exporter::start(args.metrics.as_deref(), None)?;
    let settings = Settings::with_nodes(&args.nodes)?;
    let ttl = settings::ttl()?.or(settings.ttl).unwrap_or(TTL);
    let quorum = tokio::select! {
        voting = voting(settings.builder()?.ttl(ttl)) => voting?,
        signal = signals.next() => return Ok(process::ended_by(signal)),
    };
    let report = RefCell::new(Report::default());
    let (stopping, stop) = watch::channel(false);
    let pace = Pace { usual: USUAL, one_in: ONE_IN, long: ttl / 2, pause: args.pause };
    let workers = Workers { quorum: &quorum, lock: LOCK, folder: &args.folder, pace, stop, report: &report };
    let stop_requested = async {
        signals.next().await;
        stopping.send_replace(true);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        worked = workers.contend(args.workers) => worked?,
        () = stop_requested => {}
    }
    quorum.shutdown(Duration::from_secs(1)).await;
    let report = report.take();
    let counted = Counter::new(&args.folder, "").read()?.0;
    tokio::select! {
        printed = print(&report, counted) => printed?,
        signal = signals.next() => return Ok(process::ended_by(signal)),
    }
    Ok(if report.overlaps == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Connects, and waits until a quorum of nodes votes. Earlier acquisitions would fail as
/// unavailable, and these failures would raise an alert.
async fn voting(builder: QuorumBuilder) -> Result<Quorum, Failure> {
    let quorum = builder.connect().await?;
    while !votes(&quorum) {
        sleep(TICK).await;
    }
    Ok(quorum)
}

async fn print(report: &Report, counted: u64) -> std::io::Result<()> {
    let summary = json!({
        "sections": report.sections,
        "overlaps": report.overlaps,
        "rejected_tokens": report.rejected_tokens,
        "lost": report.lost,
        "failed": report.failed,
        "acquire_p50_ms": milliseconds(report.latencies.percentile(0.5)),
        "acquire_p99_ms": milliseconds(report.latencies.percentile(0.99)),
        // The increments of all services that share the folder.
        "counter": counted,
    });
    output::say(&summary.to_string()).await
}
