//! Locks for a program without async. Several threads share a quorum. The thread that holds the
//! lock works until its work is done or the lock is lost.
//!
//! ```sh
//! quorumlock sandbox -- cargo run --features blocking --example blocking
//! ```

use std::thread;
use std::time::Duration;

use quorumlock::Result;
use quorumlock::blocking::{Lease, Quorum, QuorumLock};

/// The number of threads, and the number of steps of each thread.
const THREADS: u32 = 3;
const STEPS: u32 = 5;

fn main() -> Result<()> {
    let quorum = connected()?;
    // A handle is cheap to clone. Only one caller at a time gets the lock, even within a process.
    let lock = quorum.lock("counter");
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let lock = lock.clone();
            thread::spawn(move || count(&lock, number))
        })
        .collect();
    for thread in threads {
        // If a thread panics, its guard is dropped, which releases the lock.
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
    // Waits until a quorum has confirmed the release. (A drop would release in the background.)
    guard.release()?;
    Ok(())
}

/// Works step by step, and returns whether all steps are done. Unlike a future, a thread cannot be
/// stopped from outside, so it checks the lock between the steps. If the lock is not lost, `lost`
/// returns after 10 ms, so this call is also the pause between the steps.
fn steps(lease: &Lease) -> Result<bool> {
    for _ in 0..STEPS {
        // A real program writes here, with lease.token().
        if lease.lost(Duration::from_millis(10))?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Connects to the nodes in QUORUMLOCK_NODES. Without this variable, makes nodes in memory, so that
/// this example runs without servers. A real program only calls `Quorum::from_env()`: locks in
/// memory exclude only callers of this process.
fn connected() -> Result<Quorum> {
    if std::env::var_os("QUORUMLOCK_NODES").is_some() {
        return Quorum::from_env();
    }
    eprintln!("QUORUMLOCK_NODES is not set: three nodes in memory");
    Quorum::in_memory(3)
}
