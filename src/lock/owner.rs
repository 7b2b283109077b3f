//! Owners, which may acquire a lock that they already hold.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::lease::WeakLease;
use crate::node::Name;

/// An owner that knows at least this many locks forgets those that it no longer holds.
const FEW: usize = 64;

/// A holder of locks that spans several acquisitions: a request, a job, a session of a user.
///
/// An owner that holds a lock may acquire it again through
/// [`owned_by`](crate::QuorumLock::owned_by), from anywhere in its process, such as another task or
/// a called function. The lock is freed when its last guard is dropped. An owner excludes all other
/// owners, and callers without an owner.
///
/// Cheap to clone, `Send` and `Sync`; clones are the same owner. Only guards keep a lock: an owner
/// without guards holds nothing.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> quorumlock::Result<()> {
/// use quorumlock::{Owner, Quorum, Result};
/// use std::time::Duration;
///
/// const TIMEOUT: Duration = Duration::from_secs(5);
///
/// async fn ship(quorum: &Quorum, job: &Owner) -> Result<()> {
///     let guard = quorum.lock("orders/42").owned_by(job).acquire(TIMEOUT).await?;
///     bill(quorum, job).await?;
///     guard.release().await.map(drop)
/// }
///
/// async fn bill(quorum: &Quorum, job: &Owner) -> Result<()> {
///     let guard = quorum.lock("orders/42").owned_by(job).acquire(TIMEOUT).await?;
///     guard.release().await.map(drop) // `ship` still holds the lock
/// }
///
/// let quorum = Quorum::in_memory(3)?;
/// ship(&quorum, &Owner::new()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Owner(Arc<Mutex<Seats>>);

/// Identifies a lock: the number of its quorum in this process, and its names.
pub(super) type Key = (u64, Arc<[Name]>);

/// An owner's lease of one lock. While a task acquires the lock for the owner, it locks this mutex,
/// so that the owner's other callers wait.
pub(super) type Seat = Arc<tokio::sync::Mutex<WeakLease>>;

#[derive(Default)]
struct Seats {
    all: HashMap<Key, Seat>,
    /// How many seats were left after the last removal of unused seats.
    kept: usize,
}

impl Owner {
    /// A new owner, which holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn seat(&self, key: Key) -> Seat {
        let mut seats = self.seats();
        if seats.all.len() >= FEW.max(2 * seats.kept) {
            seats.all.retain(|_, seat| in_use(seat));
            seats.kept = seats.all.len();
        }
        seats.all.entry(key).or_default().clone()
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the lock is being acquired or held.
fn in_use(seat: &Seat) -> bool {
    Arc::strong_count(seat) > 1 || seat.try_lock().map_or(true, |lease| lease.held().is_some())
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.seats().all.values().filter(|seat| in_use(seat)).count();
        f.debug_struct("Owner").field("locks", &held).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quorum;

    fn known(owner: &Owner) -> usize {
        owner.seats().all.len()
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_forgets_locks_that_it_does_not_hold_any_more() {
        let (quorum, owner) = (Quorum::in_memory(3).unwrap(), Owner::new());
        let lock = |number: usize| quorum.lock(format!("name/{number}")).owned_by(&owner);
        let mut guards = Vec::new();
        for number in 0..1_000 {
            let guard = lock(number).try_acquire().await.unwrap().unwrap();
            if number % 100 == 0 {
                guards.push(guard);
            }
        }
        assert!(known(&owner) <= 2 * FEW, "{}", known(&owner));
        for (number, guard) in guards.iter().enumerate() {
            assert_eq!(lock(100 * number).try_acquire().await.unwrap().unwrap().token(), guard.token());
        }
        drop(guards);
        assert_eq!(format!("{owner:?}"), "Owner { locks: 0 }");
    }
}
