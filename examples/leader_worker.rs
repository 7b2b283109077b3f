//! Several workers run, and one of them leads. The leader proclaims its address, works as long as
//! it leads, and stops at once when it loses the lead.
//!
//! ```sh
//! quorumlock sandbox -- sh                            # a shell with five servers; in that shell:
//! cargo run --example leader_worker -- 10.0.0.7:8080 &
//! cargo run --example leader_worker -- 10.0.0.8:8080  # leads once the first one has gone
//! ```
//!
//! Ctrl-C and SIGTERM make the leader resign. The next candidate then leads at once, and need not
//! wait for the ttl to end.
#![allow(clippy::disallowed_methods, reason = "that rule is for the library, which tests run on a virtual clock")]

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use quorumlock::{Election, LeaderLease, Quorum, Result};
use tokio::signal::unix::{SignalKind, signal};

/// How long to wait before the next try if nobody can tell who leads.
const PAUSE: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let quorum = connected().await?;
    let election = quorum.election("scheduler");
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        // The signals come first, so the program listens for them before it does anything else.
        biased;
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
        () = lead_whenever_elected(&election, &address) => {}
        () = watch(&election) => {}
    }
    // `select!` has dropped the campaign and the work. This releases the lead in the background.
    // `shutdown` waits until the nodes have confirmed the release.
    quorum.shutdown(Duration::from_secs(1)).await;
    println!("{address} has resigned");
    Ok(())
}

/// Campaigns again and again. No error ends the loop: each error passes by itself, or is reported
/// so that an operator sees it.
async fn lead_whenever_elected(election: &Election, address: &str) {
    loop {
        let led = election.try_run(Duration::from_secs(60), async |leader| lead(leader, address).await).await;
        match led {
            Ok(()) => return,
            // Another worker leads. This is the usual case for most candidates.
            Err(error) if error.is_timeout() => {}
            // The lead is lost, and `try_run` has dropped the work.
            Err(error) if error.is_lost() => eprintln!("{address} leads no more: {error}"),
            Err(error) => {
                eprintln!("{address} cannot campaign: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// What a leader does. When the lead is lost, `try_run` drops this future at the `await` that it
/// has reached. Put a check before work that must not stop halfway, as below.
async fn lead(leader: LeaderLease, address: &str) -> Result<()> {
    leader.proclaim(address).await?;
    println!("{address} leads with token {}", leader.token());
    loop {
        // `schedule` has no `await`, so it cannot be dropped halfway. Is there time for all of it?
        leader.ensure(Duration::from_millis(500))?;
        schedule(leader.token());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Stands for a write to the job table, which must refuse tokens below the highest that it has
/// seen.
fn schedule(_token: u64) {}

/// Every worker sees the leader's address. With it, a worker can send the leader requests that only
/// a leader may carry out.
async fn watch(election: &Election) {
    let Ok(leaders) = election.observe() else { return };
    let mut leaders = pin!(leaders);
    while let Some(seen) = leaders.next().await {
        if !seen.value.is_empty() {
            println!("the leader is at {}", seen.value);
        }
    }
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
