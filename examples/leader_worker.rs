//! Several workers run, and one of them is the leader. The leader shows its address to the others,
//! works while it leads, and stops at once when it loses the lead.
//!
//! ```sh
//! quorumlock sandbox -- sh                            # a shell with five servers; in that shell:
//! cargo run --example leader_worker -- 10.0.0.7:8080 &
//! cargo run --example leader_worker -- 10.0.0.8:8080  # leads once the first one has gone
//! ```
//!
//! Ctrl-C and SIGTERM make the leader resign. Right after that, the next candidate leads.
#![allow(clippy::disallowed_methods, reason = "that rule is for the library, which tests run on a virtual clock")]

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use quorumlock::{Election, LeaderLease, Quorum, Result};
use tokio::signal::unix::{SignalKind, signal};

/// How long to wait before the next try after an error, for example if no quorum of nodes answers.
const PAUSE: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let quorum = connected().await?;
    let election = quorum.election("scheduler");
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        // List the signals first: `select!` then installs their handlers before any work begins.
        biased;
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
        () = lead_whenever_elected(&election, &address) => {}
        () = watch(&election) => {}
    }
    // `select!` has dropped the future that leads, which releases the lead in the background.
    // `shutdown` waits for this release, for a second at most.
    quorum.shutdown(Duration::from_secs(1)).await;
    println!("{address} has resigned");
    Ok(())
}

/// Tries to lead again and again. Errors do not end the loop: they are printed for an operator.
async fn lead_whenever_elected(election: &Election, address: &str) {
    loop {
        let led = election.try_run(Duration::from_secs(60), async |leader| lead(leader, address).await).await;
        match led {
            Ok(()) => return,
            // Another worker still leads, which is normal.
            Err(error) if error.is_timeout() => {}
            // The lead was lost, so `try_run` has dropped the work.
            Err(error) if error.is_lost() => eprintln!("{address} no longer leads: {error}"),
            Err(error) => {
                eprintln!("{address} cannot campaign: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The leader's work. If the lead is lost, `try_run` drops this future at its present `await`. So
/// if a piece of work must not stop halfway, it must have no `await`, and must follow a check of
/// the lease.
async fn lead(leader: LeaderLease, address: &str) -> Result<()> {
    leader.proclaim(address).await?;
    println!("{address} leads with token {}", leader.token());
    loop {
        // `schedule` has no `await`, so it cannot be dropped halfway. Call it only if 500 ms of the
        // lease are left.
        leader.ensure(Duration::from_millis(500))?;
        schedule(leader.token());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A placeholder for a write to a job table. The table must refuse a token below an earlier token.
fn schedule(_token: u64) {}

/// Shows the leader's address. With this address, a worker can send requests to the leader.
async fn watch(election: &Election) {
    let Ok(leaders) = election.observe() else { return };
    let mut leaders = pin!(leaders);
    while let Some(seen) = leaders.next().await {
        if !seen.value.is_empty() {
            println!("the leader is at {}", seen.value);
        }
    }
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
