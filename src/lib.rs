//! One lock that holds across regions.
//!
//! N independent Redis (or Valkey) masters vote. A caller that gets a quorum of votes (`N / 2 + 1`)
//! within the lock's validity holds the lock. The algorithm is Redlock
//! (<https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>) with its known problems
//! solved. `acquire` never returns an expired lock. A lost lock never becomes held again. A slow
//! node delays nobody. Even if a restarted node forgot a held lock, no other caller gets the lock.
//! Every lock has a fencing token. `docs/protocol.md` in the repository describes the protocol, and
//! why it is safe.
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
//!     .node("rediss://user:password@asia:6380/2") // needs the feature `tls`
//!     .connect()
//!     .await?;
//! // New servers grant nothing for `max_ttl` (a minute by default) without `quorumlock init`.
//! let lock = quorum.lock("orders/42");
//! let done = lock
//!     .try_run(Duration::from_secs(5), |lease| async move {
//!         // Give lease.token() to the storage with every write. The storage must refuse a token
//!         // below the highest that it has seen.
//!         lease.ensure(Duration::from_secs(1))
//!     })
//!     .await;
//! // Waits until the pending releases are confirmed.
//! quorum.shutdown(Duration::from_secs(1)).await;
//! done
//! # }
//! ```
//!
//! # A tour
//!
//! * [`Quorum`] connects to the nodes and makes locks by name. [`Quorum::in_memory`] makes a quorum
//!   without servers, for tests.
//! * [`QuorumLock`] is a lock on a name. [`acquire`](QuorumLock::acquire) waits for it, and
//!   [`try_acquire`](QuorumLock::try_acquire) does not. [`run`](QuorumLock::run) and
//!   [`try_run`](QuorumLock::try_run) run a future under the lock. [`LockOptions`] configure the
//!   lock.
//! * [`QuorumRwLock`] is held by many readers together, or by one writer.
//! * [`QuorumSemaphore`] has K permits. Never more than K are held at a time, even if nodes forget
//!   permits. Each permit has its own number and token.
//! * [`LockGuard`] is a held lock, with its [`token`](Lease::token) and
//!   [`remaining`](Lease::remaining) validity. [`lost`](Lease::lost) waits for the loss of the
//!   lock, and [`release`](LockGuard::release) frees the lock.
//! * [`Owner`] can acquire a lock that it already holds, from any place in its process.
//! * [`Election`] is a lock whose holder others can see: a [`Leader`] proclaims a value, and
//!   [`observe`](Election::observe) returns the leaders. [`describe`](QuorumLock::describe) gives
//!   any lock a note for people.
//! * [`Once`] gives a permit to the first of many callers in each period. The others skip the work.
//! * [`Session`] is a lease that owns many locks. Names are [locked](Session::lock) and
//!   [unlocked](Session::unlock) one by one or in sets. All locks of a session are renewed
//!   together, lost together, and freed by one [`revoke`](Session::revoke).
//! * Locks, semaphores, elections, [`Once`] and sessions have `run` and `try_run`. These methods
//!   drop the future as soon as the lock is lost, and always give the lock up in the end.
//! * [`LockProvider`] is an object-safe trait that makes locks, for dependency injection.
//! * [`Config`] has the settings as data: from the environment ([`Quorum::from_env`]) or a file.
//! * [`Error`] says what to do next (wait, alert, stop or fix), and what each node replied.
//! * [`fence`] makes PostgreSQL, Redis or S3 refuse late writes of a holder that has lost its lock.
//! * [`metrics`] lists the metrics. Install a recorder before you connect.
//! * The feature `blocking` adds the same types for programs without async. The feature `testing`
//!   adds functions for the tests of your own code: one holds a lock as another process would, and
//!   one ends a held lock.
//! * The feature `unstable` adds `rules` (the decisions, in pure code), `node` (the interface to
//!   one node) and `host` (clock, random numbers and tasks).
//!
#![doc = include_str!("../docs/guarantees.md")]
//!
//! [`Doubt`](Doubt#what-cannot-be-seen) lists the events on nodes that clients cannot detect.
//!
//! # Runtime
//!
//! The library needs a Tokio runtime with time and I/O enabled, and Redis 6 or later, or Valkey. It
//! opens one connection to each node, and a second one while the program observes an election. It
//! runs three small tasks per node (two with redis-rs) and two per quorum. All tasks end when the
//! last handle and the last guard are dropped.
//!
//! # Tracing
//!
//! The library emits spans and events of [`tracing`](https://docs.rs/tracing), with the target
//! `quorumlock`. If no subscriber enables the level of a span, the span costs one comparison.
//!
//! | span | level | fields | what it is |
//! |---|---|---|---|
//! | `acquire` | debug | `quorum`, `name`, `token`, `outcome` | an acquisition, until it has the lock or gives up |
//! | `round` | debug | `outcome` | one claim to all nodes, within `acquire` |
//! | `renew` | debug | `name`, `token`, `outcome` | one renewal; a root span |
//! | `release` | debug | `name`, `token`, `outcome` | the release of one name, until a quorum has confirmed it |
//! | `node_call` | trace | `node`, `operation`, `outcome` | one operation on one node, within one of the spans above |
//!
//! `token` is the fencing token: all spans of one lock have the same token. `name` is recorded only
//! if [`LockOptions::trace_name`] is on, because names may be secret. `outcome` tells how the work
//! ended. Acquisitions, rounds and renewals have the same outcomes as in the metrics. A renewal can
//! also be `over`: its lease ended before the renewal did. A release is `released`, `gone` (the
//! names were no longer held) or `unconfirmed`. Events at the level warn (a lost lock, an
//! unconfirmed release) always name the lock.
//!
//! # Features
//!
//! No feature is on by default.
//!
//! * `tls`: addresses with `rediss://`, over `rustls` with the crypto provider `ring`.
//!   `tls-aws-lc`: the same with the provider `aws-lc-rs`. If both features are off, `rediss://` is
//!   a `Config` error. If both are on, `ring` is used. If the program has installed a provider
//!   (`CryptoProvider::install_default`) before it connects, the library uses this one. Choose the
//!   feature of the provider that your program links already. If a program links both providers
//!   and installs none, other libraries that need rustls's default panic.
//! * `blocking`: the module `blocking`, with the same types for programs without async.
//! * `serde`: [`Config`] implements `Deserialize`, to be read from configuration files.
//! * `redis-rs`: a second transport to the nodes, over the crate `redis`. [`Transport`] says which
//!   transport to choose.
//! * `fence-sqlx-0_8`, `fence-redis`, `fence-s3`: helpers in the module [`fence`], which make
//!   storage refuse writes with a stale token.
//! * `testing`: the module `testing`, for the tests of your own code. With `blocking`, also
//!   `blocking::testing`.
//! * `cli`: the `quorumlock` command, for `cargo install`.
//! * `unstable`: the modules `host`, `node` and `rules`, quorums over nodes and hosts of your own,
//!   and hooks for simulations. **Any release may change or remove them.**

// docs.rs compiles with nightly, so its pages can label the items that a feature adds.
#![cfg_attr(docsrs, feature(doc_cfg))]
// Every type in a public signature must be exported here.
#![warn(unnameable_types)]

#[cfg(all(feature = "__tls", not(any(feature = "tls", feature = "tls-aws-lc"))))]
compile_error!("use the feature tls or tls-aws-lc of quorumlock");

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
pub use lock::{MAX_SESSION_NAMES, Session, SessionBuilder, Ticket};
pub use node::redis::{Credentials, CredentialsProvider, FetchingCredentials, Tls, Transport};
pub use node::{Description, Inspection, Kind as HoldKind, NodeState, NodeStatus};
pub use protocol::{Inspected, Taken};
pub use rules::LostReason;
pub use rules::doubt::Doubt;
pub use rules::list::{InForce, List, OldAtOnce, Record, Sighting};

// `cargo test --doc` compiles the examples in these files.
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
