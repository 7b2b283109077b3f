//! What users hold: the quorum and its locks. Claims, and no protocol of their own.

mod builder;
mod election;
mod held_names;
mod inner;
mod leader;
mod members;
mod mutex;
mod observed;
mod quorum;
mod retired;
mod rwlock;
mod taught;

pub use builder::QuorumBuilder;
pub use election::Election;
pub use held_names::HeldNames;
pub use leader::{Leader, MAX_VALUE};
pub use members::{Members, NodeMembers};
pub use mutex::{MAX_NOTE, QuorumLock};
pub use observed::Leadership;
pub use quorum::{MAX_NAMES, Quorum};
pub use retired::{Reset, Retired};
pub use rwlock::{QuorumRwLock, ReadGuard, WriteGuard};
