//! A job that cron starts on many hosts. In each period, only one of the hosts does the job.
//!
//! ```sh
//! quorumlock sandbox -- sh    # a shell with five servers; in that shell, twice:
//! cargo run --example cron_once_a_period
//! ```
//!
//! Every host starts the job at the same minute. The first host writes the report, and the programs
//! on the other hosts exit with 0. If the report fails, another host may try.

use std::time::Duration;

use quorumlock::{Lease, Quorum, Result};

/// The period, for a job that cron starts every hour. A period begins a little after the start of
/// the job. So a period of a whole hour would often last beyond the next start, and that start
/// would be skipped.
const PERIOD: Duration = Duration::from_secs(55 * 60);

/// An error of the job itself or of the lock.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let quorum = connected().await?;
    // Use this name for nothing else: a lock of the same name could not be acquired in this period.
    let report = quorum.once("nightly-report", PERIOD).describe("the nightly report");
    match report.try_run(write_report).await? {
        Some(path) => println!("wrote {path}"),
        None => println!("another host has written the report in this period"),
    }
    // Waits until the nodes have got the last requests.
    quorum.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

/// The work. If the lock on the name is lost, `try_run` drops this future at its present `await`.
async fn write_report(lease: Lease) -> Result<String, Failure> {
    let lines = gathered().await;
    // Check the lock right before a write that others can see. This fails if less than a second of
    // the lock is left.
    lease.ensure(Duration::from_secs(1))?;
    // The token is in the path. So if this host was paused for long, this write cannot overwrite a
    // later report.
    let path = std::env::temp_dir().join(format!("report-{}.txt", lease.token()));
    std::fs::write(&path, lines)?;
    Ok(path.display().to_string())
}

/// A placeholder for queries that take a while.
async fn gathered() -> &'static str {
    tokio::time::sleep(Duration::from_millis(50)).await;
    "42 orders\n"
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
