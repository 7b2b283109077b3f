//! Once a period: the first of many wins, and the others skip.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::confirmed::confirmed;
use super::lease::Lease;
use super::quorum::Quorum;
use super::worker::{Worker, refuse_within_a_runtime};
use crate::config::LockOptions;
use crate::error::{Error, Result};
use crate::lease::Released;
use crate::lock::{Once as Job, OncePermit as Permit};

/// Something to be done once in each period, by whoever of many comes first:
/// [`quorumlock::Once`](crate::Once) for threads, which says what is promised and how to choose a
/// period.
///
/// Cheap to clone, `Send` and `Sync`.
///
/// # Examples
/// ```
/// # fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let report = quorum.once("report", Duration::from_secs(55 * 60));
/// if let Some(permit) = report.claim()? {
///     // Send permit.token() with every write, as with a lock.
///     println!("writing the report with token {}", permit.token());
///     permit.done()?;
/// }
/// assert!(report.claim()?.is_none(), "it was done in this period");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Once {
    job: Job,
    worker: Arc<Worker>,
}

impl Quorum {
    /// What is to be done once in each `period`, under `name`: see
    /// [`Quorum::once`](crate::Quorum::once).
    #[must_use]
    pub fn once(&self, name: impl AsRef<str>, period: Duration) -> Once {
        Once { job: self.0.quorum.once(name, period), worker: self.0.clone() }
    }

    /// The same with options of its own.
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with).
    pub fn once_with(&self, name: impl AsRef<str>, period: Duration, options: &LockOptions) -> Result<Once> {
        Ok(Once { job: self.0.quorum.once_with(name, period, options)?, worker: self.0.clone() })
    }
}

impl Once {
    /// The same with a note on what it is for: see [`Once::describe`](crate::Once::describe).
    #[must_use]
    pub fn describe(&self, note: impl AsRef<str>) -> Self {
        Self { job: self.job.describe(note), worker: self.worker.clone() }
    }

    /// A permit, if nobody has had one in this period; `None` otherwise: see
    /// [`Once::claim`](crate::Once::claim).
    ///
    /// # Errors
    /// As [`Once::claim`](crate::Once::claim), and `Config` within a Tokio runtime.
    pub fn claim(&self) -> Result<Option<OncePermit>> {
        let permit = self.worker.wait(self.job.claim())??;
        Ok(permit.map(|permit| OncePermit::new(permit, self.worker.clone())))
    }

    /// Runs `body` if nobody has had a permit in this period; `None` otherwise.
    ///
    /// A thread cannot be stopped: a body that runs for long asks its lease
    /// ([`ensure`](crate::Lease::ensure), [`lost`](Lease::lost)) whether to go on. The permit is
    /// used, also if the body panics.
    ///
    /// # Errors
    /// As [`claim`](Self::claim), and `Lost` if the permit was lost before the body ended.
    pub fn run<T>(&self, body: impl FnOnce(&Lease) -> T) -> Result<Option<T>> {
        let Some(permit) = self.claim()? else { return Ok(None) };
        let output = body(&permit);
        permit.ensure(Duration::ZERO)?;
        confirmed(permit.done());
        Ok(Some(output))
    }

    /// As [`run`](Self::run), for a body that can fail. If it does, the permit is given back, and
    /// another caller may try in this period.
    ///
    /// # Errors
    /// As [`run`](Self::run), turned into the body's kind of error, and what the body returns.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> quorumlock::Result<()> {
    /// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
    /// use std::time::Duration;
    ///
    /// type Failed = Box<dyn std::error::Error>;
    ///
    /// let report = quorum.once("report", Duration::from_secs(55 * 60));
    /// let failed = report.try_run(|_| Err::<(), Failed>("disk full".into()));
    /// assert!(failed.is_err());
    /// // It may be tried again.
    /// assert!(report.try_run(|_| Ok::<_, Failed>(())).is_ok_and(|done| done.is_some()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_run<T, E: From<Error>>(&self, body: impl FnOnce(&Lease) -> Result<T, E>) -> Result<Option<T>, E> {
        let Some(permit) = self.claim()? else { return Ok(None) };
        match body(&permit) {
            Ok(output) => {
                permit.ensure(Duration::ZERO)?;
                confirmed(permit.done());
                Ok(Some(output))
            }
            Err(error) => {
                confirmed(permit.undo());
                Err(error)
            }
        }
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.job, f)
    }
}

/// The right to do something in this period: see [`Once`]. How it is [`lost`](Lease::lost), its
/// [`token`](crate::Lease::token) and what remains of it, it has from [`Lease`].
///
/// However it ends, the period goes on, unless it is [undone](Self::undo).
///
/// # Examples
/// ```
/// # fn main() -> quorumlock::Result<()> {
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let report = quorum.once("report", Duration::from_secs(55 * 60));
/// let permit = report.claim()?.expect("nobody had it");
/// // The disk is full.
/// permit.undo()?;
/// assert!(report.claim()?.is_some(), "another caller may try in this period");
/// # Ok(())
/// # }
/// ```
#[must_use = "whoever drops it has used it: nobody else gets one in this period"]
pub struct OncePermit {
    // Dropped before the runtime that it lives on.
    permit: Permit,
    lease: Lease,
}

impl OncePermit {
    fn new(permit: Permit, worker: Arc<Worker>) -> Self {
        let lease = Lease::new(permit.lease(), worker);
        Self { permit, lease }
    }

    /// A view that can be given away; it does not keep the permit.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// It is done: nobody else does it until the period is over. See
    /// [`OncePermit::done`](crate::OncePermit::done).
    ///
    /// # Errors
    /// As [`OncePermit::done`](crate::OncePermit::done); `Config` within a Tokio runtime, and it is
    /// done all the same.
    pub fn done(self) -> Result<Released> {
        let Self { permit, lease } = self;
        lease.worker().wait(permit.done())?
    }

    /// It was not done: another caller may try in this period. See
    /// [`OncePermit::undo`](crate::OncePermit::undo).
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time; `Config` within a Tokio runtime. It goes on
    /// in the background then, as long as this process lives.
    pub fn undo(self) -> Result<Released> {
        let Self { permit, lease } = self;
        if let Err(refused) = refuse_within_a_runtime() {
            permit.give_back();
            return Err(refused);
        }
        lease.worker().wait(permit.undo())?
    }
}

impl Deref for OncePermit {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl fmt::Debug for OncePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.permit, f)
    }
}
