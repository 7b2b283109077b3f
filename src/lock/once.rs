//! Once per period: in each period, the first of many callers gets a permit, and the others get
//! none.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::mutex::QuorumLock;
use super::quorum::Quorum;
use super::scoped::under;
use crate::config::{LockOptions, Rules};
use crate::error::{Error, ErrorKind, Result};
use crate::host::sleep_until;
use crate::lease::{Lease, LockGuard, Released};
use crate::node::Name;
use crate::protocol::{Inspected, Survey};
use crate::words::exact;

/// The longest period of a [`Once`]: 366 days.
pub const MAX_PERIOD: Duration = Duration::from_secs(366 * 86_400);

/// A job, such as a report, that the first of many callers does once in each period.
///
/// The first caller of [`claim`](Self::claim) gets a permit. All others get `None` until the period
/// is over, and none of them waits. The period ends `period` after the nodes granted the claim, by
/// each node's own clock. No client's wall clock matters. (When a holder renews its permit, it
/// counts the rest of the period by its monotonic clock, which may run apart from the nodes' clocks
/// by 1 %.)
///
/// **At most once per period:** a process that gets the permit and dies has used up the permit. If
/// the work fails, call [`undo`](OncePermit::undo): it gives the permit back, and the next caller
/// may try.
///
/// While the permit lives, it is a held lock, and is renewed like other locks. Even after the
/// permit is released, dropped or lost, the nodes hold the name until the period is over. So
/// [`inspect`](crate::Quorum::inspect) and `quorumlock status` show which owner got the permit, and
/// how much longer the period lasts. If the work takes longer than the period, other callers get no
/// permit until the work is done.
///
/// Give the job a name of its own. While the name is held by a lock, a reader or a leader, a claim
/// fails with `Config`. While the period lasts, an acquisition of a lock on the name waits.
/// To let the next caller try before the period is over, call
/// [`force_release`](crate::Quorum::force_release). [`revoke`](crate::Quorum::revoke) frees
/// nothing, so the period goes on.
///
/// **Choose a period that is shorter than the schedule**, such as 55 minutes for an hourly job. A
/// period begins when the nodes grant the claim, a little after the scheduled start. So a period of
/// a whole hour would often end a little after the next scheduled start.
///
/// **Not promised:** nodes that restart without their data, or are replaced, forget the permit. If
/// fewer nodes than a quorum remember the permit, the next caller may get a permit too early. If
/// that matters, let the servers save their data (`appendonly yes`). A permit can also come too
/// early if clocks of nodes are set forward within a period. If the clocks are set back, the period
/// lasts longer.
///
/// Cheap to clone, `Send` and `Sync`.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let report = quorum.once("report", Duration::from_secs(55 * 60));
/// if let Some(permit) = report.claim().await? {
///     // Send permit.token() with every write, as with a lock.
///     println!("writing the report with token {}", permit.token());
///     permit.done().await?;
/// }
/// assert!(report.claim().await?.is_none(), "it was done in this period");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Once {
    lock: QuorumLock,
}

impl Quorum {
    /// The job `name`, which is done once in each `period`. The period must lie between the ttl and
    /// [`MAX_PERIOD`](crate::MAX_PERIOD). A bad name or period is refused at the first claim.
    ///
    /// The period may be longer than [`max_ttl`](crate::QuorumBuilder::max_ttl).
    #[must_use]
    pub fn once(&self, name: impl AsRef<str>, period: Duration) -> Once {
        Once { lock: self.lock(name).keeping(period) }
    }

    /// The job `name`, as by [`once`](Self::once), with its own options.
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with).
    pub fn once_with(&self, name: impl AsRef<str>, period: Duration, options: &LockOptions) -> Result<Once> {
        Ok(Once { lock: self.lock_with(name, options)?.keeping(period) })
    }
}

impl QuorumLock {
    /// The same lock, but nodes hold its names for `period`, even if the lease ends earlier.
    fn keeping(mut self, period: Duration) -> Self {
        let ttl = self.rules.validity.ttl();
        self.names = self.names.and_then(|names| checked_period(period, ttl).map(|()| names));
        self.rules = Arc::new(Rules { period: Some(period), ..(*self.rules).clone() });
        self
    }
}

/// Returns an error unless nodes may hold a name for this period.
fn checked_period(period: Duration, ttl: Duration) -> Result<(), String> {
    if period < ttl {
        let (period, ttl) = (exact(period), exact(ttl));
        return Err(format!(
            "the period is {period}, shorter than the ttl ({ttl}); use a longer period, or a shorter ttl"
        ));
    }
    if period > MAX_PERIOD {
        return Err(format!("the period is {}; use at most {} days", exact(period), MAX_PERIOD.as_secs() / 86_400));
    }
    Ok(())
}

impl Once {
    /// The same job with a note, which nodes keep until the period is over: see
    /// [`QuorumLock::describe`].
    #[must_use]
    pub fn describe(&self, note: impl AsRef<str>) -> Self {
        Self { lock: self.lock.describe(note) }
    }

    /// Returns a permit if no caller has had one in this period, and `None` otherwise. To win a
    /// permit takes one round trip. If the name is held, a second round trip shows whether a quorum
    /// names one holder, and whether this holder has a permit or a lock.
    ///
    /// If several callers claim at the same moment, perhaps none wins a quorum. In this case they
    /// release their votes, and try again after random pauses, for two round timeouts at most. So
    /// the job is not skipped if many callers come at once. If a caller dies before it releases a
    /// vote, the node that gave the vote grants no other claim until the period ends. An
    /// unreachable node gets the release within a minute after the node is back, if the [`Quorum`]
    /// lives until then.
    ///
    /// # Errors
    /// `Unavailable` if it is unknown whether a caller has had the permit: too few nodes could
    /// vote, or no quorum names one holder. `Config` for a bad name or period, if the name is held
    /// as a lock, or outside of a Tokio runtime; `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// Safe: granted votes are released in the background, so the period does not begin.
    pub async fn claim(&self) -> Result<Option<OncePermit>> {
        let (inner, name) = self.lock.first()?;
        let (rules, voters) = (&self.lock.rules, &inner.leases.voters);
        let end = inner.host.now() + rules.longest_try();
        for tries in 0.. {
            if let Some(guard) = self.lock.try_until(end).await? {
                return Ok(Some(OncePermit { guard }));
            }
            // Another owner holds the name: as a permit of this period, or as a lock.
            let survey = Survey::of(voters, &name, rules.round_timeout).await;
            let seen = Inspected::new(voters, &survey);
            match seen.holder() {
                Some(_) if seen.is_once() => return Ok(None),
                Some(holder) => return Err(misused(&name, holder)),
                None => {}
            }
            // No quorum names a holder: votes are split, or the permit was just given back.
            let pause = rules.backoff.pause(tries, voters.round_trip(), inner.host.random());
            let next = inner.host.now() + pause;
            if next >= end {
                break;
            }
            sleep_until(&inner.host, next).await;
        }
        let message = format!("no quorum names the holder of {name:?} in this period; try again");
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    /// Runs `body` if no caller has had a permit in this period; otherwise returns `None`. If the
    /// permit is lost, the body is dropped, and the permit counts as used.
    ///
    /// # Errors
    /// As [`claim`](Self::claim), and `Lost` if the permit was lost before the body ended.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped. Once the body has begun, the permit counts as used.
    pub async fn run<F, Fut>(&self, body: F) -> Result<Option<Fut::Output>>
    where
        F: FnOnce(Lease) -> Fut,
        Fut: Future,
    {
        match self.claim().await? {
            Some(permit) => under(permit.guard, body).await.map(Some),
            None => Ok(None),
        }
    }

    /// As [`run`](Self::run), for a body that can fail. If the body fails, or if the permit is lost
    /// before the body has ended, the permit is given back, and another caller may try in this
    /// period.
    ///
    /// # Errors
    /// Those of [`run`](Self::run), converted to the body's error type, and the body's own.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped. Once the body has begun, the permit counts as used.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// let report = quorum.once("report", Duration::from_secs(55 * 60));
    /// let failed = report.try_run(|_| async { Err::<(), _>(std::io::Error::other("disk full").into()) }).await;
    /// assert!(matches!(failed, Err(Failed::Work(_))));
    /// // The next caller may try.
    /// assert!(report.try_run(|_| async { Ok::<_, Failed>(()) }).await.is_ok_and(|done| done.is_some()));
    ///
    /// #[derive(Debug)]
    /// enum Failed {
    ///     Lock(quorumlock::Error),
    ///     Work(std::io::Error),
    /// }
    /// # impl From<quorumlock::Error> for Failed {
    /// #     fn from(error: quorumlock::Error) -> Self { Self::Lock(error) }
    /// # }
    /// # impl From<std::io::Error> for Failed {
    /// #     fn from(error: std::io::Error) -> Self { Self::Work(error) }
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_run<F, Fut, T, E>(&self, body: F) -> Result<Option<T>, E>
    where
        F: FnOnce(Lease) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        let Some(permit) = self.claim().await? else { return Ok(None) };
        let lease = permit.guard.lease();
        let done = tokio::select! {
            biased;
            _ = lease.lost() => Err(lease.lost_error().into()),
            done = body(lease.clone()) => done,
        };
        match done {
            Ok(_) if !lease.is_held() => Err(lease.lost_error().into()),
            Ok(done) => Ok(Some(done)),
            Err(error) => {
                if let Err(error) = permit.undo().await {
                    tracing::warn!(%error, "a job of a period was given back, and no quorum confirmed this");
                }
                Err(error)
            }
        }
    }
}

/// The error if the name is held as a lock, so that it is unknown whether the work was done.
fn misused(name: &Name, holder: &str) -> Error {
    Error::config(format!(
        "{name:?} is held as a lock by {holder}, so nobody can tell whether the work was done in this period; use \
         different names for the work and for the lock"
    ))
}

/// The right to do the work of this period: see [`Once`]. A permit has all methods of [`Lease`],
/// such as [`token`](Lease::token) and [`lost`](Lease::lost).
///
/// The period goes on even if the permit is dropped or lost. To end the period early, call
/// [`undo`](Self::undo).
#[derive(Debug)]
#[must_use = "a dropped permit is used up: nobody else gets one in this period"]
pub struct OncePermit {
    guard: LockGuard,
}

impl Deref for OncePermit {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.guard
    }
}

impl OncePermit {
    /// A view of the permit that can be shared. Keeping the view does not keep the permit.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.guard.lease()
    }

    /// Reports the work as done: no other caller gets a permit until the period is over. Returns
    /// `AlreadyExpired` if the permit was lost before this call. Even in this case, no other caller
    /// got a permit in this period, unless nodes forgot the permit or `force_release` freed the
    /// name.
    ///
    /// Before the end of the period, this call waits for no node. After the end of the period, it
    /// releases the name, and waits until a quorum has confirmed.
    ///
    /// # Errors
    /// `Unavailable` if the period is over, and too few nodes confirmed the release in time.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn done(self) -> Result<Released> {
        self.guard.release().await
    }

    /// Reports the work as not done, so that another caller may try in this period. Works even if
    /// the permit was lost. Waits until a quorum has confirmed.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time. The release goes on in the background,
    /// while the quorum lives.
    ///
    /// # Cancel safety
    /// Safe: the first poll sends the release, which goes on in the background.
    pub async fn undo(self) -> Result<Released> {
        self.guard.undo().await
    }

    /// Like `undo`, but does not wait for the nodes.
    #[cfg(feature = "blocking")]
    pub(crate) fn give_back(self) {
        self.guard.give_back();
    }
}
