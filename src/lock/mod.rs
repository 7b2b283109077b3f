//! What users hold: the quorum and its locks. Claims, and no protocol of their own.

mod builder;
mod configured;
mod inner;
mod members;
mod mutex;
mod owner;
mod provider;
mod quorum;
mod retired;
mod scoped;
mod taught;

pub use builder::QuorumBuilder;
pub use members::{Members, NodeMembers};
pub use mutex::QuorumLock;
pub use owner::Owner;
pub use provider::{DistributedLock, LockProvider, Locking};
pub use quorum::{MAX_NAMES, Quorum};
pub use retired::{Reset, Retired};
