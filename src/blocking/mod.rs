//! The crate's locks for programs without async. This module needs the feature `blocking`.
//!
//! A [`Quorum`] of this module has its own runtime, with one thread. The thread renews the held
//! locks, and ends when the last handle and guard are dropped. Each call waits on the caller's
//! thread. The types have the same names and methods as the types at the crate's root. Those types
//! document the promises. These are the differences:
//!
//! * `lost` takes a timeout, and returns why the lock was lost, or `None`: [`Lease::lost`].
//! * `run` and `try_run` call a closure. Unlike a future, a closure cannot be stopped when the lock
//!   is lost. So the closure must ask its lease whether the lock is still held.
//! * [`Election::observe`] and [`Quorum::held_names`] are iterators.
//! * [`Session::current`] is the current session of the thread.
//! * With the feature `testing`, the module `testing` has helpers for tests of your own code.
//! * [`Quorum::connect`], [`Quorum::open`] and [`Quorum::in_memory_with`] take a
//!   [`QuorumBuilder`](crate::QuorumBuilder).
//!
//! **Within a Tokio runtime, every call that waits is refused** with a `Config` error, even in
//! [`spawn_blocking`](https://docs.rs/tokio/latest/tokio/task/fn.spawn_blocking.html). A call that
//! waits would keep the runtime's thread from all other work. Use
//! [`quorumlock::Quorum`](crate::Quorum) within a runtime. If a refused call consumes the guard, as
//! [`LockGuard::release`] does, the lock is released in the background. Quorums and guards may be
//! dropped everywhere. Calls that send no request to nodes, such as [`Session::held`], work
//! everywhere too.
//!
//! # Examples
//! ```
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
//! # Ok::<(), quorumlock::Error>(())
//! ```

mod election;
mod lock;
mod once;
mod quorum;
mod rwlock;
mod semaphore;
mod session;
#[cfg(feature = "testing")]
pub mod testing;
mod worker;

pub use election::{Election, Leader, LeaderLease, Leaders};
pub use lock::{Lease, LockGuard, QuorumLock};
pub use once::{Once, OncePermit};
pub use quorum::{HeldNames, Quorum};
pub use rwlock::{QuorumRwLock, ReadGuard, WriteGuard};
pub use semaphore::{PermitsGuard, PermitsLease, QuorumSemaphore};
pub use session::{Session, SessionBuilder};
