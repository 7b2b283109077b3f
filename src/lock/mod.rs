//! What users hold: the quorum and its locks. Claims, and no protocol of their own.

mod acquiring;
mod asking;
mod builder;
mod election;
mod held_names;
mod inner;
mod leader;
mod locking;
mod members;
mod mutex;
mod observed;
mod quorum;
mod retired;
mod rwlock;
mod session;
mod session_builder;
mod sessions;
mod taught;

pub use builder::QuorumBuilder;
pub use election::Election;
pub use held_names::HeldNames;
pub use inner::MAX_NAMES;
pub use leader::{Leader, MAX_VALUE};
pub use members::{Members, NodeMembers};
pub use mutex::{MAX_NOTE, QuorumLock};
pub use observed::Leadership;
pub use quorum::Quorum;
pub use retired::{Reset, Retired};
pub use rwlock::{QuorumRwLock, ReadGuard, WriteGuard};
pub use session::Session;
pub use session_builder::SessionBuilder;
pub use sessions::MAX_SESSION_NAMES;
