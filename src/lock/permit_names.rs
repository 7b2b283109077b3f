//! The names of a semaphore's permits, and the order in which to claim the permits.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::inner::Inner;
use crate::error::{Error, Result};
use crate::node::Name;
use crate::protocol::Occupied;
use crate::rules::Tick;

/// The most permits that a semaphore can have.
pub const MAX_PERMITS: u32 = 1_000;

/// The names of a semaphore: the gate, which is the semaphore's own name, and the permits.
pub(super) struct Pool {
    pub(super) gate: Name,
    pub(super) count: u32,
    /// The permits that nodes reported as held, and when each hold ends.
    busy: Mutex<HashMap<usize, Tick>>,
}

impl Pool {
    pub(super) fn new(inner: &Inner, name: &str, permits: u32) -> Result<Self> {
        let gate = inner.name(name)?;
        if !(1..=MAX_PERMITS).contains(&permits) {
            return Err(Error::config(format!(
                "the semaphore {name:?} has {permits} permits; give it 1 to {MAX_PERMITS}"
            )));
        }
        // The longest name of a permit must be a valid name. Do not apply the key format here: the
        // gate's name already has the format.
        Name::new(&inner.settings.prefix, &format!("{}/{}", gate.text(), permits - 1))?;
        Ok(Self { gate, count: permits, busy: Mutex::default() })
    }

    pub(super) const fn many(&self) -> usize {
        self.count as usize
    }

    /// The name of the permit with this number. Names are made when they are needed: a thousand of
    /// them take up 150 KB and more.
    pub(super) fn permit(&self, number: usize) -> Name {
        self.gate.numbered(number)
    }

    pub(super) fn number(&self, name: &str) -> Option<u32> {
        name.strip_prefix(&**self.gate.text())?.strip_prefix('/')?.parse().ok()
    }

    /// Sorts the permits in `numbers`, most likely free ones first: permits without a reported
    /// hold, then permits of other clients in the order in which their holds end, then permits that
    /// this process uses. Equally likely permits are sorted by number, beginning at a random
    /// number, so that clients do not all claim the same permit.
    pub(super) fn preferred(&self, inner: &Inner, numbers: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let (now, random, all) = (inner.host.now(), inner.host.random(), self.many());
        let start = usize::try_from(random % all as u64).unwrap_or_default();
        let busy = self.busy();
        let likely = |number: usize| {
            let here = inner.queue.is_in_use(&format!("{}/{number}", self.gate.text()));
            let until = busy.get(&number).copied().filter(|&until| until > now);
            (here, until, (number + all - start) % all)
        };
        let mut ordered: Vec<_> = numbers.into_iter().map(|number| (likely(number), number)).collect();
        ordered.sort_unstable();
        ordered.into_iter().map(|(_, number)| number).collect()
    }

    /// Records which of these permits are held at `now`, by the nodes' reports, and returns the
    /// free ones.
    pub(super) fn seen<'a>(&self, now: Tick, said: impl IntoIterator<Item = (usize, &'a Occupied)>) -> Vec<usize> {
        let mut busy = self.busy();
        let mut free = Vec::new();
        for (number, occupied) in said {
            match occupied.held {
                Some(left) => drop(busy.insert(number, now + left)),
                None => {
                    busy.remove(&number);
                    free.push(number);
                }
            }
        }
        free
    }

    pub(super) fn names(&self, numbers: &[usize]) -> Arc<[Name]> {
        let mut names: Vec<_> = numbers.iter().map(|&number| self.permit(number)).collect();
        names.sort_unstable();
        names.into()
    }

    fn busy(&self) -> MutexGuard<'_, HashMap<usize, Tick>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("gate", &self.gate).field("permits", &self.count).finish_non_exhaustive()
    }
}
