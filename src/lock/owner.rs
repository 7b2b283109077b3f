//! Owners: who may enter a lock again that they hold already.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::lease::WeakLease;
use crate::node::Name;

/// From how many locks on an owner forgets those that it does not hold any more.
const FEW: usize = 64;

/// Who holds locks, where that is more than one acquisition: a request, a job, a session of a user.
///
/// A lock that is [`owned_by`](crate::QuorumLock::owned_by) an owner may be acquired again by the
/// same owner, from anywhere in its process, while that holds it: in a function that is called with
/// the lock held and acquires it itself, or in another task. It is freed with the last guard.
/// Owners exclude each other, and callers that have none.
///
/// Cheap to clone, `Send` and `Sync`; clones are the same owner. It does not keep any lock.
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
///     guard.release().await.map(drop) // held still where it was before
/// }
///
/// let quorum = Quorum::in_memory(3)?;
/// ship(&quorum, &Owner::new()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Owner(Arc<Mutex<Seats>>);

/// A lock: the number of its quorum in this process, and its names.
pub(super) type Key = (u64, Arc<[Name]>);

/// What an owner holds of one lock. Whoever has it acquires for all of the owner's callers.
pub(super) type Seat = Arc<tokio::sync::Mutex<WeakLease>>;

#[derive(Default)]
struct Seats {
    all: HashMap<Key, Seat>,
    /// How many there were when those not in use were looked for last.
    kept: usize,
}

impl Owner {
    /// A new owner, which holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What it holds of a lock.
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

/// Whether somebody acquires the lock now, or it is held.
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
