//! The names that callers of one session are acquiring now. No two of these callers acquire the
//! same name at once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::error::{Error, Result};
use crate::lease::Locks;
use crate::node::Name;
use crate::words::listed;

pub(super) struct Asking {
    names: Mutex<HashSet<Name>>,
    changed: Notify,
    /// The most names that the session may hold or acquire at one time.
    most: usize,
}

/// The next step of a caller that wants names.
pub(super) enum Turn<'a> {
    /// Nothing: the session holds all names.
    Held,
    /// Acquire the names that the session does not hold.
    Ask(Asked<'a>),
    /// Wait: another caller is acquiring these names.
    Wait(Vec<Name>),
}

/// Names that no other caller of the session acquires until this value is dropped.
pub(super) struct Asked<'a> {
    asking: &'a Asking,
    pub(super) names: Arc<[Name]>,
}

impl Asking {
    pub(super) fn new(most: usize) -> Self {
        Self { names: Mutex::default(), changed: Notify::new(), most }
    }

    /// Decides the next step of a caller of the session that wants `names`.
    pub(super) fn begin(&self, locks: &Locks, names: &[Name]) -> Result<Turn<'_>> {
        let mut asked = self.names();
        let Some(missing) = locks.missing(names) else {
            drop(asked);
            return Err(locks.lost_error());
        };
        if missing.is_empty() {
            return Ok(Turn::Held);
        }
        let others: Vec<_> = missing.iter().filter(|name| asked.contains(name)).cloned().collect();
        if !others.is_empty() {
            return Ok(Turn::Wait(others));
        }
        if locks.len() + asked.len() + missing.len() > self.most {
            return Err(self.too_many(&missing));
        }
        asked.extend(missing.iter().cloned());
        Ok(Turn::Ask(Asked { asking: self, names: missing.into() }))
    }

    /// Resolves when an acquisition of this session ends after this call, even if that is before
    /// the first poll.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    fn too_many(&self, names: &[Name]) -> Error {
        let (most, names) = (self.most, listed(names));
        Error::config(format!(
            "with {names} this session would hold more than {most} names; unlock some, or use another session"
        ))
    }

    fn names(&self) -> MutexGuard<'_, HashSet<Name>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let mut asked = self.asking.names();
        asked.retain(|name| self.names.binary_search(name).is_err());
        drop(asked);
        self.asking.changed.notify_waiters();
    }
}
