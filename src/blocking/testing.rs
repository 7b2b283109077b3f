//! How to test contention and loss in your own code, if it uses locks without async. This module
//! needs the features `blocking` and `testing`.
//!
//! This module works as [`quorumlock::testing`](crate::testing), whose page says more. But tests
//! cannot pause time here, because a quorum has its own thread. So let the code under test take its
//! timeouts and its ttl from settings, and set short times in tests.
//!
//! # Contention
//!
//! [`hold`] takes a lock as another process would, until the returned value is dropped.
//!
//! ```
//! use quorumlock::Result;
//! use quorumlock::blocking::{Quorum, testing};
//! use std::time::Duration;
//!
//! /// The code under test: it skips an order that somebody else ships.
//! fn ship(quorum: &Quorum, order: &str, patience: Duration) -> Result<bool> {
//!     match quorum.lock(order).acquire(patience) {
//!         Ok(guard) => guard.release().map(|_| true),
//!         Err(error) if error.is_timeout() => Ok(false),
//!         Err(error) => Err(error),
//!     }
//! }
//!
//! let quorum = Quorum::in_memory(3)?;
//! let other = testing::hold(&quorum, "orders/42")?;
//! assert!(!ship(&quorum, "orders/42", Duration::from_millis(50))?);
//! drop(other);
//! assert!(ship(&quorum, "orders/42", Duration::from_secs(5))?);
//! # Ok::<(), quorumlock::Error>(())
//! ```
//!
//! # Loss
//!
//! [`lose`] makes the holder of a lock lose the lock at once. Use `lose` to test that your code
//! notices the loss, because nothing can stop a closure.
//!
//! ```
//! use quorumlock::LostReason;
//! use quorumlock::blocking::{Quorum, testing};
//! use std::time::Duration;
//!
//! let quorum = Quorum::in_memory(3)?;
//! let late = quorum.lock("orders/42").acquire_default()?;
//! assert!(testing::lose(&quorum, "orders/42")?);
//! assert!(!late.is_held());
//! assert_eq!(late.lost(Duration::from_secs(1))?, Some(LostReason::Revoked));
//! // A lost lock keeps others out until its guard is dropped, or until its deadline.
//! let token = late.token();
//! drop(late);
//! // Your storage: it must refuse that token once it has seen next.token().
//! let next = quorum.lock("orders/42").acquire_default()?;
//! assert!(token < next.token());
//! # Ok::<(), quorumlock::Error>(())
//! ```

use super::quorum::Quorum;
use super::worker::{Blocking, debug_as_async};
use crate::error::Result;
use crate::testing;

/// A lock that another client holds until this value is dropped. This type is [`testing::Hold`] for
/// threads. [`lose`] does not end this lock. This value keeps the quorum's thread alive.
#[must_use = "dropping it releases the lock at once: keep it in a variable"]
pub struct Hold(Blocking<testing::Hold>);

impl Hold {
    /// The fencing token of the lock.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.0.inner.token()
    }
}

debug_as_async!(Hold);

/// Acquires `name` as another client of the same nodes, and holds it until the returned value is
/// dropped. If another owner holds the name, waits for up to 10 s.
///
/// # Errors
/// As [`testing::hold`], and `Config` within a Tokio runtime.
pub fn hold(quorum: &Quorum, name: &str) -> Result<Hold> {
    quorum.0.wrapped(testing::hold(&quorum.0.inner, name)).map(Hold)
}

/// Makes the holder of `name` in `quorum`, or in a clone of it, lose the lock now: see
/// [`testing::lose`]. Returns whether such a holder was found. Does not wait.
///
/// # Errors
/// As [`testing::lose`], and `Config` within a Tokio runtime.
pub fn lose(quorum: &Quorum, name: &str) -> Result<bool> {
    quorum.0.wait(async { testing::lose(&quorum.0.inner, name) })
}
