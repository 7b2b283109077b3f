//! Leases: the guards, the loop that renews and ends leases, and the retries of releases.

mod batch;
mod guard;
mod held;
mod home;
mod kept;
mod locks;
mod monitor;
mod reaper;
mod schedule;
mod spoken;
mod turns;
mod watch;

pub(crate) use guard::WeakLease;
pub use guard::{Lease, LockGuard, Released};
pub(crate) use held::Leases;
pub(crate) use locks::Locks;
