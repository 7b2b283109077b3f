//! The same locks for programs without async. With the feature `blocking`.
//!
//! A [`Quorum`] here has a runtime of its own, with one thread, which renews what is held and ends
//! with the last handle and guard. Each call waits on the thread that makes it.
//!
//! **Within a Tokio runtime every call is refused** with a `Config` error, in
//! [`spawn_blocking`](https://docs.rs/tokio/latest/tokio/task/fn.spawn_blocking.html) too: a call
//! that waits would keep the runtime's thread from everything else. There is
//! [`quorumlock::Quorum`](crate::Quorum) for those. Dropping quorums and guards is fine everywhere.
//!
//! # Examples
//! ```
//! # fn main() -> quorumlock::Result<()> {
//! use quorumlock::blocking::Quorum;
//! use std::time::Duration;
//!
//! // Or Quorum::connect(quorumlock::Quorum::builder().node("redis://eu:6379")..)
//! let quorum = Quorum::in_memory(3)?;
//! let lock = quorum.lock("orders/42");
//! let guard = lock.acquire(Duration::from_secs(5))?;
//! // Give guard.token() to the storage with every write.
//! guard.ensure(Duration::from_secs(1))?;
//! guard.release()?;
//! # Ok(())
//! # }
//! ```

mod guard;
mod lock;
mod quorum;
mod worker;

pub use guard::LockGuard;
pub use lock::QuorumLock;
pub use quorum::Quorum;
