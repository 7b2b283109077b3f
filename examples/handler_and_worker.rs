//! The handler of a request acquires a lock, and answers at once. A worker goes on with the lock,
//! and releases it when the work is done. Meanwhile, nobody else gets the lock.
//!
//! ```sh
//! quorumlock sandbox -- sh    # a shell with five servers; in that shell:
//! cargo run --example handler_and_worker
//! ```
//!
//! The lock passes to the worker as a *ticket*, which is a short text. Here a channel carries the
//! text. In a real program, handler and worker are two processes with a message queue between them.
//! Nobody renews the lock while its ticket is in the queue. So its ttl must be longer than the
//! longest wait in the queue.

use std::time::Duration;

use quorumlock::{Quorum, Result, Ticket};
use tokio::sync::mpsc::{Receiver, Sender, channel};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let quorum = connected().await?;
    let (queue, jobs) = channel(16);
    for request in 1..=2 {
        println!("request {request}: {}", handle(&quorum, "42", &queue).await?);
    }
    drop(queue);
    work(&quorum, jobs).await;
    quorum.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

/// The handler: acquires the order's lock, and puts a ticket into the queue.
async fn handle(quorum: &Quorum, order: &str, queue: &Sender<String>) -> Result<&'static str> {
    let Some(guard) = quorum.lock(format!("orders/{order}")).try_acquire().await? else {
        return Ok("409, the order is being shipped");
    };
    // If this fails, the guard is dropped, which releases the lock.
    let ticket = guard.into_ticket().await.map_err(|(error, _guard)| error)?;
    if queue.send(ticket.to_string()).await.is_err() {
        // A ticket that is dropped releases nothing.
        quorum.release(&ticket).await?;
        return Ok("503, no worker is left");
    }
    Ok("202, a worker will ship the order")
}

/// The worker: takes tickets out of the queue, and does the work under their locks.
async fn work(quorum: &Quorum, mut jobs: Receiver<String>) {
    while let Some(text) = jobs.recv().await {
        match ship(quorum, &text).await {
            Ok(()) => {}
            // The ticket was in the queue for too long, or the queue delivered it twice. Somebody
            // else may ship the order by now, so leave it alone.
            Err(error) if error.is_lost() => eprintln!("too late: {error}"),
            Err(error) => eprintln!("not shipped: {error}"),
        }
    }
}

/// Ships one order under the lock of a ticket.
async fn ship(quorum: &Quorum, text: &str) -> Result<()> {
    let ticket: Ticket = text.parse()?;
    let guard = quorum.resume(&ticket).await?;
    // A placeholder for the work. The resumed lock is renewed again, so it may take long. Send the
    // token with every write.
    guard.ensure(Duration::from_secs(1))?;
    println!("worker: {} is shipped, with token {}, above {}", ticket.name(), guard.token(), ticket.token());
    guard.release().await?;
    Ok(())
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
