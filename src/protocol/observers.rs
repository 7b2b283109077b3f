//! The observers of names in one client.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::node::Name;

/// All observers of one client, by name and number. Several notifications before an inspection
/// cause one inspection.
#[derive(Debug, Default)]
pub(super) struct Observers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    observers: BTreeMap<(Name, u64), Arc<Notify>>,
}

impl Observers {
    /// Adds an observer of the name. Returns the observer's number, and its notifier. For the first
    /// observer, calls `follow` to subscribe to the name.
    pub(super) fn add(&self, name: &Name, follow: impl FnOnce(&Name)) -> (u64, Arc<Notify>) {
        let mut state = self.state();
        let (number, news) = (state.next, Arc::new(Notify::new()));
        state.next += 1;
        // Call `follow` under the mutex. Otherwise an observer that leaves now might unsubscribe
        // after this subscription.
        if state.of(name).next().is_none() {
            follow(name);
        }
        state.observers.insert((name.clone(), number), news.clone());
        (number, news)
    }

    /// Removes an observer. For the last one, calls `leave` to unsubscribe from the name.
    pub(super) fn remove(&self, name: &Name, number: u64, leave: impl FnOnce(&Name)) {
        let mut state = self.state();
        state.observers.remove(&(name.clone(), number));
        if state.of(name).next().is_none() {
            leave(name);
        }
    }

    /// Notifies all observers of the name. Returns whether there are any.
    pub(super) fn news(&self, name: &Name) -> bool {
        let observers: Vec<_> = self.state().of(name).cloned().collect();
        // Notify outside of the mutex: a woken observer may end at once, which locks the mutex.
        observers.iter().for_each(|news| news.notify_one());
        !observers.is_empty()
    }

    pub(super) fn all(&self) {
        let observers: Vec<_> = self.state().observers.values().cloned().collect();
        observers.iter().for_each(|news| news.notify_one());
    }

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
