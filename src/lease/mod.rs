//! Leases: the guard that users hold, the loop that renews and ends them, and the reaper of what
//! was dropped.

mod guard;
mod held;
mod monitor;
mod reaper;
mod schedule;

pub(crate) use guard::WeakLease;
pub use guard::{Lease, LockGuard, Released};
pub(crate) use held::Leases;
