//! Once a period: the first of many wins, and the others skip.

use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use super::mutex::QuorumLock;
use super::quorum::Quorum;
use super::scoped::under;
use crate::config::LockOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::host::sleep_until;
use crate::lease::{Lease, LockGuard, Released};
use crate::node::Name;
use crate::protocol::{Inspected, Survey};

/// Something to be done once in each period, by whoever of many comes first: a report, a clean-up,
/// an invoice run.
///
/// The first caller of [`claim`](Self::claim) gets a permit, and everybody else `None` until the
/// period is over: `period` after the nodes granted the claim, by each node's own clock. (A permit
/// that lives long is renewed, and the rest of its period is counted by its holder's monotonic clock
/// then, which may run apart from the nodes' by 1 %.) No client's wall clock matters. Nobody waits.
///
/// **At most once a period:** a process that gets the permit and dies has used it. One whose work
/// failed gives it back by [`undo`](OncePermit::undo), and the next caller may try.
///
/// While the permit lives it is a held lock, renewed as others are; when it is released or dropped,
/// or lost, nothing is released: nodes hold the name until the period is over. So
/// [`inspect`](crate::Quorum::inspect) and `quorumlock status` show who did it, and for how long
/// still nobody else does. Work that takes longer than the period keeps others out until it is done.
///
/// Use a name of its own. While a lock, a reader or a leader holds the name, a claim is refused
/// with `Config`; and a lock on the name waits for the period's end.
/// [`force_release`](crate::Quorum::force_release) lets the next caller try before the period is
/// over; [`revoke`](crate::Quorum::revoke) does not, since it frees nothing.
///
/// **Choose a period that is shorter than the schedule**, such as 55 minutes for an hourly job: a
/// period begins when the nodes grant, a little after the job was started, and one of a whole hour
/// would often outlast the next start.
///
/// **Not promised:** nodes that restart without their data, or are replaced, forget who did it. As
/// long as a quorum remembers, nobody else gets a permit. Where so many forget within one period
/// that a quorum does not know, the next caller gets one before its time. Let the servers persist
/// (`appendonly yes`) where that matters. The same holds for nodes whose clocks are set forward
/// within a period; where they are set back, it lasts longer.
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
    /// What is to be done once in each `period`, under `name`: a period from the ttl to
    /// [`MAX_PERIOD`](crate::MAX_PERIOD). A bad name or period is refused when it is claimed.
    ///
    /// The period may be longer than [`max_ttl`](crate::QuorumBuilder::max_ttl).
    #[must_use]
    pub fn once(&self, name: impl AsRef<str>, period: Duration) -> Once {
        Once { lock: self.lock(name).keeping(period) }
    }

    /// The same with options of its own.
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with).
    pub fn once_with(&self, name: impl AsRef<str>, period: Duration, options: &LockOptions) -> Result<Once> {
        Ok(Once { lock: self.lock_with(name, options)?.keeping(period) })
    }
}

impl Once {
    /// The same with a note on what it is for, kept until the period is over: see
    /// [`QuorumLock::describe`].
    #[must_use]
    pub fn describe(&self, note: impl AsRef<str>) -> Self {
        Self { lock: self.lock.describe(note) }
    }

    /// A permit, if nobody has had one in this period; `None` otherwise. One round trip for whoever
    /// gets it, and one more where the name is held, to see whether a quorum names the holder.
    ///
    /// Where several claim at the same moment, none of them may win a quorum. They give back what
    /// they were granted and try again after a random while, for two round timeouts at most: so the
    /// work of a period is not skipped because many came for it at once. If such a caller dies before
    /// it has given that back, its node grants nothing until the period ends. A node that is gone gets
    /// it back within a minute after it has come back, as long as this process lives.
    ///
    /// # Errors
    /// `Unavailable` if nobody can tell whether the work was done: too few nodes could vote, or no
    /// quorum of them says of anybody that it has a permit. `Config` for a bad name or period, where the name is held as a lock, or
    /// outside of a Tokio runtime; `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// Safe: what was granted is given back in the background, and the period has not begun.
    pub async fn claim(&self) -> Result<Option<OncePermit>> {
        let (inner, name) = self.lock.first()?;
        let rules = self.lock.rules();
        let end = inner.host.now() + rules.longest_try();
        for tries in 0.. {
            if let Some(guard) = self.lock.try_until(end).await? {
                return Ok(Some(OncePermit { guard }));
            }
            let seen = self.seen().await?;
            if let Some(holder) = seen.holder() {
                return used(&name, holder, seen.is_once()).map(|()| None);
            }
            // It was given back since.
            let pause = rules.backoff.pause(tries, inner.leases.voters.round_trip(), inner.host.random());
            let next = inner.host.now() + pause;
            if next >= end {
                break;
            }
            sleep_until(&inner.host, next).await;
        }
        let message = format!("no quorum says who has {name:?} in this period; try again");
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    /// Whom a quorum names: who has it, had it in this period, or holds a lock on its name.
    async fn seen(&self) -> Result<Inspected> {
        let (inner, name) = self.lock.first()?;
        let voters = &inner.leases.voters;
        let survey = Survey::of(voters, &name, self.lock.rules().round_timeout).await;
        Ok(Inspected::new(voters, &survey))
    }

    /// Runs `body` if nobody has had a permit in this period. The body is dropped the moment the
    /// permit is lost; the permit is used all the same.
    ///
    /// # Errors
    /// As [`claim`](Self::claim), and `Lost` if the permit was lost before the body ended.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped. Once it has begun, the permit is used.
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

    /// As [`run`](Self::run), for a body that can fail. If it does, or is dropped because the permit
    /// was lost, the permit is given back, and another caller may try in this period.
    ///
    /// # Errors
    /// As [`run`](Self::run), turned into the body's kind of error, and what the body returns.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped. Once it has begun, the permit is used.
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
    /// // It may be tried again.
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
                    tracing::warn!(%error, "given back without confirmation");
                }
                Err(error)
            }
        }
    }
}

/// Whether who holds the name has done it, or does it: a lock on that name says nothing of it.
fn used(name: &Name, holder: &str, once: bool) -> Result<()> {
    match once {
        true => Ok(()),
        false => Err(Error::config(format!(
            "{name:?} is held as a lock by {holder}, so nobody can tell whether it was done in this period; use another \
             name for what is done once in a period, or for the lock"
        ))),
    }
}

/// The right to do something in this period: see [`Once`]. Its [`token`](Lease::token), how it is
/// [`lost`](Lease::lost) and what remains of it, it has from [`Lease`].
///
/// However it ends, the period goes on, unless it is [undone](Self::undo).
#[derive(Debug)]
#[must_use = "whoever drops it has used it: nobody else gets one in this period"]
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
    /// A view that can be given away; it does not keep the permit.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.guard.lease()
    }

    /// It is done: nobody else does it until the period is over. Waits for no node. `AlreadyExpired` if
    /// the permit had been lost before; nobody else got one unless nodes forgot or somebody forced
    /// it.
    ///
    /// Work that took longer than the period is released as a lock is.
    ///
    /// # Errors
    /// `Unavailable` in that last case, if too few nodes confirmed the release in time.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn done(self) -> Result<Released> {
        self.guard.release().await
    }

    /// It was not done: another caller may try in this period. Also where the permit was lost. Waits
    /// until a quorum has confirmed that.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time. It goes on in the background, as long as this
    /// process lives.
    ///
    /// # Cancel safety
    /// Safe: it has been sent when this is first polled, and goes on in the background.
    pub async fn undo(self) -> Result<Released> {
        self.guard.undo().await
    }

    /// The same, and waits for nothing.
    #[cfg(feature = "blocking")]
    pub(crate) fn give_back(self) {
        self.guard.give_back();
    }
}
