//! One lock that holds across regions.
//!
//! N independent Redis (or Valkey) masters vote; whoever has a quorum of them, `N / 2 + 1`, within
//! the lock's validity owns it. The algorithm is Redlock's
//! (<https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>) with its known holes
//! closed: locks are never returned after they expired, a lost lock is never brought back to life,
//! a slow node stalls nobody, what a restarted node forgot is not granted again, and every lock has
//! a fencing token. The repository's `docs/protocol.md` says how, and why that is safe.
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
//! let done = lock
//!     .try_run(Duration::from_secs(5), |lease| async move {
//!         // Give lease.token() to the storage with every write. It must refuse a token that is
//!         // lower than the highest it has seen. (Servers that have just started let nobody acquire
//!         // for `max_ttl`, a minute by default, unless `quorumlock init` was run on them.)
//!         lease.ensure(Duration::from_secs(1))
//!     })
//!     .await;
//! // Waits until what was released is released.
//! quorum.shutdown(Duration::from_secs(1)).await;
//! done
//! # }
//! ```
//!
//! # A tour
//!
//! * [`Quorum`] connects to the nodes and hands out locks by name. [`Quorum::in_memory`] is the
//!   same without servers, for tests.
//! * [`QuorumLock`] acquires: [`acquire`](QuorumLock::acquire) waits,
//!   [`try_acquire`](QuorumLock::try_acquire) does not, [`run`](QuorumLock::run) and
//!   [`try_run`](QuorumLock::try_run) run a future under the lock and drop it the moment the lock
//!   is lost. [`LockOptions`] say how it behaves.
//! * [`QuorumRwLock`] is held by many readers together, or by one writer.
//! * [`QuorumSemaphore`] has a number of permits: at most so many are held at a time, whatever
//!   nodes forget, and each has a number and a token of its own.
//! * [`LockGuard`] is the held lock: its [`token`](Lease::token), what
//!   [`remains`](Lease::remaining) of it, how it is [`lost`](Lease::lost), and its
//!   [`release`](LockGuard::release).
//! * [`Owner`]: who may acquire again, anywhere in its process, what it holds already.
//! * [`Election`] is a lock whose holder others can see: a [`Leader`] proclaims a value, and
//!   [`observe`](Election::observe) tells who leads. [`describe`](QuorumLock::describe) gives any
//!   lock a note for people.
//! * [`Once`]: of many that try, the first in each period gets a permit, and the others skip.
//! * [`Session`] is a lease that owns many locks: names are [locked](Session::lock) and
//!   [unlocked](Session::unlock) one by one or in sets; all are renewed together, lost together, and
//!   freed by one [`revoke`](Session::revoke).
//! * Each of them has `run` and `try_run` too: the body is dropped the moment what it works under is
//!   lost, and that is given up whatever the body comes to.
//! * [`LockProvider`] is an object-safe trait over locks by name, for programs that have them
//!   injected.
//! * [`Config`] has the settings as data: from the environment ([`Quorum::from_env`]) or a file.
//! * [`Error`] says what to do next: wait, retry, alert, stop. It names the nodes.
//! * [`fence`] makes storage refuse the late writes of who has lost the lock: PostgreSQL, Redis,
//!   S3.
//! * [`metrics`] lists what is measured. Install a recorder before connecting.
//! * With the features of their names, `blocking` has the same types for programs without async,
//!   and `testing` what tests of your own code need: a foreign holder, and a loss.
//! * With the feature `unstable`: `rules` holds the rules in pure form, `node` the port to one
//!   node, `host` what is taken from the machine.
//!
#![doc = include_str!("../docs/guarantees.md")]
//!
//! [`Doubt`](Doubt#what-cannot-be-seen) has the whole list about nodes.
//!
//! # Runtime
//!
//! A Tokio runtime with time and I/O enabled; Redis 6 or later, or Valkey. The library opens one
//! connection a node, and keeps two small tasks a node (one over redis-rs) and two a quorum. When the
//! last handle and guard are dropped, nothing stays.
//!
//! # Tracing
//!
//! The library makes spans and events of [`tracing`](https://docs.rs/tracing), with the target
//! `quorumlock`. Where no subscriber asks for their level, a span costs a comparison.
//!
//! | span | level | fields | what it is |
//! |---|---|---|---|
//! | `acquire` | debug | `quorum`, `name`, `token`, `outcome` | an acquisition, from asking to having it or giving up |
//! | `round` | debug | `outcome` | one round of claims, within `acquire` |
//! | `renew` | debug | `name`, `token`, `outcome` | one renewal, a root |
//! | `release` | debug | `name`, `token`, `outcome` | a release, until a quorum has confirmed it |
//! | `node_call` | trace | `node`, `operation`, `outcome` | one operation on one node, within one of these |
//!
//! `token` is the fencing token, by which the spans of one lock are found. `name` is there if
//! [`LockOptions::trace_name`] is on: names may be secret. `outcome` has the words that metrics have.
//! Events at the level warn name the lock in any case: a lock that was lost, a release without
//! confirmation.
//!
//! # Features
//!
//! None is on by default.
//!
//! * `blocking`: the module `blocking`, the types without async on a runtime of their own.
//! * `serde`: [`Config`] implements `Deserialize`, to be read from configuration files.
//! * `redis-rs`: another transport to the nodes, over the crate `redis`, by choice: [`Transport`]
//!   says which to take when.
//! * `fence-postgres`, `fence-redis`, `fence-s3`: helpers of the module [`fence`], for storage that
//!   refuses writes of a stale token.
//! * `testing`: the module `testing`, for the tests of your own code; with `blocking`, also
//!   `blocking::testing`.
//! * `cli`: the `quorumlock` command, for `cargo install`.
//! * `unstable`: the modules `host`, `node` and `rules`, quorums over nodes and hosts of your own,
//!   and hooks for simulations. **Any release may change or remove them.**

// On docs.rs, whose compiler has it: what a feature adds is labelled with it.
#![cfg_attr(docsrs, feature(doc_cfg))]
// A type that a public signature names is exported here.
#![warn(unnameable_types)]

mod config;
mod error;
pub mod fence;
mod lease;
mod lock;
pub mod metrics;
mod protocol;
mod spans;
mod words;

#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "unstable")]
pub mod host;
#[cfg(feature = "unstable")]
pub mod node;
#[cfg(feature = "unstable")]
pub mod rules;

#[cfg(not(feature = "unstable"))]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "public with `unstable`")]
mod host;
#[cfg(not(feature = "unstable"))]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "public with `unstable`")]
mod node;
#[cfg(not(feature = "unstable"))]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "public with `unstable`")]
mod rules;

pub use config::{Config, LockOptions, MAX_NODES, MAX_TTL, MIN_TTL, NodeConfig, PasswordFile};
pub use error::{Conflict, Error, ErrorKind, NodeCause, NodeReport, Result};
pub use lease::{Lease, LockGuard, Released};
pub use lock::{DistributedLock, DistributedRwLock, DistributedSemaphore, LockProvider, Locking};
pub use lock::{
    Election, HeldNames, Leader, LeaderLease, Leadership, MAX_NAMES, MAX_NOTE, MAX_VALUE, Members, NodeMembers, Owner,
    Quorum, QuorumBuilder, QuorumLock, QuorumRwLock, ReadGuard, WriteGuard,
};
pub use lock::{MAX_PERIOD, Once, OncePermit};
pub use lock::{MAX_PERMITS, Permit, PermitsGuard, PermitsLease, QuorumSemaphore};
pub use lock::{MAX_SESSION_NAMES, Session, SessionBuilder};
pub use node::redis::{Credentials, CredentialsProvider, FetchingCredentials, Tls, Transport};
pub use node::{Description, Inspection, Kind as HoldKind, NodeState, NodeStatus};
pub use protocol::{Inspected, Taken};
pub use rules::LostReason;
pub use rules::doubt::Doubt;
pub use rules::list::{InForce, List, OldAtOnce, Record, Sighting};

// Their examples compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
#[cfg(doctest)]
#[doc = include_str!("../docs/guide.md")]
struct Guide;
#[cfg(doctest)]
#[doc = include_str!("../docs/deploy.md")]
struct Deploy;
#[cfg(doctest)]
#[doc = include_str!("../docs/observability.md")]
struct Observability;
#[cfg(doctest)]
#[doc = include_str!("../docs/migrating.md")]
struct Migrating;
