//! The guard of a held lock, and the lease, which is a view of the lock.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::held::{Dropped, Held, Leases, Sent};
use super::schedule::Timed;
use super::watch::{self, Watched};
use crate::config::Rules;
use crate::error::{Error, ErrorKind, NodeReport, Result};
use crate::host::before;
use crate::node::{Name, Predecessor};
use crate::protocol::{Grant, ReleaseSet};
use crate::rules::tally::Freed;
use crate::rules::{LostReason, Tick};
use crate::words::{about, exact, listed};

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Released {
    /// The lock was held until this release. If the lock has other guards
    /// ([`reenter`](LockGuard::reenter)), these still hold it.
    Released,
    /// The lock was lost before this release. Others may have held it after its deadline.
    AlreadyExpired,
}

impl Leases {
    /// Waits until a quorum has confirmed these releases, or until `until`. `what` returns the text
    /// for the released locks in the error.
    pub(crate) async fn confirmed(
        &self,
        freeing: &ReleaseSet,
        until: Tick,
        what: impl FnOnce() -> String,
    ) -> Result<Released> {
        self.home.can_wait()?;
        match freeing.freed(&self.voters.host, until).await {
            Freed::Held => Ok(Released::Released),
            Freed::Gone => Ok(Released::AlreadyExpired),
            Freed::Unknown => {
                freeing.told();
                let message = format!(
                    "the release of {} was not confirmed by a quorum; the release is tried again in the background. A node that it \
                     does not reach holds the lock until the ttl ends",
                    what()
                );
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }
}

/// A lock that this process does not renew any more, and has not released.
pub(crate) struct HandedOn {
    pub(crate) name: Name,
    pub(crate) lock: Predecessor,
    /// The highest ballot of the owner's asks and pushes.
    pub(crate) highest: u64,
    /// Until when the lock is valid: the time since the Unix epoch, by the wall clock.
    pub(crate) until: Duration,
    /// The hash of the client's list.
    pub(crate) list: Arc<str>,
}

/// A view of a held lock. It is cheap to clone, and does not keep the lock held.
#[derive(Clone)]
pub struct Lease(Arc<Held>);

impl Lease {
    /// The lock's name. If the quorum has a [`key_format`](crate::QuorumBuilder::key_format), this
    /// is the formatted name. For a lock on several names, this is the first name in sorted order.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name().text()
    }

    /// The names of the lock, sorted and without duplicates. Only a lock of
    /// [`Quorum::lock_all`](crate::Quorum::lock_all) may have several names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.grant.names().iter().map(|name| &**name.text())
    }

    /// The fencing token: greater than the token of every earlier holder of this lock. Storage
    /// should reject tokens below the highest token that it has seen. It is then safe even from a
    /// paused holder that has not noticed the loss of the lock.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.0.grant.token()
    }

    /// The remaining validity; zero if the lock is not held any more. The validity counts from just
    /// before the request to the nodes was sent, and the drift is subtracted.
    ///
    /// A lock that nodes handed over to a waiter begins with a validity of 3 s and four round trips
    /// at most. The first renewal brings the whole validity. It is sent after 100 ms, or after a
    /// round trip if that is longer. But it is sent at the latest after a quarter of the first
    /// validity. If you need a longer validity from the beginning, set
    /// [`min_validity`](crate::LockOptions::min_validity).
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Whether the lock is held now. Never true after the deadline, even if timers are late.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Checks that the lock is held for at least `least` from now. Call this before a write that
    /// may take that long.
    ///
    /// # Errors
    /// `Lost` if the lock is not held for that long.
    pub fn ensure(&self, least: Duration) -> Result<()> {
        let held = || format!("the lock on {} is", listed(self.0.grant.names()));
        ensured(self.remaining(), least, || self.0.lost_error(), held)
    }

    /// Waits until the lock is lost. Never ends if the lock is released first.
    ///
    /// A lock that is lost before its deadline keeps others out until its last guard is dropped, or
    /// until the deadline. So end the work first, and then drop the guard. If you acquire the lock
    /// again, drop the guard first: the new acquisition would wait for the old guard.
    ///
    /// This call watches the deadline on the runtime that polls it. So it ends in time even if the
    /// quorum's own runtime has ended. Outside of any Tokio runtime, the call has no timer, and
    /// ends when the quorum's runtime notices the loss.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LostReason {
        watch::lost(&*self.0).await
    }

    /// Waits until the lock has ended. Returns why it was lost, or `None` if it was released.
    #[cfg(feature = "blocking")]
    pub(crate) async fn outcome(&self) -> Option<LostReason> {
        watch::outcome(&*self.0).await
    }

    /// A `CancellationToken` that is cancelled when the lock is lost, but not when it is released.
    ///
    /// If the caller is not on the quorum's runtime, this call starts a task on the caller's
    /// runtime. The task watches the lock until the lock ends or the returned value is cancelled.
    /// Otherwise the quorum's runtime cancels the returned value, but only while this runtime runs.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        watch::cancellation(&self.0)
    }

    /// The nodes' replies to the last renewal if it failed; empty if it succeeded or none was sent
    /// yet.
    #[must_use]
    pub fn failed_renewal(&self) -> Vec<NodeReport> {
        self.0.failed_renewal()
    }

    /// The owner that nodes store for this name: for simulations.
    #[cfg(feature = "unstable")]
    #[doc(hidden)]
    #[must_use]
    pub fn owner(&self, name: &str) -> &str {
        self.0.grant.owner_of(name)
    }

    pub(crate) fn lost_error(&self) -> Error {
        self.0.lost_error()
    }

    /// Changes the holder's note, and waits until a quorum has stored the note.
    pub(crate) async fn say(&self, says: Arc<str>) -> Result<()> {
        self.0.leases.home.can_wait()?;
        let sent = self.0.say(says)?;
        self.extended(sent, || format!("the note on {} was not stored", listed(self.0.grant.names()))).await
    }

    /// Waits until a quorum has extended the lock by this renewal. `undone` returns the first words
    /// of the message otherwise.
    async fn extended(&self, sent: Option<Sent>, undone: impl Fn() -> String) -> Result<()> {
        let until = self.0.round_timeout();
        let Some((renewing, told)) = sent else {
            if !self.is_held() {
                return Err(self.lost_error());
            }
            let message = format!("{}: the lock is no longer renewed", undone());
            return Err(Error::new(ErrorKind::Unavailable, message));
        };
        match before(self.0.host(), until, told).await {
            Some(Ok(true)) => Ok(()),
            _ if !self.is_held() => Err(self.lost_error()),
            _ => {
                let message = format!("{}: no quorum confirmed it", undone());
                Err(Error::new(ErrorKind::Unavailable, message).with_nodes(renewing.reports()))
            }
        }
    }

    /// A reference that does not keep the lock held.
    pub(crate) fn downgrade(&self) -> WeakLease {
        WeakLease(Arc::downgrade(&self.0))
    }

    /// See [`LockGuard::reenter`].
    pub(crate) fn reenter(&self) -> Result<LockGuard> {
        self.0.add_hold()?;
        Ok(LockGuard { lease: self.clone(), holds: true })
    }
}

/// Returns an error if less than `least` remains. `held` returns the first words of the message,
/// such as "the lock is".
pub(crate) fn ensured(
    remaining: Duration,
    least: Duration,
    lost: impl FnOnce() -> Error,
    held: impl FnOnce() -> String,
) -> Result<()> {
    if remaining.is_zero() {
        return Err(lost());
    }
    if remaining < least {
        let (held, remaining, least) = (held(), about(remaining), exact(least));
        return Err(Error::new(ErrorKind::Lost, format!("{held} held for {remaining} more, less than {least}")));
    }
    Ok(())
}

/// A reference to a lock that may have ended.
#[derive(Debug, Default)]
pub(crate) struct WeakLease(Weak<Held>);

impl WeakLease {
    /// The lock, if it is still held.
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

/// A held lock. It is renewed while the guard lives, and released when the guard is dropped. A lost
/// lock is released when its guard is dropped, or at its deadline if that is earlier. It keeps
/// others out until then. (A shutdown of the quorum releases it at once.)
///
/// Dropping the guard sends the release and does not wait. Prefer [`release`](Self::release), which
/// returns whether the lock was held to the end.
///
/// **If the guard is dropped as `main` returns, also by `?`, the release may not be sent:** the
/// runtime may end first. In this case nodes hold the lock until its ttl ends, and a warning is
/// logged. Use
/// [`try_run`](crate::QuorumLock::try_run), or call [`Quorum::shutdown`](crate::Quorum::shutdown)
/// before `main` returns. (With redis-rs, the release is sent before the runtime ends.)
///
/// [`token`](Lease::token), [`remaining`](Lease::remaining), [`lost`](Lease::lost) and others are
/// methods of [`Lease`], which a guard derefs to.
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

    /// A view of the lock that can be shared. Keeping the view does not keep the lock held.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// This lock, for an owner that takes it over.
    pub(crate) fn predecessor(&self) -> Predecessor {
        let grant = &self.lease.0.grant;
        Predecessor { owner: grant.owner().into(), token: grant.token() }
    }

    /// Stops renewals. If a renewal is under way, its result does not end the lock.
    pub(crate) fn hold_still(&self) {
        self.lease.0.hold_still();
    }

    /// Loses the lock: nodes replied that it was revoked.
    pub(crate) fn revoked(&self) {
        self.lease.0.lose(LostReason::Revoked);
    }

    /// Holds the lock once more, and returns a second guard. The last guard releases the lock.
    ///
    /// This call sends nothing. Nodes get the number of guards with the next renewal. After that,
    /// [`Quorum::inspect`](crate::Quorum::inspect) shows this number.
    ///
    /// # Errors
    /// `Lost` if the lock is not held any more.
    pub fn reenter(&self) -> Result<Self> {
        self.lease.reenter()
    }

    /// Gives up this guard's hold. If it is the last guard, releases the lock on every node, and
    /// waits until a quorum has confirmed the release.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time. You need not try again: the release goes on
    /// in the background, and a hold that it does not reach expires.
    ///
    /// # Cancel safety
    /// Safe: the first poll sends the release, which goes on in the background.
    pub async fn release(mut self) -> Result<Released> {
        self.holds = false;
        let held = &self.lease.0;
        let until = held.round_timeout();
        match held.drop_hold() {
            Dropped::Kept => Ok(Released::Released),
            Dropped::Expired => Ok(Released::AlreadyExpired),
            Dropped::Released(freeing) => held.leases.confirmed(&freeing, until, || listed(held.grant.names())).await,
        }
    }

    /// Renews the lock, and then ends this guard without a release, so that another owner can take
    /// over the lock.
    pub(crate) async fn hand_on(mut self) -> Result<HandedOn, (Error, Self)> {
        let held = self.lease.0.clone();
        let sent = match held.leases.home.can_wait().and_then(|()| held.may_hand_on()) {
            Ok(()) => held.extend(),
            Err(error) => return Err((error, self)),
        };
        let undone = || format!("the lock on {} did not become a ticket", listed(held.grant.names()));
        if let Err(error) = self.lease.extended(sent, undone).await {
            return Err((error, self));
        }
        // Read the clock first: this task may stand still before it knows how much time is left.
        let now = held.leases.voters.host.wall();
        match held.hand_on() {
            Ok(remaining) => {
                self.holds = false;
                let (lock, highest) = (self.predecessor(), held.grant.won().highest);
                let (name, list) = (held.name().clone(), held.leases.voters.claimed.clone());
                Ok(HandedOn { name, lock, highest, until: now + remaining, list })
            }
            Err(error) => Err((error, self)),
        }
    }

    /// Releases the lock even if it was lost, and even if nodes would hold its names for the rest
    /// of a period.
    pub(crate) async fn undo(mut self) -> Result<Released> {
        self.holds = false;
        let held = &self.lease.0;
        let until = held.round_timeout();
        match held.undo() {
            Some(freeing) => held.leases.confirmed(&freeing, until, || listed(held.grant.names())).await,
            None => Ok(Released::AlreadyExpired),
        }
    }

    /// Like `undo`, but does not wait for the nodes.
    pub(crate) fn give_back(mut self) {
        self.holds = false;
        drop(self.lease.0.undo());
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.holds {
            drop(self.lease.0.drop_hold());
        }
    }
}
