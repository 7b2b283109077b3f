//! Locks for a program without async: threads that share a quorum, one of which works until it is
//! done or its lock is lost.
//!
//! ```sh
//! quorumlock sandbox -- cargo run --features blocking --example blocking
//! ```

use std::thread;
use std::time::Duration;

use quorumlock::Result;
use quorumlock::blocking::{Lease, Quorum, QuorumLock};

/// How many threads count, and how far each.
const THREADS: u32 = 3;
const STEPS: u32 = 5;

fn main() -> Result<()> {
    let quorum = connected()?;
    // A handle is cheap to clone. Acquisitions exclude each other, within a process as across them.
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
    // Dropping the guard releases too, in the background. This waits until a quorum has confirmed it.
    guard.release()?;
    Ok(())
}

/// Works step by step, and says whether it came to the end. A thread cannot be stopped from outside
/// as a future can, so it asks between the steps: `lost` waits for the loss, and is the pause too.
fn steps(lease: &Lease) -> Result<bool> {
    for _ in 0..STEPS {
        // Here is a write, with lease.token().
        if lease.lost(Duration::from_millis(10))?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The nodes that the environment names, or nodes in memory to try this without servers. Those
/// exclude within this process only: a program in production has `Quorum::from_env()` alone.
fn connected() -> Result<Quorum> {
    if std::env::var_os("QUORUMLOCK_NODES").is_some() {
        return Quorum::from_env();
    }
    eprintln!("QUORUMLOCK_NODES is not set: three nodes in memory");
    Quorum::in_memory(3)
}
