//! How to test your own code: paused time, contention, loss. With the feature `testing`.
//!
//! A test needs no servers: [`Quorum::in_memory`] has the same rounds, queues, renewals and tokens,
//! with nodes in the memory of the process. Make one for each test, so that tests do not meet. Code
//! that takes an `Arc<dyn` [`LockProvider`](crate::LockProvider)`>` or a [`Quorum`] gets it in the
//! place of the real one. Add the feature to your dev-dependencies:
//!
//! ```toml
//! [dev-dependencies]
//! quorumlock = { version = "0.1", features = ["testing"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util"] }
//! ```
//!
//! # Time
//!
//! A quorum in memory takes its time from Tokio's clock, which tests can pause. Then a wait of
//! minutes takes no time: the clock jumps as soon as all tasks wait.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> quorumlock::Result<()> { // #[tokio::test(start_paused = true)]
//! use quorumlock::{LostReason, Quorum};
//! use std::time::Duration;
//!
//! let quorum = Quorum::in_memory(3)?;
//! let short = quorum.options().ttl(Duration::from_secs(10)).auto_renew(false);
//! let guard = quorum.lock_with("orders/42", &short)?.acquire_default().await?;
//! assert_eq!(guard.lost().await, LostReason::Expired); // at once, ten seconds later
//! # Ok(())
//! # }
//! ```
//!
//! # Contention
//!
//! [`hold`] takes a lock as another process would, and keeps it until it is dropped. It is there to
//! test what your code does while it does not get the lock, and that it goes on when it does.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> quorumlock::Result<()> { // #[tokio::test(start_paused = true)]
//! use quorumlock::{Quorum, Result, testing};
//! use std::time::Duration;
//!
//! /// The code under test: it leaves an order alone that somebody else ships.
//! async fn ship(quorum: &Quorum, order: &str) -> Result<bool> {
//!     match quorum.lock(order).acquire(Duration::from_secs(5)).await {
//!         Ok(guard) => guard.release().await.map(|_| true),
//!         Err(error) if error.is_timeout() => Ok(false),
//!         Err(error) => Err(error),
//!     }
//! }
//!
//! let quorum = Quorum::in_memory(3)?;
//! let other = testing::hold(&quorum, "orders/42").await?;
//! assert!(!ship(&quorum, "orders/42").await?);
//! drop(other);
//! assert!(ship(&quorum, "orders/42").await?);
//! # Ok(())
//! # }
//! ```
//!
//! # Loss
//!
//! [`lose`] makes whoever holds a lock lose it at this moment, as when nodes forgot it or somebody
//! revoked it. It is there to test that your code stops.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> quorumlock::Result<()> { // #[tokio::test(start_paused = true)]
//! use quorumlock::{Quorum, testing};
//! use std::time::Duration;
//!
//! let quorum = Quorum::in_memory(3)?;
//! let lock = quorum.lock("orders/42");
//! let work = lock.run(Duration::from_secs(5), |_| tokio::time::sleep(Duration::from_secs(60)));
//! let loss = async {
//!     tokio::time::sleep(Duration::from_secs(1)).await;
//!     assert!(testing::lose(&quorum, "orders/42")?);
//!     quorumlock::Result::Ok(())
//! };
//! let (work, loss) = tokio::join!(work, loss);
//! loss?;
//! assert!(work.unwrap_err().is_lost());
//! # Ok(())
//! # }
//! ```
//!
//! What was lost keeps others out until its guard is dropped, or until its deadline: your code has
//! that long to stop. A holder that goes on even then is caught by its token: the next one's is
//! greater.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> quorumlock::Result<()> { // #[tokio::test(start_paused = true)]
//! use quorumlock::{Quorum, testing};
//! use std::time::Duration;
//!
//! let quorum = Quorum::in_memory(3)?;
//! let late = quorum.lock("orders/42").acquire_default().await?;
//! testing::lose(&quorum, "orders/42")?;
//! let next = quorum.lock("orders/42").acquire(Duration::from_secs(60)).await?;
//! // Your storage: it must refuse late.token() once it has seen next.token().
//! assert!(late.token() < next.token());
//! # Ok(())
//! # }
//! ```

//! Programs without async have the same in `quorumlock::blocking::testing`, with the feature
//! `blocking`.

use std::fmt;
use std::time::Duration;

use crate::config::LockOptions;
use crate::error::Result;
use crate::lease::LockGuard;
use crate::lock::Quorum;

/// How long [`hold`] waits for a lock that is still held.
const PATIENCE: Duration = Duration::from_secs(10);

/// A lock that somebody else holds, until this is dropped. It is never lost.
#[must_use = "it is held until this is dropped"]
pub struct Hold {
    guard: LockGuard,
    _client: Quorum,
}

impl Hold {
    /// The fencing token with which it is held.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.guard.token()
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("name", &self.guard.name()).field("token", &self.token()).finish()
    }
}

/// Another client of the same nodes holds `name` until the returned value is dropped. Waits for up
/// to 10 s where it is held. It is a lock, which [`Once`](crate::Once) refuses: let a clone of the
/// quorum claim that instead.
///
/// # Errors
/// `Timeout` if others held it until then; `Config` for a bad name, and for a quorum whose nodes
/// are not in memory; `Closed` after a shutdown.
///
/// # Cancel safety
/// Safe: it holds nothing then.
pub async fn hold(quorum: &Quorum, name: &str) -> Result<Hold> {
    let client = quorum.beside()?;
    let options = LockOptions::default().ttl(quorum.ttl());
    let guard = client.lock_with(name, &options)?.acquire(PATIENCE).await?;
    Ok(Hold { guard, _client: client })
}

/// Whoever holds `name` by `quorum`, or by a clone of it, loses it now, with
/// [`LostReason::Revoked`](crate::LostReason::Revoked); with it the other names of a set. Returns
/// whether anybody held it. Who has it by [`hold`] keeps it.
///
/// # Errors
/// `Config` for a bad name, and for a quorum whose nodes are not in memory.
pub fn lose(quorum: &Quorum, name: &str) -> Result<bool> {
    quorum.lose(name)
}
