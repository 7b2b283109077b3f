//! The queues of one process. Callers of one name wait in order, and only the first sends claims.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::error::{Error, ErrorKind, NodeReport, Result};

/// The state of a queue's first caller, as it is reported to the callers behind.
#[derive(Clone, Debug, Default)]
pub(super) enum HeadStatus {
    /// The first caller has no result yet.
    #[default]
    Trying,
    /// The first caller has the lock.
    Holding,
    /// Another owner has the lock. Contains the id of this other owner, if it may have a note.
    Contended(Option<Arc<str>>),
    /// Too few nodes have answered in time so far.
    Undecided,
    /// A quorum is out of reach.
    Unavailable(Vec<NodeReport>),
}

#[derive(Debug)]
struct Entry {
    turn: Semaphore,
    head: Mutex<HeadStatus>,
    news: Notify,
    /// How many callers of this queue hold the lock. There may be two for a moment, while the lock
    /// changes hands.
    holders: AtomicUsize,
}

#[derive(Debug)]
struct Line {
    entry: Arc<Entry>,
    callers: usize,
}

/// The queues of all names in use.
#[derive(Debug)]
pub(crate) struct Queue {
    lines: Mutex<HashMap<Arc<str>, Line>>,
    /// Locked while a caller tries to take the turns of several names, so that only one caller at a
    /// time does so. A caller of one name locks this too, if its first try failed.
    several: Mutex<()>,
    max_callers: usize,
}

impl Queue {
    /// Starts without queues. Each queue will have at most `max_callers` callers.
    pub(crate) fn new(max_callers: usize) -> Arc<Self> {
        Arc::new(Self { lines: Mutex::default(), several: Mutex::default(), max_callers })
    }

    /// Keeps other callers from taking the turns of several names, until the returned guard is
    /// dropped.
    pub(super) fn alone(&self) -> MutexGuard<'_, ()> {
        self.several.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the queue of `name`.
    pub(super) fn join(self: &Arc<Self>, name: &Arc<str>) -> Result<Place> {
        let mut lines = self.lines();
        let line = match lines.entry(name.clone()) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => slot.insert(Line { entry: Arc::new(Entry::new()), callers: 0 }),
        };
        // A new queue is never full, because `max_callers` is at least 1.
        if line.callers >= self.max_callers {
            let (callers, name) = (line.callers, name.trim_start_matches('\0'));
            let message = format!("{callers} callers of this process already hold or wait for {name:?} (max_callers)");
            return Err(Error::new(ErrorKind::Contended, message));
        }
        line.callers += 1;
        let entry = line.entry.clone();
        drop(lines);
        Ok(Place { queue: self.clone(), name: name.clone(), entry, first: false, holds: false })
    }

    /// A place beside the queue of `name`, which gets its turn at once. There are at most
    /// `max_callers` places beside each queue.
    pub(super) fn join_aside(self: &Arc<Self>, name: &Arc<str>) -> Result<Place> {
        // No name begins with NUL, so these places are counted separately.
        let mut place = self.join(&format!("\0{name}").into())?;
        place.entry = Arc::new(Entry::new());
        Ok(place)
    }

    /// A place that is in no queue, and gets its turn at once.
    pub(super) fn aside(self: &Arc<Self>) -> Place {
        // No queue has an empty name, so the drop of this place leaves no queue.
        let (name, entry) = (Arc::from(""), Arc::new(Entry::new()));
        Place { queue: self.clone(), name, entry, first: false, holds: false }
    }

    /// Whether a caller of this process holds `name` or waits for it. Does not count readers.
    pub(crate) fn is_in_use(&self, name: &str) -> bool {
        self.lines().contains_key(name)
    }

    /// How many names have a queue.
    #[cfg(any(test, feature = "unstable"))]
    pub(crate) fn len(&self) -> usize {
        self.lines().len()
    }

    fn leave(&self, name: &Arc<str>) {
        let mut lines = self.lines();
        if let Slot::Occupied(mut slot) = lines.entry(name.clone()) {
            slot.get_mut().callers -= 1;
            if slot.get().callers == 0 {
                let line = slot.remove();
                drop(lines);
                drop(line);
            }
        }
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Arc<str>, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn new() -> Self {
        Self { turn: Semaphore::new(1), head: Mutex::default(), news: Notify::new(), holders: AtomicUsize::new(0) }
    }
}

/// A place in a queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) queue: Arc<Queue>,
    /// The name whose queue this place is in.
    pub(super) name: Arc<str>,
    entry: Arc<Entry>,
    first: bool,
    holds: bool,
}

impl Place {
    /// Takes the turn if no other place has it. Returns whether this place has the turn.
    ///
    /// Leaves `head` as it is: if this caller gives up before it asks, the callers behind it still
    /// need the state of the previous first caller.
    pub(super) fn try_turn(&mut self) -> bool {
        let free = self.entry.turn.try_acquire().map(SemaphorePermit::forget).is_ok();
        self.first |= free;
        self.first
    }

    /// Waits for the turn, and takes it as [`try_turn`](Self::try_turn) does.
    ///
    /// # Cancel safety
    /// Safe. The place still counts as a caller, but the next call waits behind all others.
    pub(super) async fn turn(&mut self) {
        // The semaphore is never closed, so this cannot fail.
        let free = self.entry.turn.acquire().await.map(SemaphorePermit::forget).is_ok();
        self.first |= free;
    }

    /// Whether this place has the turn.
    pub(super) const fn is_first(&self) -> bool {
        self.first
    }

    /// Whether no place has the turn.
    pub(super) fn is_free(&self) -> bool {
        self.entry.turn.available_permits() > 0
    }

    /// Gives the turn back, if this place has it.
    pub(super) fn give_back(&mut self) {
        if std::mem::take(&mut self.first) {
            self.entry.turn.add_permits(1);
            self.entry.news.notify_waiters();
        }
    }

    /// Call this when the caller has the lock. If `next` is true, passes the turn on at once, so
    /// that the next caller joins the nodes' queues before the lock is free.
    pub(super) fn served(mut self, next: bool) -> Self {
        self.holds = true;
        self.entry.holders.fetch_add(1, Ordering::AcqRel);
        self.tell(HeadStatus::Holding);
        if next {
            self.give_back();
        }
        self
    }

    /// Whether a caller of this queue holds the lock.
    pub(super) fn is_held(&self) -> bool {
        self.entry.holders.load(Ordering::Acquire) > 0
    }

    /// Sets the state of the first caller, and wakes the callers behind it.
    pub(super) fn tell(&self, head: HeadStatus) {
        *self.entry.head.lock().unwrap_or_else(PoisonError::into_inner) = head;
        self.entry.news.notify_waiters();
    }

    pub(super) fn head(&self) -> HeadStatus {
        self.entry.head.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the first caller has a result from the nodes, or until no caller has the turn.
    pub(super) async fn news(&self) {
        loop {
            let news = self.entry.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if self.entry.turn.available_permits() > 0
                || !matches!(self.head(), HeadStatus::Trying | HeadStatus::Undecided)
            {
                return;
            }
            news.await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.holds {
            self.entry.holders.fetch_sub(1, Ordering::AcqRel);
        }
        self.give_back();
        self.queue.leave(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn callers_of_one_name_take_turns_in_the_order_they_came() {
        let queue = Queue::new(8);
        let name: Arc<str> = "a".into();
        let mut places: Vec<_> = (0..3).map(|_| queue.join(&name).unwrap()).collect();
        assert!(places[0].try_turn());
        let (head, rest) = places.split_at_mut(1);
        let (second, third) = rest.split_at_mut(1);
        let mut second = Box::pin(second[0].turn());
        let mut third = Box::pin(third[0].turn());
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        head[0].entry.turn.add_permits(1);
        head[0].first = false;
        assert!((&mut third).now_or_never().is_none(), "the third waits behind the second");
        assert!(second.now_or_never().is_some());
    }

    #[test]
    fn a_line_vanishes_with_its_last_caller() {
        let queue = Queue::new(8);
        let name: Arc<str> = "a".into();
        let first = queue.join(&name).unwrap();
        let second = queue.join(&name).unwrap();
        drop(first);
        assert_eq!(queue.len(), 1);
        drop(second);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_full_line_takes_nobody() {
        let queue = Queue::new(1);
        let _first = queue.join(&"a".into()).unwrap();
        assert!(queue.join(&"a".into()).unwrap_err().is_contended());
        assert!(queue.join(&"b".into()).is_ok());
    }
}
