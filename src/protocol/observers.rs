//! Who of this client watches which name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::node::Name;

/// All of a client's observers, by name and number. However often one is notified before it looks,
/// it looks once.
#[derive(Debug, Default)]
pub(super) struct Observers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    observers: BTreeMap<(Name, u64), Arc<Notify>>,
}

impl Observers {
    /// One more watches the name: its number, and what it waits for.
    pub(super) fn add(&self, name: &Name) -> (u64, Arc<Notify>) {
        let mut state = self.state();
        let (number, news) = (state.next, Arc::new(Notify::new()));
        state.next += 1;
        state.observers.insert((name.clone(), number), news.clone());
        (number, news)
    }

    /// It does not any more.
    pub(super) fn remove(&self, name: &Name, number: u64) {
        self.state().observers.remove(&(name.clone(), number));
    }

    /// Notifies all who watch the name. Whether anybody does.
    pub(super) fn changed(&self, name: &Name) -> bool {
        let all = (name.clone(), 0)..=(name.clone(), u64::MAX);
        let watching: Vec<_> = self.state().observers.range(all).map(|(_, news)| news.clone()).collect();
        // Not under the lock: whoever is woken may end at once.
        watching.iter().for_each(|news| news.notify_one());
        !watching.is_empty()
    }

    /// Notifies everyone.
    pub(super) fn all(&self) {
        let watching: Vec<_> = self.state().observers.values().cloned().collect();
        watching.iter().for_each(|news| news.notify_one());
    }

    /// How many there are.
    #[cfg(feature = "unstable")]
    pub(super) fn len(&self) -> usize {
        self.state().observers.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
