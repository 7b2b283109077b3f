//! One lock that holds across regions.

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
pub use lease::{Lease, LockGuard, LostReason, Released};
pub use lock::{Inspected, Quorum, QuorumBuilder, QuorumLock};
pub use node::{NodeState, NodeStatus};
