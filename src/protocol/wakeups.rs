//! Delivers the messages of nodes to the acquisitions, observers and tasks of one client.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use metrics::Counter;
use tokio::sync::Notify;

use super::doubts::Doubts;
use super::observers::Observers;
use super::push_receiver::{PushReceiver, Releases};
use crate::host::Host;
use crate::node::{HandedOver, Hint, Listener, Name};
use crate::rules::Tick;

/// The acquisitions of one client that wait or hold a lock, and the client's observers.
#[derive(Debug)]
pub(crate) struct Wakeups {
    /// The client's id: `host/pid/uuid`. Nobody can guess the random `uuid`.
    client: String,
    host: Arc<dyn Host>,
    takes_back: OnceLock<Arc<dyn TakesOrphans>>,
    /// Ordered, so that acquisitions are woken in the order in which they began.
    receivers: Mutex<BTreeMap<u64, PushOutcome>>,
    pub(super) observers: Observers,
    pub(crate) doubts: Arc<Doubts>,
    /// Notified when there is something new about a node: a connection, a doubt, a record.
    pub(super) news: Arc<Notify>,
    heard: Counter,
    wasted: Counter,
}

/// The state of an acquisition, which decides what happens to a push or hint for it.
#[derive(Clone, Debug)]
pub(super) enum PushOutcome {
    /// The acquisition waits for the lock.
    PushReceiver(Arc<PushReceiver>),
    /// The acquisition holds the lock as this owner, and needs no message.
    Holds(Arc<str>),
    /// The acquisition has ended, with this release.
    Ended(Weak<dyn Releases>),
}

impl PushOutcome {
    /// Takes note of a push or a hint. Returns false if the client must release the name that the
    /// push hands over.
    fn hear(&self, node: usize, hint: &Hint, now: Tick) -> bool {
        match (self, &hint.granted) {
            (Self::PushReceiver(receiver), _) => receiver.hear(node, hint, now),
            (_, None) => true,
            (Self::Holds(owner), Some(granted)) => *owner == granted.owner,
            (Self::Ended(release), Some(granted)) => {
                release.upgrade().is_some_and(|release| release.is_under_way(node, &granted.owner))
            }
        }
    }
}

/// Releases names that nodes hand over to owners that have ended.
pub(super) trait TakesOrphans: std::fmt::Debug + Send + Sync {
    /// Releases this grant at the node, so that the node hands the name to its next waiter.
    fn take_back(&self, node: usize, granted: &HandedOver);
}

impl Wakeups {
    /// `heard` counts messages that reach an acquisition or an observer. `wasted` counts pushes and
    /// hints that reach no acquisition.
    pub(crate) fn new(client: String, host: Arc<dyn Host>, (heard, wasted): (Counter, Counter)) -> Arc<Self> {
        Arc::new(Self {
            client,
            host,
            takes_back: OnceLock::new(),
            receivers: Mutex::default(),
            observers: Observers::default(),
            doubts: Arc::default(),
            news: Arc::default(),
            heard,
            wasted,
        })
    }

    /// Sets the object that releases hand-overs to owners that have ended.
    pub(super) fn attach(&self, takes_back: Arc<dyn TakesOrphans>) {
        let _ = self.takes_back.set(takes_back);
    }

    /// Passes the messages for acquisition `number` to `receiver` from now on.
    pub(super) fn add(&self, number: u64, receiver: Arc<PushReceiver>) {
        self.receivers().insert(number, PushOutcome::PushReceiver(receiver));
    }

    /// Replaces the entry of acquisition `number`, if there is one.
    pub(super) fn turn(&self, number: u64, next: PushOutcome) {
        let mut receivers = self.receivers();
        // Drop the old entry outside of the lock.
        let _before = receivers.get_mut(&number).map(|hearing| std::mem::replace(hearing, next));
        drop(receivers);
    }

    /// Removes the entry of acquisition `number`.
    pub(super) fn remove(&self, number: u64) {
        let mut receivers = self.receivers();
        // Drop the old entry outside of the lock.
        let _removed = receivers.remove(&number);
        drop(receivers);
    }

    /// How many acquisitions and observers there are.
    #[cfg(feature = "unstable")]
    pub(crate) fn receivers_in_use(&self) -> usize {
        self.receivers().len() + self.observers.len()
    }

    fn receivers(&self) -> MutexGuard<'_, BTreeMap<u64, PushOutcome>> {
        self.receivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn is_there(&self, number: u64) -> bool {
        self.receivers().contains_key(&number)
    }
}

impl Listener for Wakeups {
    fn client(&self) -> &str {
        &self.client
    }

    fn hint(&self, node: usize, hint: &Hint) {
        // A memory node sends each push and hint to all its clients. So ignore those for other
        // clients.
        let number = hint.address().filter(|(client, _)| *client == self.client).map(|(_, number)| number);
        let hearing = number.and_then(|number| self.receivers().get(&number).cloned());
        let counter = if hearing.is_some() { &self.heard } else { &self.wasted };
        counter.increment(1);
        let heard = hearing.is_some_and(|hearing| hearing.hear(node, hint, self.host.now()));
        if let Some(granted) = hint.granted.as_ref().filter(|_| number.is_some() && !heard) {
            self.takes_back.get().into_iter().for_each(|takes_back| takes_back.take_back(node, granted));
        }
    }

    fn news(&self, _: usize, name: &Name) {
        if self.observers.news(name) {
            self.heard.increment(1);
        }
    }

    fn missed(&self, _node: usize) {
        let all: Vec<_> = self.receivers().values().cloned().collect();
        for hearing in all {
            if let PushOutcome::PushReceiver(receiver) = hearing {
                receiver.ask_now(self.host.now());
            }
        }
        self.observers.all();
    }

    fn doubted(&self, node: usize) {
        self.doubts.add(node, self.host.now());
        self.news.notify_one();
    }

    fn connected(&self, _: usize) {
        self.news.notify_one();
    }

    fn heard(&self, _: usize) {
        self.news.notify_one();
    }
}
