//! Counts the releases that have not ended, and queues the releases that will be sent again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How many releases may be tried again at a time. Releases beyond this number are sent once; on
/// nodes that do not get them, the holds expire.
pub(crate) const MAX_PENDING: Room = Room { brief: 65_536, kept: 16_384 };

/// How many releases may be tried again at a time, by how long nodes hold the names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Releases of names that nodes hold for a ttl.
    pub(crate) brief: usize,
    /// Releases of names that nodes hold for longer than a ttl, such as for a period. These
    /// releases may be repeated for days, so they take no room from the releases in `brief`.
    pub(crate) kept: usize,
}

/// A release that some nodes did not confirm at the last try.
pub(crate) trait PendingRelease: fmt::Debug + Send + Sync {
    /// Sends the release again to the nodes that have not confirmed it.
    fn again(self: Arc<Self>);

    /// How often the release was tried.
    fn tries(&self) -> u32;

    /// The time since the first try; `None` while that is shorter than the lock's ttl. (Nodes may
    /// hold the names for far longer: for the period of a `Once`.)
    fn overtime(&self) -> Option<Duration>;
}

/// The releases that wait for their next try.
#[derive(Debug)]
pub(crate) struct PendingReleases {
    sender: mpsc::Sender<Arc<dyn PendingRelease>>,
    brief: Arc<Semaphore>,
    kept: Arc<Semaphore>,
}

impl PendingReleases {
    /// Makes the channel. `room` limits how many releases have a permit. A release keeps its permit
    /// until it ends, even while it is outside of the channel.
    pub(crate) fn channel(room: Room) -> (Self, mpsc::Receiver<Arc<dyn PendingRelease>>) {
        let (sender, receiver) = mpsc::channel(room.brief + room.kept);
        let [brief, kept] = [room.brief, room.kept].map(|room| Arc::new(Semaphore::new(room)));
        (Self { sender, brief, kept }, receiver)
    }

    /// Queues a release that has a permit. Drops the release if the quorum or its runtime has
    /// ended.
    pub(super) fn leave(&self, pending: Arc<dyn PendingRelease>) {
        let _ = self.sender.try_send(pending);
    }

    /// A permit for more tries, if there is room. `kept` says that nodes hold the names for longer
    /// than a ttl.
    pub(super) fn permit(&self, kept: bool) -> Option<OwnedSemaphorePermit> {
        let permits = if kept { &self.kept } else { &self.brief };
        permits.clone().try_acquire_owned().ok()
    }
}

/// The count of the work for which a shutdown waits, and the state that all releases share. This
/// work is each release that has not ended, and each step that may still send a release.
#[derive(Debug, Default)]
pub(crate) struct ReleaseTasks {
    open: AtomicUsize,
    none: Notify,
    /// Whether the warning about an unconfirmed release was logged.
    warned: AtomicBool,
    /// Whether the warning was logged that there is no room for more tries.
    crowded: AtomicBool,
    /// Whether a shutdown gave up waiting for the releases.
    late: AtomicBool,
}

/// One release, or one step that may still send a release. A shutdown waits until this value is
/// dropped.
#[derive(Debug)]
pub(crate) struct Open(Arc<ReleaseTasks>);

impl ReleaseTasks {
    /// Makes a shutdown wait until the returned value is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Open {
        self.open.fetch_add(1, Ordering::AcqRel);
        Open(self.clone())
    }

    /// Records that a shutdown gave up waiting for the releases.
    pub(crate) fn are_late(&self) {
        self.late.store(true, Ordering::Relaxed);
    }

    /// Waits until no [`Open`] is left.
    pub(crate) async fn ended(&self) {
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
    /// Whether to log the warning about an unconfirmed release. True for the first call among all
    /// releases. (`std::sync::Once` would be poisoned by a logger that panics.)
    pub(super) fn warns(&self) -> bool {
        !self.0.warned.swap(true, Ordering::Relaxed)
    }

    /// Whether to log the warning that there is no room for more tries. True for the first call
    /// among all releases.
    pub(super) fn warns_of_no_room(&self) -> bool {
        !self.0.crowded.swap(true, Ordering::Relaxed)
    }

    /// Whether a shutdown gave up waiting for this release.
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
