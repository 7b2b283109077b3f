//! Locks for a program without async. Several threads share a quorum. The thread that holds the
//! lock works until its work is done or its lock is lost.
//!
//! ```sh
//! quorumlock sandbox -- cargo run --features blocking --example blocking
//! ```

use std::thread;
use std::time::Duration;

use quorumlock::Result;
use quorumlock::blocking::{Lease, Quorum, QuorumLock};

/// How many threads count, and how far each thread counts.
const THREADS: u32 = 3;
const STEPS: u32 = 5;

fn main() -> Result<()> {
    let quorum = connected()?;
    // A handle is cheap to clone. Acquisitions exclude each other, also within one process.
    let lock = quorum.lock("counter");
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let lock = lock.clone();
            thread::spawn(move || count(&lock, number))
        })
        .collect();
    for thread in threads {
        // A thread that panicked has dropped its guard, which released the lock.
        thread.join().unwrap_or(Ok(()))?;
    }
    quorum.shutdown(Duration::from_secs(1))
}

fn count(lock: &QuorumLock, number: u32) -> Result<()> {
    let guard = lock.acquire(Duration::from_secs(10))?;
    println!("thread {number} counts with token {}", guard.token());
    if !steps(&guard.lease())? {
        eprintln!("thread {number} lost the lock, and stops");
    }
    // A drop of the guard would release the lock in the background. This call also waits until a
    // quorum has confirmed the release.
    guard.release()?;
    Ok(())
}

/// Works step by step, and returns whether all steps are done. Unlike a future, a thread cannot be
/// stopped from outside. So the thread checks the lock between the steps: `lost` waits for a loss
/// for up to 10 ms, which is also the pause between the steps.
fn steps(lease: &Lease) -> Result<bool> {
    for _ in 0..STEPS {
        // A real program writes here, with lease.token().
        if lease.lost(Duration::from_millis(10))?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Connects to the nodes that the environment names, or makes nodes in memory, to try this without
/// servers. Locks in memory exclude callers of this process only. So a program in production
/// calls `Quorum::from_env()` alone.
fn connected() -> Result<Quorum> {
    if std::env::var_os("QUORUMLOCK_NODES").is_some() {
        return Quorum::from_env();
    }
    eprintln!("QUORUMLOCK_NODES is not set: three nodes in memory");
    Quorum::in_memory(3)
}
