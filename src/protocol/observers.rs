//! Who of this client observes which name.

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
    /// One more observes the name: its number, and what it waits for. If it is the first, nodes are to
    /// `follow` the name.
    pub(super) fn add(&self, name: &Name, follow: impl FnOnce(&Name)) -> (u64, Arc<Notify>) {
        let mut state = self.state();
        let (number, news) = (state.next, Arc::new(Notify::new()));
        state.next += 1;
        // Under the lock: the last observer may be ending.
        if state.of(name).next().is_none() {
            follow(name);
        }
        state.observers.insert((name.clone(), number), news.clone());
        (number, news)
    }

    /// It does not any more. If it was the last, nodes are to `leave` the name.
    pub(super) fn remove(&self, name: &Name, number: u64, leave: impl FnOnce(&Name)) {
        let mut state = self.state();
        state.observers.remove(&(name.clone(), number));
        if state.of(name).next().is_none() {
            leave(name);
        }
    }

    /// Notifies all who observe the name. Whether anybody does.
    pub(super) fn news(&self, name: &Name) -> bool {
        let observers: Vec<_> = self.state().of(name).cloned().collect();
        // Not under the lock: whoever is woken may end at once.
        observers.iter().for_each(|news| news.notify_one());
        !observers.is_empty()
    }

    /// Notifies everyone.
    pub(super) fn all(&self) {
        let observers: Vec<_> = self.state().observers.values().cloned().collect();
        observers.iter().for_each(|news| news.notify_one());
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

impl State {
    fn of(&self, name: &Name) -> impl Iterator<Item = &Arc<Notify>> {
        let all = (name.clone(), 0)..=(name.clone(), u64::MAX);
        self.observers.range(all).map(|(_, news)| news)
    }
}
