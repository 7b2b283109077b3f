//! Releases that have not ended: how many there are, and those that are tried again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How many releases may be tried again at a time. Past that, what is left behind expires by
/// itself.
pub(crate) const LEFTOVERS: Room = Room { brief: 65_536, kept: 16_384 };

/// For how many releases there is room at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Of what nodes hold for a ttl.
    pub(crate) brief: usize,
    /// Of what they hold for longer than that, as for a period: these may be there for days, and
    /// take the others' room away from none of them.
    pub(crate) kept: usize,
}

/// A release on whose last try some nodes did not confirm.
pub(crate) trait Leftover: fmt::Debug + Send + Sync {
    /// Asks again those nodes that have not confirmed.
    fn again(self: Arc<Self>);

    /// How often it was tried.
    fn tries(&self) -> u32;

    /// For how long it has been tried, where that is longer than a lease lasts: nodes may hold what it
    /// is for far longer.
    fn overtime(&self) -> Option<Duration>;
}

/// Where they wait until they are tried again.
#[derive(Debug)]
pub(crate) struct Leftovers {
    sender: mpsc::Sender<Arc<dyn Leftover>>,
    brief: Arc<Semaphore>,
    kept: Arc<Semaphore>,
}

impl Leftovers {
    /// Sends as many at a time as there is room for, wherever they are by then.
    pub(crate) fn channel(room: Room) -> (Self, mpsc::Receiver<Arc<dyn Leftover>>) {
        let (sender, receiver) = mpsc::channel(room.brief + room.kept);
        let [brief, kept] = [room.brief, room.kept].map(|room| Arc::new(Semaphore::new(room)));
        (Self { sender, brief, kept }, receiver)
    }

    /// Hands one on that has a permit. Nobody takes it when the quorum or its runtime has ended.
    pub(super) fn leave(&self, leftover: Arc<dyn Leftover>) {
        let _ = self.sender.try_send(leftover);
    }

    /// A place among those that are tried again: of what nodes hold for a ttl, or of what they keep
    /// for longer.
    pub(super) fn permit(&self, kept: bool) -> Option<OwnedSemaphorePermit> {
        let permits = if kept { &self.kept } else { &self.brief };
        permits.clone().try_acquire_owned().ok()
    }
}

/// How many releases have not ended.
#[derive(Debug, Default)]
pub(crate) struct Cleanups {
    open: AtomicUsize,
    none: Notify,
    /// Whether a warning was given that one is unconfirmed at the end.
    warned: AtomicBool,
    /// Whether a shutdown waited for them in vain.
    late: AtomicBool,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Open(Arc<Cleanups>);

impl Cleanups {
    /// One more, until what is returned is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Open {
        self.open.fetch_add(1, Ordering::AcqRel);
        Open(self.clone())
    }

    /// A shutdown has waited for them in vain.
    pub(crate) fn are_late(&self) {
        self.late.store(true, Ordering::Relaxed);
    }

    /// Waits until there is none.
    pub(super) async fn ended(&self) {
        loop {
            let none = self.none.notified();
            tokio::pin!(none);
            none.as_mut().enable();
            if self.open.load(Ordering::Acquire) == 0 {
                return;
            }
            none.await;
        }
    }
}

impl Open {
    /// Whether to warn that it is unconfirmed at the end: once for all. A `Once` would be poisoned by
    /// a log that panics.
    pub(super) fn warns(&self) -> bool {
        !self.0.warned.swap(true, Ordering::Relaxed)
    }

    /// Whether a shutdown has waited for it in vain.
    pub(super) fn is_late(&self) -> bool {
        self.0.late.load(Ordering::Relaxed)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none.notify_waiters();
        }
    }
}
