//! The same locks for programs without async. With the feature `blocking`.
//!
//! A [`Quorum`] here has a runtime of its own, with one thread, which renews what is held and ends
//! with the last handle and guard. Each call waits on the thread that makes it. The types have the
//! names and methods of those at the crate's root, which say what is promised; only what follows is
//! another:
//!
//! * `lost` takes a timeout, and returns why the lock was lost, or `None`: [`Lease::lost`].
//! * `run` and `try_run` call a closure. They cannot stop it when the lock is lost, as they stop a
//!   future: it asks what it is given.
//! * [`Election::observe`] and [`Quorum::held_names`] are iterators.
//! * [`Session::current`] is that of the thread.
//! * With the feature `testing`, the module `testing` has what tests of your own code need.
//! * [`Quorum::connect`], [`Quorum::open`] and [`Quorum::in_memory_with`] take a
//!   [`QuorumBuilder`](crate::QuorumBuilder).
//!
//! **Within a Tokio runtime every call is refused** with a `Config` error, in
//! [`spawn_blocking`](https://docs.rs/tokio/latest/tokio/task/fn.spawn_blocking.html) too: a call
//! that waits would keep the runtime's thread from everything else. There is
//! [`quorumlock::Quorum`](crate::Quorum) for those. What a call would have used up, as
//! [`LockGuard::release`] does, is released in the background then. Dropping quorums and guards is
//! fine everywhere, and so is what asks no node, such as [`Session::held`].
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

mod confirmed;
mod election;
mod guard;
mod held_names;
mod leader;
mod leaders;
mod lease;
mod lock;
mod members;
mod once;
mod permits;
mod quorum;
mod rwguards;
mod rwlock;
mod semaphore;
mod session;
mod session_builder;
#[cfg(feature = "testing")]
pub mod testing;
mod worker;

pub use election::Election;
pub use guard::LockGuard;
pub use held_names::HeldNames;
pub use leader::{Leader, LeaderLease};
pub use leaders::Leaders;
pub use lease::Lease;
pub use lock::QuorumLock;
pub use once::{Once, OncePermit};
pub use permits::{PermitsGuard, PermitsLease};
pub use quorum::Quorum;
pub use rwguards::{ReadGuard, WriteGuard};
pub use rwlock::QuorumRwLock;
pub use semaphore::QuorumSemaphore;
pub use session::Session;
pub use session_builder::SessionBuilder;
