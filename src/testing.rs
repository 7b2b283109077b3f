//! Tools to test your own code: paused time, contention, loss. This module needs the feature
//! `testing`.
//!
//! A test needs no servers: [`Quorum::in_memory`] has the rounds, queues, renewals and tokens of a
//! real quorum, but its nodes are in the memory of the process. Make one quorum for each test, so
//! that tests do not share locks. Pass the quorum to code that takes an `Arc<dyn`
//! [`LockProvider`](crate::LockProvider)`>` or a [`Quorum`]. Add the feature to your
//! dev-dependencies:
//!
//! ```toml
//! [dev-dependencies]
//! quorumlock = { version = "0.1", features = ["testing"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util"] }
//! ```
//!
//! # Time
//!
//! A quorum in memory uses Tokio's clock, which tests can pause. With a paused clock, a wait of
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
//! assert_eq!(guard.lost().await, LostReason::Expired); // 10 s later, without a real wait
//! # Ok(())
//! # }
//! ```
//!
//! # Contention
//!
//! [`hold`] acquires a lock as another process would, and keeps the lock until the returned value
//! is dropped. Use `hold` to test what your code does while it cannot get the lock. Also test that
//! your code goes on once it can get the lock.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> quorumlock::Result<()> { // #[tokio::test(start_paused = true)]
//! use quorumlock::{Quorum, Result, testing};
//! use std::time::Duration;
//!
//! /// The code under test: it skips an order that somebody else ships.
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
//! [`lose`] makes the holder of a lock lose the lock at once, as if an operator had revoked it. Use
//! `lose` to test that your code stops.
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
//! After the loss, no other caller gets the lock until the guard is dropped or the deadline has
//! passed: your code has this time to stop. Storage can refuse writes that come after the deadline,
//! because the next holder's token is greater.
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

//! Programs without async use `quorumlock::blocking::testing`, with the feature `blocking`.

use std::fmt;
use std::time::Duration;

use crate::config::LockOptions;
use crate::error::Result;
use crate::lease::LockGuard;
use crate::lock::Quorum;

/// How long [`hold`] waits for a lock that another owner holds.
const PATIENCE: Duration = Duration::from_secs(10);

/// A lock that another client holds until this value is dropped. [`lose`] does not end this lock.
#[must_use = "dropping it releases the lock at once: keep it in a variable"]
pub struct Hold {
    guard: LockGuard,
    _client: Quorum,
}

impl Hold {
    /// The fencing token of the lock.
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

/// Acquires `name` as another client of the same nodes, and holds it until the returned value is
/// dropped. If another owner holds the name, waits for up to 10 s. To test [`Once`](crate::Once),
/// claim the period with a clone of the quorum instead: a claim fails with `Config` while a lock
/// holds the name.
///
/// # Errors
/// `Timeout` if another owner held the name for 10 s. `Config` for a bad name, or if the quorum's
/// nodes are not in memory. `Closed` after a shutdown.
///
/// # Cancel safety
/// Safe: a dropped future leaves nothing held.
pub async fn hold(quorum: &Quorum, name: &str) -> Result<Hold> {
    let client = quorum.beside()?;
    let options = LockOptions::default().ttl(quorum.ttl());
    let guard = client.lock_with(name, &options)?.acquire(PATIENCE).await?;
    Ok(Hold { guard, _client: client })
}

/// Makes the holder of `name` in `quorum`, or in a clone of it, lose the lock now. The reason is
/// [`LostReason::Revoked`](crate::LostReason::Revoked). If the lock has several names, all of them
/// are lost. A lock of [`hold`] stays held. Returns whether `name` was held in `quorum`.
///
/// # Errors
/// `Config` for a bad name, or if the quorum's nodes are not in memory.
pub fn lose(quorum: &Quorum, name: &str) -> Result<bool> {
    quorum.lose(name)
}
