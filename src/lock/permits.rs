//! Held permits of a semaphore.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::inner::Inner;
use super::permit_names::Pool;
use super::scoped::Scope;
use crate::error::{Error, ErrorKind, NodeReport, Result};
use crate::lease::{Locks, Released, ensured};
use crate::protocol::{Grant, Open};
use crate::rules::LostReason;

/// One held permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Permit {
    /// The permit's number in the semaphore, from 0. No two holders have the same number at one
    /// time, so the number can select one of several resources, such as devices or ports.
    pub number: u32,
    /// The fencing token: greater than the token of every earlier holder of this permit.
    pub token: u64,
}

/// The permits, or the names of a set, that an acquisition has won so far. Dropping this value
/// releases them.
pub(super) struct Holding {
    pub(super) locks: Arc<Locks>,
}

impl Holding {
    pub(super) fn add(&self, inner: &Inner, grant: Grant, open: Open) -> Result<()> {
        let added = self.locks.add(grant);
        inner.unless_shut(added, open, |_| self.locks.close())?
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        drop(self.locks.release());
    }
}

struct Core {
    inner: Arc<Inner>,
    pool: Arc<Pool>,
    locks: Arc<Locks>,
    permits: Vec<Permit>,
}

/// A view of held permits. Cheap to clone. Keeping the view does not keep the permits.
#[derive(Clone)]
pub struct PermitsLease(Arc<Core>);

impl PermitsLease {
    /// The semaphore's name. If the quorum has a [`key_format`](crate::QuorumBuilder::key_format),
    /// this is the formatted name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.pool.gate.text()
    }

    /// The permits, sorted by number.
    #[must_use]
    pub fn permits(&self) -> &[Permit] {
        &self.0.permits
    }

    /// The remaining validity of the permit that ends first; zero if the permits are no longer
    /// held. The validity counts from just before the request to the nodes was sent, and the drift
    /// is subtracted.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.locks.remaining()
    }

    /// Whether all permits are held now. Never true after a deadline, even if timers are late.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Checks that all permits are held for at least `least` from now.
    ///
    /// # Errors
    /// `Lost` if a permit is not held for that long.
    pub fn ensure(&self, least: Duration) -> Result<()> {
        let held = || format!("the permits of {:?} are", self.name());
        ensured(self.remaining(), least, || self.lost_error(), held)
    }

    /// Waits until the permits are lost. If one permit is lost, all are. Never ends if the permits
    /// are released first. This call watches the deadlines itself, as
    /// [`Lease::lost`](crate::Lease::lost) does. After a loss, each permit keeps others out until
    /// the guard is dropped, or until the permit's own deadline.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LostReason {
        self.0.locks.until_lost().await
    }

    /// Waits until the permits end. Returns why they were lost, or `None` if they were released.
    #[cfg(feature = "blocking")]
    pub(crate) async fn outcome(&self) -> Option<LostReason> {
        self.0.locks.outcome().await
    }

    /// A `CancellationToken` that is cancelled when the permits are lost. See
    /// [`Lease::cancellation`](crate::Lease::cancellation).
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.0.locks.cancellation()
    }

    /// The nodes' replies to the last renewal if it failed; empty if it succeeded or none was sent
    /// yet.
    #[must_use]
    pub fn failed_renewal(&self) -> Vec<NodeReport> {
        self.0.locks.failed_renewal()
    }

    fn lost_error(&self) -> Error {
        let reason = self.0.locks.why_lost().map_or("they were released", LostReason::explanation);
        let message = format!("the permits of {:?} are not held any more: {reason}", self.name());
        Error::new(ErrorKind::Lost, message).with_nodes(self.failed_renewal())
    }
}

impl fmt::Debug for PermitsLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermitsLease")
            .field("name", &self.name())
            .field("permits", &self.permits())
            .field("remaining", &self.remaining())
            .finish()
    }
}

/// Held permits of a [`QuorumSemaphore`](crate::QuorumSemaphore). The permits are renewed together
/// while this guard lives, and released when the guard is dropped.
///
/// **The permits are lost together:** if one permit is lost, all are, and none comes back. The
/// guard has all methods of [`PermitsLease`].
#[must_use = "the permits are released when their guard is dropped"]
pub struct PermitsGuard {
    lease: PermitsLease,
    _holding: Holding,
}

impl PermitsGuard {
    pub(super) fn new(inner: &Arc<Inner>, pool: &Arc<Pool>, holding: Holding) -> Self {
        let locks = holding.locks.clone();
        let of = |(name, token): (Arc<str>, u64)| Some(Permit { number: pool.number(&name)?, token });
        let mut permits: Vec<_> = locks.tokens::<Vec<_>>().into_iter().filter_map(of).collect();
        permits.sort_unstable_by_key(|permit| permit.number);
        let core = Core { inner: inner.clone(), pool: pool.clone(), locks, permits };
        Self { lease: PermitsLease(Arc::new(core)), _holding: holding }
    }

    /// A view of the permits that can be shared. Keeping the view does not keep the permits.
    #[must_use]
    pub fn lease(&self) -> PermitsLease {
        self.lease.clone()
    }

    /// Releases all permits on every node, and waits until a quorum has confirmed. Returns
    /// `AlreadyExpired` if a permit was lost before this call: others may have held it after its
    /// deadline.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time. You need not try again: the releases go on
    /// in the background. On nodes that they do not reach, the holds expire.
    ///
    /// # Cancel safety
    /// Safe: the first poll sends the releases, which go on in the background.
    pub async fn release(self) -> Result<Released> {
        let Core { inner, locks, pool, .. } = &*self.lease.0;
        let Some(freeing) = locks.release() else { return Ok(Released::AlreadyExpired) };
        let what = || format!("permits of {:?}", pool.gate);
        inner.leases.confirmed(&freeing, locks.round_timeout(), what).await
    }
}

impl Scope for PermitsGuard {
    type View = PermitsLease;

    fn view(&self) -> PermitsLease {
        self.lease()
    }

    async fn until_lost(&self) -> Error {
        self.lost().await;
        self.lost_error()
    }

    fn not_lost(&self) -> Result<()> {
        self.ensure(Duration::ZERO)
    }

    async fn give_up(self) -> Result<Released> {
        self.release().await
    }
}

impl Deref for PermitsGuard {
    type Target = PermitsLease;

    fn deref(&self) -> &PermitsLease {
        &self.lease
    }
}

impl fmt::Debug for PermitsGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PermitsGuard").field(&self.lease).finish()
    }
}
