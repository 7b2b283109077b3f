//! One lock that holds across regions.
//!
//! N independent Redis (or Valkey) masters vote; whoever has a quorum of them, `N / 2 + 1`, within the lock's validity owns it. The
//! algorithm is Redlock's (<https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>) with its known holes closed: locks are never returned after
//! they expired, a lost lock is never brought back to life, a slow node stalls nobody, a restarted node cannot forget, and every lock has a fencing
//! token.
//!
//! ```no_run
//! # #[tokio::main]
//! # async fn main() -> quorumlock::Result<()> {
//! use quorumlock::Quorum;
//! use std::time::Duration;
//!
//! let quorum = Quorum::builder()
//!     .node("redis://eu:6379")
//!     .node("redis://us:6379")
//!     .node("rediss://user:password@asia:6380/2")
//!     .connect()
//!     .await?;
//! let lock = quorum.lock("orders/42");
//! let guard = lock.acquire(Duration::from_secs(5)).await?;
//! // Give guard.token() to the storage with every write; it must refuse one lower than the highest it has seen.
//! guard.ensure(Duration::from_secs(1))?;
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # A tour
//!
//! * [`Quorum`] connects to the nodes and hands out locks by name. [`Quorum::in_memory`] is the same without servers, for tests.
//! * [`QuorumLock`] acquires: [`acquire`](QuorumLock::acquire) waits, [`try_acquire`](QuorumLock::try_acquire) does not,
//!   [`run`](QuorumLock::run) runs a future under the lock and drops it the moment the lock is lost.
//! * [`LockGuard`] is the held lock: its [`token`](LockGuard::token), what [`remains`](LockGuard::remaining) of it, how it is
//!   [`lost`](LockGuard::lost), and its [`release`](LockGuard::release).
//! * [`Error`] says what to do next: wait, retry, alert, stop. It names the nodes.
//! * [`metrics`] lists what is measured. Install a recorder before connecting.
//! * [`quorum`] holds the rules in pure form, [`node`] the port to one node, [`host`] what is taken from the machine.
//!
//! # What is promised
//!
//! * **Mutual exclusion**, as long as a quorum of nodes keeps what it stored for the ttl, and clocks run apart by less than
//!   the drift (1 % and 2 ms by default). Clocks need not agree. A guard says that it is held only for `ttl - drift` from *before* the nodes were asked, on a clock that
//!   counts suspended time.
//! * **Fencing tokens grow**: whoever holds a lock has a greater token than everyone who held it before.
//! * **Unknown is not refused**: what a node may have granted is released, also when its answer never came, when a future is dropped, and when a quorum
//!   was there and too late.
//! * **First come, first served**, across processes: nodes keep a line a name and wake the first. A waiter that died costs a turn, 100 ms to 2 s.
//! * **Loss is told by the deadline**, by a timer of its own, and is final.
//! * **Restarted nodes do not vote** until every lock that they could have forgotten has expired. The same goes for nodes whose clock was stepped.
//!   See [`quorum::guard`] for what can and what cannot be seen.
//!
//! # What is not
//!
//! * A process that is paused between checking its guard and writing to its storage may write after somebody else. Only the storage can refuse
//!   that, by the token.
//! * A node that forgets without restarting (keys deleted by hand, an evicting `maxmemory-policy`, a failover behind one address that keeps its run id) can
//!   grant twice.
//! * Strict order across processes: within one process the lock passes from caller to caller up to eight times in a row while others wait
//!   ([`LockOptions::max_passes`]; zero makes it strict), and callers that turned [`fair`](LockOptions::fair) off overtake.
//!
//! # Runtime
//!
//! A Tokio runtime with time and I/O enabled; Redis 6 or later, or Valkey. The library opens one connection a node, and keeps two small tasks a node and one a quorum. When the
//! last handle and guard are dropped, nothing stays.

pub mod config;
pub mod error;
pub mod host;
mod lease;
mod lock;
pub mod metrics;
pub mod node;
mod protocol;
pub mod quorum;

pub use config::LockOptions;
pub use error::{Error, ErrorKind, NodeReport, Result};
pub use lease::{Lease, LockGuard, Released};
pub use lock::{Inspected, Quorum, QuorumBuilder, QuorumLock};
pub use node::{NodeState, NodeStatus};
pub use quorum::LostReason;
