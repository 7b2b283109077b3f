//! Workers of which one leads: it proclaims where it is to be found, works as long as it leads, and
//! stops at once when it does not.
//!
//! ```sh
//! quorumlock sandbox -- sh                            # a shell with five servers; in that shell:
//! cargo run --example leader_worker -- 10.0.0.7:8080 &
//! cargo run --example leader_worker -- 10.0.0.8:8080  # leads once the first one has gone
//! ```
//!
//! Ctrl-C and SIGTERM make it resign: the next candidate leads at once, and need not wait for the
//! ttl to end.
#![allow(clippy::disallowed_methods, reason = "that rule is for the library, which tests run on a virtual clock")]

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use quorumlock::{Election, LeaderLease, Quorum, Result};
use tokio::signal::unix::{SignalKind, signal};

/// How long to wait before asking again where nobody can tell who leads.
const PAUSE: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let quorum = connected().await?;
    let election = quorum.election("scheduler");
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        // The signals first, so that they are listened for before anything is done.
        biased;
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
        () = lead_whenever_elected(&election, &address) => {}
        () = watch(&election) => {}
    }
    // The campaign and the work were dropped. That released the office in the background; this waits
    // until the nodes know.
    quorum.shutdown(Duration::from_secs(1)).await;
    println!("{address} has resigned");
    Ok(())
}

/// Campaigns again and again. No error ends it: each of them passes, or is for an operator to see.
async fn lead_whenever_elected(election: &Election, address: &str) {
    loop {
        let led = election.try_run(Duration::from_secs(60), async |leader| lead(leader, address).await).await;
        match led {
            Ok(()) => return,
            // Another leads, which is what most candidates see most of the time.
            Err(error) if error.is_timeout() => {}
            // The office is over, and so is the work: `try_run` has dropped it.
            Err(error) if error.is_lost() => eprintln!("{address} leads no more: {error}"),
            Err(error) => {
                eprintln!("{address} cannot campaign: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// What a leader does. It is dropped the moment the office is lost, at whatever `await` it is; work
/// that must not stop in between belongs behind a check, as below.
async fn lead(leader: LeaderLease, address: &str) -> Result<()> {
    leader.proclaim(address).await?;
    println!("{address} leads with token {}", leader.token());
    loop {
        // Not dropped in between, since it does not wait: is there time for all of it?
        leader.ensure(Duration::from_millis(500))?;
        schedule(leader.token());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Stands for a write to the job table, which must refuse tokens below the highest that it has seen.
fn schedule(_token: u64) {}

/// Every worker sees who leads, and where: such as to send it what only a leader may do.
async fn watch(election: &Election) {
    let Ok(leaders) = election.observe() else { return };
    let mut leaders = pin!(leaders);
    while let Some(seen) = leaders.next().await {
        if !seen.value.is_empty() {
            println!("the leader is at {}", seen.value);
        }
    }
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
