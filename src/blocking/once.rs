//! Once per period: the first of many callers gets a permit, and the others get none.

use std::time::Duration;

use super::lock::Lease;
use super::quorum::Quorum;
use super::worker::{Blocking, confirmed, debug_as_async, guard, refuse_within_a_runtime};
use crate::config::LockOptions;
use crate::error::{Error, Result};
use crate::lease::Released;

/// A job that the first of many callers does once in each period. This type is
/// [`quorumlock::Once`](crate::Once) for threads. That type's page has the promises, and says how
/// to choose a period.
///
/// Cheap to clone, `Send` and `Sync`.
///
/// # Examples
/// ```
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
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[derive(Clone)]
pub struct Once(Blocking<crate::Once>);

/// The right to do the work of this period: see [`Once`]. The period goes on even if the permit is
/// dropped or lost. Call [`undo`](Self::undo) to end the period early. A permit also has the
/// methods of [`Lease`].
///
/// # Examples
/// ```
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// use std::time::Duration;
///
/// let report = quorum.once("report", Duration::from_secs(55 * 60));
/// let permit = report.claim()?.expect("nobody had it");
/// // The disk is full.
/// permit.undo()?;
/// assert!(report.claim()?.is_some(), "another caller may try in this period");
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[must_use = "a dropped permit is used up: nobody else gets one in this period"]
pub struct OncePermit(Blocking<crate::OncePermit>, Lease);

impl Quorum {
    /// The job `name`, which is done once in each `period`: see
    /// [`Quorum::once`](crate::Quorum::once).
    #[must_use]
    pub fn once(&self, name: impl AsRef<str>, period: Duration) -> Once {
        Once(self.0.wrap(self.0.inner.once(name, period)))
    }

    /// The job `name`, as by [`once`](Self::once), with its own options.
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with).
    pub fn once_with(&self, name: impl AsRef<str>, period: Duration, options: &LockOptions) -> Result<Once> {
        Ok(Once(self.0.wrap(self.0.inner.once_with(name, period, options)?)))
    }
}

impl Once {
    /// The same job with a note, which nodes keep until the period is over: see
    /// [`Once::describe`](crate::Once::describe).
    #[must_use]
    pub fn describe(&self, note: impl AsRef<str>) -> Self {
        Self(self.0.wrap(self.0.inner.describe(note)))
    }

    /// Returns a permit if no caller has had one in this period, and `None` otherwise: see
    /// [`Once::claim`](crate::Once::claim).
    ///
    /// # Errors
    /// As [`Once::claim`](crate::Once::claim), and `Config` within a Tokio runtime.
    pub fn claim(&self) -> Result<Option<OncePermit>> {
        let permit = self.0.wait(self.0.inner.claim())?;
        Ok(permit.map(|permit| OncePermit::new(self.0.wrap(permit))))
    }

    /// Returns `None` if another caller has had a permit in this period. Otherwise runs `body` as
    /// [`QuorumLock::run`](super::QuorumLock::run) does. Even if the body panics, the permit counts
    /// as used.
    ///
    /// # Errors
    /// As [`claim`](Self::claim), and `Lost` if the permit was lost before the body ended.
    pub fn run<T>(&self, body: impl FnOnce(&Lease) -> T) -> Result<Option<T>> {
        self.claim()?.map(|permit| permit.while_held(body)).transpose()
    }

    /// As [`run`](Self::run), for a body that can fail. If the body returns an error, the permit is
    /// given back, and another caller may try in this period.
    ///
    /// # Errors
    /// As [`QuorumLock::try_run`](super::QuorumLock::try_run).
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

impl OncePermit {
    /// Ends the permit after the work is done: no other caller gets a permit until the period is
    /// over. See [`OncePermit::done`](crate::OncePermit::done).
    ///
    /// # Errors
    /// As [`OncePermit::done`](crate::OncePermit::done), and `Config` within a Tokio runtime. Even
    /// after an error, no other caller gets a permit in this period.
    pub fn done(self) -> Result<Released> {
        self.0.worker.wait(self.0.inner.done())?
    }

    /// Gives the permit back, because the work was not done: another caller may try in this period.
    /// See [`OncePermit::undo`](crate::OncePermit::undo).
    ///
    /// # Errors
    /// `Unavailable` if too few nodes answered in time; `Config` within a Tokio runtime. In both
    /// cases the release goes on in the background, while a handle of the quorum lives.
    pub fn undo(self) -> Result<Released> {
        // A dropped permit counts as used. So give the permit back even if this call is refused.
        if let Err(refused) = refuse_within_a_runtime() {
            self.0.inner.give_back();
            return Err(refused);
        }
        self.0.worker.wait(self.0.inner.undo())?
    }
}

guard!(OncePermit, Lease, done);
debug_as_async!(Once);
