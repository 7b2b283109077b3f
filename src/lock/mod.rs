//! What users hold: the quorum and its locks. Claims, and no protocol of their own.

mod acquiring;
mod asking;
mod builder;
mod inner;
mod locking;
mod members;
mod mutex;
mod quorum;
mod retired;
mod session;
mod session_builder;
mod sessions;
mod taught;

pub use builder::QuorumBuilder;
pub use inner::MAX_NAMES;
pub use members::{Members, NodeMembers};
pub use mutex::QuorumLock;
pub use quorum::Quorum;
pub use retired::{Reset, Retired};
pub use session::Session;
pub use session_builder::SessionBuilder;
pub use sessions::MAX_SESSION_NAMES;
