//! What `run` and `elect` hold while a command runs: a lock, or an office.

use std::time::Duration;

use quorumlock::{Election, Error, Leader, Lease, LockGuard, QuorumLock, QuorumRwLock, ReadGuard, Released};

use crate::output;

/// What is to be held.
pub(crate) enum Wanted {
    Lock(QuorumLock),
    /// As a reader.
    Shared(QuorumRwLock),
    /// With the value to proclaim.
    Office(Election, Option<String>),
}

impl Wanted {
    /// Waits for it, and proclaims the value.
    pub(crate) async fn acquire(&self, timeout: Duration) -> Result<Held, Error> {
        match self {
            Self::Lock(lock) => lock.acquire(timeout).await.map(Held::Lock),
            Self::Shared(lock) => lock.read(timeout).await.map(Held::Shared),
            Self::Office(election, value) => {
                let leader = election.campaign(timeout).await?;
                if let Some(value) = value {
                    proclaim(&leader, value).await?;
                }
                Ok(Held::Office(leader))
            }
        }
    }
}

/// Too few nodes may have stored it in time: they are told again.
async fn proclaim(leader: &Leader, value: &str) -> Result<(), Error> {
    match leader.proclaim(value).await {
        Err(error) if error.is_unavailable() => {
            output::note(&error.to_string());
            Ok(())
        }
        done => done,
    }
}

/// What is held.
pub(crate) enum Held {
    Lock(LockGuard),
    Shared(ReadGuard),
    Office(Leader),
}

impl Held {
    pub(crate) fn lease(&self) -> Lease {
        match self {
            Self::Lock(guard) => guard.lease(),
            Self::Shared(guard) => guard.lease(),
            Self::Office(leader) => leader.lease(),
        }
    }

    pub(crate) async fn release(self) -> Result<Released, Error> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Shared(guard) => guard.release().await,
            Self::Office(leader) => leader.resign().await,
        }
    }
}
