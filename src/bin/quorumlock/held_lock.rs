//! The locks that `run` and `elect` can hold while a command runs: a lock, a permit, the lock of a
//! leader, or a job that is done once in a period.

use std::time::Duration;

use quorumlock::{
    Election, Error, Leader, LeaderLease, Lease, LockGuard, LockOptions, LostReason, NodeReport, Once, OncePermit,
    PermitsGuard, PermitsLease, Quorum, QuorumLock, QuorumRwLock, QuorumSemaphore, ReadGuard, Released, Ticket,
};

use crate::cli::Run;
use crate::output;

/// The lock to acquire.
pub(crate) enum Wanted {
    Lock(QuorumLock),
    /// A lock that is shared with other readers.
    Shared(QuorumRwLock),
    Permit(QuorumSemaphore),
    /// The lock of a leader, with the value that the leader shows to other clients.
    Office(Election, Option<String>),
    Once(Once),
    /// The lock of a ticket. Acquiring it needs no wait: nodes keep it for the ticket.
    Resumed(Box<(Quorum, Ticket, LockOptions)>),
}

impl Wanted {
    /// The lock that the options of `run` describe.
    pub(crate) fn of(args: &Run, quorum: &Quorum, options: &LockOptions) -> Result<Self, Error> {
        let (name, note) = (&args.names[0], args.describe.as_ref());
        if let Some(period) = args.once_per {
            let once = quorum.once_with(name, period, options)?;
            return Ok(Self::Once(note.map_or_else(|| once.clone(), |note| once.describe(note))));
        }
        if args.shared {
            return Ok(Self::Shared(quorum.rw_lock_with(name, options)?));
        }
        if let Some(permits) = args.permits {
            return Ok(Self::Permit(quorum.semaphore_with(name, permits, options)?));
        }
        let lock = quorum.lock_all_with(&args.names, options)?;
        Ok(Self::Lock(note.map_or_else(|| lock.clone(), |note| lock.describe(note))))
    }

    /// The value that a leader shows to other clients; empty for other locks.
    pub(crate) fn value(&self) -> &str {
        match self {
            Self::Office(_, value) => value.as_deref().unwrap_or_default(),
            _ => "",
        }
    }

    /// Acquires the lock. A leader then sends its value to the nodes. With `Self::Once`, returns
    /// `None` if the job was done in this period, or is being done.
    pub(crate) async fn acquire(&self, timeout: Duration) -> Result<Option<Held>, Error> {
        Ok(Some(match self {
            Self::Lock(lock) => Held::Lock(lock.acquire(timeout).await?),
            Self::Shared(lock) => Held::Shared(lock.read(timeout).await?),
            Self::Permit(semaphore) => Held::Permit(semaphore.acquire(1, timeout).await?),
            Self::Office(election, value) => {
                let leader = election.campaign(timeout).await?;
                if let Some(value) = value {
                    proclaim(&leader, value).await?;
                }
                Held::Office(leader)
            }
            Self::Once(once) => return Ok(once.claim().await?.map(Held::Once)),
            Self::Resumed(resumed) => {
                let (quorum, ticket, options) = &**resumed;
                Held::Lock(quorum.resume_with(ticket, options).await?)
            }
        }))
    }
}

/// Sends the leader's value to the nodes. If too few nodes stored the value in time, only writes a
/// note, because later renewals send the value again.
async fn proclaim(leader: &Leader, value: &str) -> Result<(), Error> {
    match leader.proclaim(value).await {
        Err(error) if error.is_unavailable() => {
            output::note(&error.to_string());
            Ok(())
        }
        done => done,
    }
}

/// The guard of a held lock.
pub(crate) enum Held {
    Lock(LockGuard),
    Shared(ReadGuard),
    Permit(PermitsGuard),
    Office(Leader),
    Once(OncePermit),
}

impl Held {
    pub(crate) fn view(&self) -> View {
        match self {
            Self::Lock(guard) => View::Lock(guard.lease()),
            Self::Shared(guard) => View::Lock(guard.lease()),
            Self::Permit(guard) => View::Permit(guard.lease()),
            Self::Office(leader) => View::Lock(Lease::clone(leader)),
            Self::Once(permit) => View::Lock(permit.lease()),
        }
    }

    pub(crate) async fn release(self) -> Result<Released, Error> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Shared(guard) => guard.release().await,
            Self::Permit(guard) => guard.release().await,
            Self::Office(leader) => leader.resign().await,
            Self::Once(permit) => permit.done().await,
        }
    }

    /// Releases the lock after the work has failed. A job that is done once in a period may then be
    /// tried by another client in this period.
    pub(crate) async fn undo(self) -> Result<Released, Error> {
        match self {
            Self::Once(permit) => permit.undo().await,
            other => other.release().await,
        }
    }

    /// A view of the leader's lock, if this lock is a leader's.
    pub(crate) fn office(&self) -> Option<LeaderLease> {
        match self {
            Self::Office(leader) => Some(leader.lease()),
            _ => None,
        }
    }

    /// Whether this is a job that is done once in a period. Nodes hold the name of such a job even
    /// after this value is dropped.
    pub(crate) const fn is_once(&self) -> bool {
        matches!(self, Self::Once(_))
    }
}

/// A view of a held lock. The lock ends when its guard is dropped, even if a view is left.
pub(crate) enum View {
    Lock(Lease),
    Permit(PermitsLease),
}

impl View {
    pub(crate) fn names(&self) -> Vec<&str> {
        match self {
            Self::Lock(lease) => lease.names().collect(),
            Self::Permit(lease) => vec![lease.name()],
        }
    }

    pub(crate) fn token(&self) -> u64 {
        match self {
            Self::Lock(lease) => lease.token(),
            Self::Permit(lease) => lease.permits().iter().map(|permit| permit.token).max().unwrap_or_default(),
        }
    }

    pub(crate) fn permit(&self) -> Option<u32> {
        match self {
            Self::Lock(_) => None,
            Self::Permit(lease) => lease.permits().first().map(|permit| permit.number),
        }
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self {
            Self::Lock(lease) => lease.remaining(),
            Self::Permit(lease) => lease.remaining(),
        }
    }

    pub(crate) async fn lost(&self) -> LostReason {
        match self {
            Self::Lock(lease) => lease.lost().await,
            Self::Permit(lease) => lease.lost().await,
        }
    }

    pub(crate) fn failed_renewal(&self) -> Vec<NodeReport> {
        match self {
            Self::Lock(lease) => lease.failed_renewal(),
            Self::Permit(lease) => lease.failed_renewal(),
        }
    }
}
