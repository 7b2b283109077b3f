//! How to test code that acquires locks, without servers and without real waiting. In these tests,
//! another caller holds the lock, the lock is lost in the middle of the work, or minutes pass in a
//! moment.
//!
//! ```sh
//! cargo test --features testing --example testing_your_code
//! quorumlock sandbox -- cargo run --features testing --example testing_your_code
//! ```
//!
//! In your own Cargo.toml, put the feature into the dev-dependencies:
//!
//! ```toml
//! [dev-dependencies]
//! quorumlock = { version = "0.1", features = ["testing"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util"] }
//! ```

use std::time::Duration;

use quorumlock::{Quorum, Result};

/// Which process ships an order.
#[derive(Debug, PartialEq, Eq)]
enum Shipped {
    Here,
    /// Another process is shipping the order.
    Elsewhere,
}

/// The code under test. The quorum is an argument, so tests can pass a quorum in memory. (Code with
/// an `Arc<dyn LockProvider>` as argument can be tested in the same way.)
async fn ship(quorum: &Quorum, order: &str) -> Result<Shipped> {
    let lock = quorum.lock(format!("orders/{order}"));
    match lock.run(Duration::from_secs(5), |_| pack()).await {
        Ok(()) => Ok(Shipped::Here),
        Err(error) if error.is_timeout() => Ok(Shipped::Elsewhere),
        Err(error) => Err(error),
    }
}

/// A placeholder for work that takes a while.
async fn pack() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let quorum = connected().await?;
    println!("order 42 was shipped: {:?}", ship(&quorum, "42").await?);
    quorum.shutdown(Duration::from_secs(1)).await;
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

#[cfg(test)]
mod tests {
    use quorumlock::{LostReason, testing};

    use super::*;

    /// Each test has its own quorum, so tests do not disturb each other. With `start_paused`, the
    /// clock jumps forward whenever all tasks wait, so the test need not wait for the timeout of
    /// `ship`.
    #[tokio::test(start_paused = true)]
    async fn an_order_that_another_ships_is_left_alone() {
        let quorum = Quorum::in_memory(3).unwrap();
        let other = testing::hold(&quorum, "orders/42").await.unwrap();
        assert_eq!(ship(&quorum, "42").await.unwrap(), Shipped::Elsewhere);
        drop(other);
        assert_eq!(ship(&quorum, "42").await.unwrap(), Shipped::Here);
    }

    /// The lock is lost after 100 ms, in the middle of the work.
    #[tokio::test(start_paused = true)]
    async fn the_work_stops_when_the_lock_is_lost() {
        let quorum = Quorum::in_memory(3).unwrap();
        let loss = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(testing::lose(&quorum, "orders/42").unwrap(), "the lock is held by then");
        };
        let (shipped, ()) = tokio::join!(ship(&quorum, "42"), loss);
        assert!(shipped.unwrap_err().is_lost());
    }

    /// A lock that nobody renews ends after its ttl. The ten seconds of the ttl pass at once.
    #[tokio::test(start_paused = true)]
    async fn a_lock_that_nobody_renews_expires() {
        let quorum = Quorum::in_memory(3).unwrap();
        let short = quorum.options().ttl(Duration::from_secs(10)).auto_renew(false);
        let guard = quorum.lock_with("orders/42", &short).unwrap().acquire_default().await.unwrap();
        assert_eq!(guard.lost().await, LostReason::Expired);
    }
}
