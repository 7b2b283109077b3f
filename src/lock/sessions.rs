//! The sessions of one `Quorum`, by their ids.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::asking::Asking;
use crate::config::Rules;
use crate::lease::Locks;

/// The most names that one session can hold.
pub const MAX_SESSION_NAMES: usize = 10_000;

/// The sessions that have a handle.
#[derive(Default)]
pub(super) struct Sessions {
    known: Mutex<HashMap<Arc<str>, Weak<Core>>>,
    count: AtomicU64,
}

/// The state that all handles of one session share. When the last handle is dropped, this is
/// dropped too, which releases all locks.
pub(super) struct Core {
    pub(super) id: Arc<str>,
    pub(super) rules: Arc<Rules>,
    pub(super) locks: Arc<Locks>,
    pub(super) asking: Asking,
    sessions: Arc<Sessions>,
}

impl Sessions {
    /// Adds a session of `client`, and gives it a new id.
    pub(super) fn add(self: &Arc<Self>, client: &str, rules: Arc<Rules>, locks: Arc<Locks>) -> Arc<Core> {
        let id: Arc<str> = format!("{client}/session/{}", self.count.fetch_add(1, Ordering::Relaxed)).into();
        let asking = Asking::new(MAX_SESSION_NAMES);
        let core = Arc::new(Core { id: id.clone(), rules, locks, asking, sessions: self.clone() });
        self.known().insert(id, Arc::downgrade(&core));
        core
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Core>> {
        self.known().get(id)?.upgrade()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Arc<str>, Weak<Core>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let gone = self.sessions.known().remove(&self.id);
        drop((gone, self.locks.release()));
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("id", &self.id).field("locks", &self.locks).finish_non_exhaustive()
    }
}
