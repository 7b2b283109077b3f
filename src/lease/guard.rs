//! What whoever holds a lock has in hand.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::held::{Dropped, Held, Leases};
use super::watch::{self, Watched};
use crate::config::Rules;
use crate::error::{Error, ErrorKind, NodeReport, Result};
use crate::host::before;
use crate::protocol::{Freeing, Grant};
use crate::rules::tally::Freed;
use crate::rules::{LostReason, Tick};
use crate::words::{about, exact, listed};

/// What a release came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Released {
    /// It was held until this moment. Where other guards of the same lock are left
    /// ([`reenter`](LockGuard::reenter)), it is held still.
    Released,
    /// It had been lost before. Others may have held it since its deadline.
    AlreadyExpired,
}

/// A view of a held lock: cheap to clone, and without a share in holding it.
#[derive(Clone)]
pub struct Lease(Arc<Held>);

impl Lease {
    /// The lock's name; of a lock on several names the first in their order. Where the quorum has a
    /// [`key_format`](crate::QuorumBuilder::key_format), as that makes it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name().text()
    }

    /// The names that it is on, each once, in their order: one, but for
    /// [`Quorum::lock_all`](crate::Quorum::lock_all).
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.grant.names().iter().map(|name| &**name.text())
    }

    /// The fencing token: greater than that of everyone who held this lock before. Storage that
    /// refuses a token lower than the highest it has seen is safe even from a holder that was
    /// paused and does not know that its lock has passed on.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.0.grant.token()
    }

    /// What is left of the validity, zero if the lock is not held any more. It is counted from
    /// before the nodes were asked, minus the drift.
    ///
    /// A lock that was handed over by the one before begins with up to some 3 s. It has its whole
    /// validity by a renewal that is sent 100 ms or a round trip later, whichever is longer.
    /// Whoever needs more at once says so by [`min_validity`](crate::LockOptions::min_validity).
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Whether the lock is held at this moment. Never true past the deadline, whatever timers do.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Checks that the lock is held for at least `least` from now: before a write that takes so
    /// long.
    ///
    /// # Errors
    /// `Lost` if it is not.
    pub fn ensure(&self, least: Duration) -> Result<()> {
        let remaining = self.remaining();
        if remaining.is_zero() {
            return Err(self.0.lost_error());
        }
        if remaining < least {
            let message = format!(
                "the lock on {} is held for {} more, less than {}",
                listed(self.0.grant.names()),
                about(remaining),
                exact(least)
            );
            return Err(Error::new(ErrorKind::Lost, message));
        }
        Ok(())
    }

    /// Waits until the lock is lost. Never ends if the lock is released first.
    ///
    /// A lock that was taken away keeps others out until its last guard is dropped, and until its
    /// deadline at most. So end the work first, and drop the guard then. Drop it before you acquire
    /// the lock again: that call would wait for this guard.
    ///
    /// It watches the deadline itself, on the runtime that polls it: it ends in time even where the
    /// runtime that the quorum was connected on has ended. Polled outside of any Tokio runtime it
    /// has no timer of its own, and ends when that runtime notices.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LostReason {
        watch::lost(&*self.0).await
    }

    /// Waits until the lock is over: why it was lost, or `None` where it was released.
    #[cfg(feature = "blocking")]
    pub(crate) async fn outcome(&self) -> Option<LostReason> {
        watch::outcome(&*self.0).await
    }

    /// A token that is cancelled when the lock is lost, for whatever takes one. It is not cancelled
    /// by a release.
    ///
    /// Within another runtime than the one that the quorum was connected on, a task of that runtime
    /// watches the lock for the token, until the lock has ended or the token is cancelled. A token
    /// taken elsewhere is cancelled by the quorum's own runtime only, as long as that runs.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        watch::cancellation(&self.0)
    }

    /// What each node said to the last renewal, if that did not renew the lock. Empty where it did,
    /// and where none was made.
    #[must_use]
    pub fn failed_renewal(&self) -> Vec<NodeReport> {
        self.0.failed_renewal()
    }

    /// Whose one of its names is on the nodes: for simulations.
    #[cfg(feature = "unstable")]
    #[doc(hidden)]
    #[must_use]
    pub fn owner(&self, name: &str) -> &str {
        self.0.grant.owner_of(name)
    }

    pub(crate) fn lost_error(&self) -> Error {
        self.0.lost_error()
    }

    /// Says something else of its holder from now on, and waits until a quorum has stored it.
    pub(crate) async fn say(&self, says: Arc<str>) -> Result<()> {
        self.0.home().can_wait()?;
        let (held, names) = (&self.0, listed(self.0.grant.names()));
        let until = held.round_timeout();
        let Some((renewing, told)) = held.say(says)? else {
            let message = format!("what was said of {names} was not stored: it is renewed no more");
            return Err(Error::new(ErrorKind::Unavailable, message));
        };
        match before(held.host(), until, told).await {
            Some(Ok(true)) => Ok(()),
            _ if !self.is_held() => Err(self.lost_error()),
            _ => {
                let message = format!("what was said of {names} was not stored by a quorum");
                Err(Error::new(ErrorKind::Unavailable, message).with_nodes(renewing.reports()))
            }
        }
    }

    /// The same, where it must not keep anything of the lock.
    pub(crate) fn downgrade(&self) -> WeakLease {
        WeakLease(Arc::downgrade(&self.0))
    }

    /// See [`LockGuard::reenter`].
    pub(crate) fn reenter(&self) -> Result<LockGuard> {
        self.0.add_hold()?;
        Ok(LockGuard { lease: self.clone(), holds: true })
    }
}

/// A lock that may be held still.
#[derive(Debug, Default)]
pub(crate) struct WeakLease(Weak<Held>);

impl WeakLease {
    /// The lock, if it is.
    pub(crate) fn held(&self) -> Option<Lease> {
        self.0.upgrade().map(Lease).filter(Lease::is_held)
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("name", &self.name())
            .field("token", &self.token())
            .field("remaining", &self.remaining())
            .finish()
    }
}

/// A held lock. It is renewed as long as this lives, and released when it is dropped, also where it
/// was lost: until then, or its deadline, nobody else enters because of a loss.
///
/// Drop sends the release and waits for nothing: prefer [`release`](Self::release), which tells
/// whether the lock was held to the end.
///
/// **A drop as `main` returns, also by `?`, may send nothing:** the runtime ends before that, and
/// nodes hold the lock until its ttl ends, which is a warning. Use
/// [`try_run`](crate::QuorumLock::try_run), or call [`Quorum::shutdown`](crate::Quorum::shutdown)
/// before `main` returns. (With the transport redis-rs it is sent before the runtime has ended.)
///
/// What can be asked of it, and awaited, it has from
/// [`Lease`]: [`token`](Lease::token), [`remaining`](Lease::remaining), [`lost`](Lease::lost) and so
/// on.
#[derive(Debug)]
#[must_use = "the lock is released when its guard is dropped"]
pub struct LockGuard {
    lease: Lease,
    holds: bool,
}

impl Deref for LockGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl LockGuard {
    /// The guard of a round that was won.
    pub(crate) fn new(leases: &Arc<Leases>, rules: &Arc<Rules>, grant: Grant, says: Option<&Arc<str>>) -> Self {
        Self { lease: Lease(Held::begin(leases, rules, grant, says)), holds: true }
    }

    /// A view that can be given away; it does not keep the lock.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    pub(crate) fn grant(&self) -> &Grant {
        &self.lease.0.grant
    }

    /// It is renewed no more, and no renewal that is under way ends it.
    pub(crate) fn hold_still(&self) {
        self.lease.0.hold_still();
    }

    /// Holds the lock once more, and returns a second guard. The lock is freed with the last one.
    ///
    /// Nothing is sent: nodes, and so [`Quorum::inspect`](crate::Quorum::inspect), get the hold count
    /// with the next renewal.
    ///
    /// # Errors
    /// `Lost` if the lock is not held any more.
    pub fn reenter(&self) -> Result<Self> {
        self.lease.reenter()
    }

    /// Gives this hold up; with the last, releases the lock on every node, and waits until a quorum
    /// has confirmed it.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time. The release goes on in the background, and
    /// what it does not reach expires by itself; nothing needs to be done again.
    ///
    /// # Cancel safety
    /// Safe: the release has been sent when this is first polled, and goes on in the background.
    pub async fn release(mut self) -> Result<Released> {
        self.holds = false;
        let held = self.lease.0.clone();
        let until = held.round_timeout();
        let freeing = match held.drop_hold() {
            Dropped::StillHeld | Dropped::Left => return Ok(Released::Released),
            Dropped::Expired => return Ok(Released::AlreadyExpired),
            Dropped::Released(freeing) => freeing,
        };
        self.confirmed(&freeing, until).await
    }

    /// Gives it back where nodes would hold it on: also what was lost.
    pub(crate) async fn undo(mut self) -> Result<Released> {
        self.holds = false;
        let until = self.lease.0.round_timeout();
        match self.lease.0.undo() {
            Some(freeing) => self.confirmed(&freeing, until).await,
            None => Ok(Released::AlreadyExpired),
        }
    }

    /// Gives it back, and waits for nothing: nobody has had it.
    pub(crate) fn give_back(mut self) {
        self.holds = false;
        drop(self.lease.0.undo());
    }

    async fn confirmed(&self, freeing: &Freeing, until: Tick) -> Result<Released> {
        self.lease.0.home().can_wait()?;
        match freeing.freed(self.lease.0.host(), until).await {
            Freed::Held => Ok(Released::Released),
            Freed::Gone => Ok(Released::AlreadyExpired),
            Freed::Unknown => {
                freeing.told();
                Err(self.unconfirmed())
            }
        }
    }

    fn unconfirmed(&self) -> Error {
        let message = format!(
            "the release of {} was not confirmed by a quorum; it is tried again in the background, and what it does not reach expires",
            listed(self.0.grant.names())
        );
        Error::new(ErrorKind::Unavailable, message)
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.holds {
            drop(self.lease.0.drop_hold());
        }
    }
}
