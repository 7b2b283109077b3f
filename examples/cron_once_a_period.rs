//! A job that cron starts on many hosts, and that is done once in each period.
//!
//! ```sh
//! quorumlock sandbox -- sh    # a shell with five servers; in that shell, twice:
//! cargo run --example cron_once_a_period
//! ```
//!
//! Every host starts the job at the same minute. The first host writes the report, and the other
//! hosts exit with 0. A host that fails gives the period back, so the next host may try.

use std::time::Duration;

use quorumlock::{Lease, Quorum, Result};

/// This is shorter than the schedule of an hour: a period begins when the nodes grant it, a little
/// after cron started the job. A period of a whole hour would often last beyond the next start.
const PERIOD: Duration = Duration::from_secs(55 * 60);

/// An error of the job itself or of the lock.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let quorum = connected().await?;
    // Use this name for nothing else: a lock of the same name would wait until the period is over.
    let report = quorum.once("nightly-report", PERIOD).describe("the nightly report");
    match report.try_run(write_report).await? {
        Some(path) => println!("wrote {path}"),
        None => println!("another host has written it in this period"),
    }
    // Waits until the last requests have reached the nodes.
    quorum.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

/// The work. If the permit is lost, `try_run` drops this future at the `await` that it has reached.
async fn write_report(lease: Lease) -> Result<String, Failure> {
    let lines = gathered().await;
    // Right before the write that others can see: is there time for the write?
    lease.ensure(Duration::from_secs(1))?;
    // The path has the token, so a host that was paused for long cannot overwrite a later report.
    let path = std::env::temp_dir().join(format!("report-{}.txt", lease.token()));
    std::fs::write(&path, lines)?;
    Ok(path.display().to_string())
}

/// Stands for queries that take a while.
async fn gathered() -> &'static str {
    tokio::time::sleep(Duration::from_millis(50)).await;
    "42 orders\n"
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
