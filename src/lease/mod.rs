//! Leases: the guards, the loop that renews and ends leases, and the retries of releases.

mod batch;
mod guard;
mod held;
mod locks;
mod monitor;
mod note;
mod renewal_queue;
mod retry_pauses;
mod runtime;
mod schedule;
mod session_grants;
mod watch;

pub(crate) use guard::HandedOn;
pub use guard::{Lease, LockGuard, Released};
pub(crate) use guard::{WeakLease, ensured};
pub(crate) use held::Leases;
pub(crate) use locks::Locks;
