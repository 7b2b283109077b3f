//! One table of the coming events of all leases of a `Quorum`, ordered by time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::future::BoxFuture;
use tokio::sync::Notify;

#[cfg(feature = "testing")]
use crate::node::Name;
use crate::protocol::PendingRelease;
use crate::rules::{LostReason, NodeSet, Tick};

/// A lock, or the locks of a session, with its timers.
pub(super) trait Timed: Send + Sync {
    /// Until when the lock is held if it is not renewed; `None` if the lock has ended.
    fn deadline(&self) -> Option<Tick>;

    /// How many operations the next renewal sends to each node: one for each name.
    fn sends(&self) -> usize;

    /// Renews the lock, and records the result. The future does not keep the lock alive.
    fn renewal(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// Call this when the deadline's timer has fired.
    fn deadline_reached(self: Arc<Self>);

    /// Notes that these nodes are doubted: they may have forgotten grants.
    fn doubted(self: Arc<Self>, nodes: NodeSet);

    /// Loses the lock for good.
    fn lose(&self, reason: LostReason);

    #[cfg(feature = "testing")]
    fn holds(&self, name: &Name) -> bool;
}

/// An event that is due at a certain time. References to leases are weak: no timer keeps a dropped
/// lease alive.
#[derive(Debug)]
pub(super) enum Event<L: ?Sized> {
    /// A lease is to be renewed.
    Renew(Weak<L>),
    /// A lease's deadline has come.
    Expire(Weak<L>),
    /// A release is to be tried again.
    Release(Arc<dyn PendingRelease>),
}

/// An event's place in the table.
pub(super) type Key = (Tick, u64);

/// The table of the events of leases `L`. Adding an event seldom wakes the monitor's loop, because
/// the loop usually waits for an earlier event.
pub(super) struct Schedule<L: ?Sized> {
    table: Mutex<Table<L>>,
    changed: Notify,
}

struct Table<L: ?Sized> {
    events: BTreeMap<Key, Event<L>>,
    armed: Tick,
    count: u64,
}

impl<L: ?Sized> Schedule<L> {
    pub(super) fn new() -> Self {
        let table = Table { events: BTreeMap::new(), armed: Tick::NEVER, count: 0 };
        Self { table: Mutex::new(table), changed: Notify::new() }
    }

    pub(super) fn add(&self, at: Tick, event: Event<L>) -> Key {
        let mut table = self.table();
        table.count += 1;
        let key = (at, table.count);
        table.events.insert(key, event);
        let sooner = at < table.armed;
        drop(table);
        if sooner {
            self.changed.notify_one();
        }
        key
    }

    /// Sets a timer, and removes the timer that it replaces.
    pub(super) fn set(&self, timer: &mut Option<Key>, at: Tick, event: Event<L>) {
        let before = timer.replace(self.add(at, event));
        before.into_iter().for_each(|before| self.remove(before));
    }

    /// Removes a timer, if it is set.
    pub(super) fn clear(&self, timer: &mut Option<Key>) {
        timer.take().into_iter().for_each(|before| self.remove(before));
    }

    fn remove(&self, key: Key) {
        // Drop the event outside of the mutex: it may hold the last reference to a release.
        let removed = self.table().events.remove(&key);
        drop(removed);
    }

    /// Takes the events that are due at `now`. Also returns when the next event is due.
    pub(super) fn due(&self, now: Tick) -> (Vec<Event<L>>, Tick) {
        let mut table = self.table();
        let later = table.events.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut table.events, later);
        table.armed = table.events.first_key_value().map_or(Tick::NEVER, |((at, _), _)| *at);
        (due.into_values().collect(), table.armed)
    }

    /// The leases that have an event. Each live lease has one, except while the monitor's loop
    /// handles the events that it has taken.
    pub(super) fn leases(&self) -> Vec<Weak<L>> {
        let lease = |event: &Event<L>| match event {
            Event::Renew(lease) | Event::Expire(lease) => Some(lease.clone()),
            Event::Release(_) => None,
        };
        self.table().events.values().filter_map(lease).collect()
    }

    /// Waits until an event is added that is due before the event for which the loop waits.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// How many events there are.
    pub(super) fn len(&self) -> usize {
        self.table().events.len()
    }

    fn table(&self) -> MutexGuard<'_, Table<L>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L: ?Sized> fmt::Debug for Schedule<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedule").field("events", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use futures::FutureExt;

    fn at(seconds: u64) -> Tick {
        Tick::new(Duration::from_secs(seconds))
    }

    #[test]
    fn due_events_come_in_order_and_once() {
        let schedule = Schedule::<()>::new();
        let gone = schedule.add(at(1), Event::Renew(Weak::new()));
        schedule.add(at(3), Event::Expire(Weak::new()));
        schedule.add(at(2), Event::Renew(Weak::new()));
        assert!(format!("{schedule:?}").contains('3'));
        schedule.remove(gone);
        assert_eq!(schedule.len(), 2);
        let (due, next) = schedule.due(at(3));
        assert!(matches!(due.as_slice(), [Event::Renew(_), Event::Expire(_)]));
        assert_eq!((next, schedule.len()), (Tick::NEVER, 0));
    }

    #[test]
    fn event_wakes_the_loop_only_if_sooner_than_the_next() {
        let schedule = Schedule::<()>::new();
        let wakes = |seconds| {
            schedule.due(at(0));
            schedule.add(at(seconds), Event::Renew(Weak::new()));
            schedule.changed().now_or_never().is_some()
        };
        assert_eq!([5, 5, 9, 4].map(wakes), [true, false, false, true]);
    }
}
