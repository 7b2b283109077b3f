//! A job that cron starts on many hosts, and that is done once in each period.
//!
//! ```sh
//! quorumlock sandbox -- sh    # a shell with five servers; in that shell, twice:
//! cargo run --example cron_once_a_period
//! ```
//!
//! Every host starts it at the same minute. The first one writes the report, and the others exit
//! with 0. A host that fails gives the period back, so that the next one may try.

use std::time::Duration;

use quorumlock::{Lease, Quorum, Result};

/// Shorter than the schedule of an hour: a period begins when the nodes grant it, a little after
/// cron started the job, and a whole hour would often outlast the next start.
const PERIOD: Duration = Duration::from_secs(55 * 60);

/// The job's own errors, with those of the lock.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let quorum = connected().await?;
    // A name of its own: a lock of the same name would wait until the period is over.
    let report = quorum.once("nightly-report", PERIOD).describe("the nightly report");
    match report.try_run(write_report).await? {
        Some(path) => println!("wrote {path}"),
        None => println!("another host has written it in this period"),
    }
    // Waits until the nodes have been told what they must know.
    quorum.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

/// The work. It is dropped at its next `await` if the permit is lost.
async fn write_report(lease: Lease) -> Result<String, Failure> {
    let lines = gathered().await;
    // Right before what others can see: is there time for it?
    lease.ensure(Duration::from_secs(1))?;
    // The token in the path: a host that was paused for long cannot overwrite what came later.
    let path = std::env::temp_dir().join(format!("report-{}.txt", lease.token()));
    std::fs::write(&path, lines)?;
    Ok(path.display().to_string())
}

/// Stands for queries that take a while.
async fn gathered() -> &'static str {
    tokio::time::sleep(Duration::from_millis(50)).await;
    "42 orders\n"
}

/// The nodes that the environment names, or nodes in memory to try this without servers. Those
/// exclude within this process only: a program in production has `Quorum::from_env()` alone.
async fn connected() -> Result<Quorum> {
    if std::env::var_os("QUORUMLOCK_NODES").is_some() {
        return Quorum::from_env().await;
    }
    eprintln!("QUORUMLOCK_NODES is not set: three nodes in memory");
    Quorum::in_memory(3)
}
