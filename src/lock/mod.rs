//! What users hold: the quorum and its locks. Claims, and no protocol of their own.

mod builder;
mod forced;
mod inner;
mod inspected;
mod members;
mod mutex;
mod quorum;
mod retired;
mod taught;

pub use builder::QuorumBuilder;
pub use forced::Taken;
pub use inspected::Inspected;
pub use members::{Members, NodeMembers};
pub use mutex::QuorumLock;
pub use quorum::Quorum;
pub use retired::{Reset, Retired};
