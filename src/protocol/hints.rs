//! What nodes tell one client, and which of its acquisitions and tasks get it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use metrics::Counter;
use tokio::sync::Notify;

use super::doubts::Doubts;
use super::ear::{Ear, Releases};
use super::observers::Observers;
use crate::host::Host;
use crate::node::{HandedOver, Hint, Listener, Name};
use crate::rules::Tick;

/// All of a client's acquisitions that stand in line somewhere, and its observers.
#[derive(Debug)]
pub(crate) struct Hints {
    /// `host/pid/uuid`: unguessable, made once.
    client: String,
    host: Arc<dyn Host>,
    /// Who releases what was handed over to nobody.
    takes_back: OnceLock<Arc<dyn TakesBack>>,
    /// In order, so that all are woken in the order in which they came.
    ears: Mutex<BTreeMap<u64, Hearing>>,
    observers: Observers,
    doubts: Arc<Doubts>,
    /// Notified when there is something new about a node: a connection, a doubt, a record.
    news: Arc<Notify>,
    heard: Counter,
    wasted: Counter,
}

/// How an acquisition listens.
#[derive(Clone, Debug)]
pub(super) enum Hearing {
    /// It waits.
    Ear(Arc<Ear>),
    /// As this owner it holds the lock, and needs nothing that it would hear.
    Holds(Arc<str>),
    /// It has held the lock, and this is its release.
    Ended(Weak<dyn Releases>),
}

impl Hearing {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ear(one), Self::Ear(other)) => Arc::ptr_eq(one, other),
            (Self::Holds(one), Self::Holds(other)) => one == other,
            // It is not kept who that was: of an acquisition and its reader, the one that ends last.
            (Self::Ended(_), Self::Holds(_)) => true,
            _ => false,
        }
    }

    /// Takes note of a hint. Returns whether anybody looks after what it hands over.
    fn hear(&self, node: usize, hint: &Hint, now: Tick) -> bool {
        match (self, &hint.granted) {
            (Self::Ear(ear), _) => ear.hear(node, hint, now),
            (_, None) => true,
            (Self::Holds(owner), Some(granted)) => *owner == granted.owner,
            (Self::Ended(release), Some(granted)) => {
                release.upgrade().is_some_and(|release| release.is_under_way(node, &granted.owner))
            }
        }
    }
}

/// Whoever releases what a node has handed over to an owner that has ended.
pub(super) trait TakesBack: std::fmt::Debug + Send + Sync {
    /// Releases this grant at the node, so that the node hands the name to its next waiter.
    fn take_back(&self, node: usize, granted: &HandedOver);
}

impl Hints {
    /// Counts hints that somebody heard, and hints that nobody did.
    pub(crate) fn new(client: String, host: Arc<dyn Host>, (heard, wasted): (Counter, Counter)) -> Arc<Self> {
        Arc::new(Self {
            client,
            host,
            takes_back: OnceLock::new(),
            ears: Mutex::default(),
            observers: Observers::default(),
            doubts: Arc::default(),
            news: Arc::default(),
            heard,
            wasted,
        })
    }

    /// Who releases what is handed over to nobody.
    pub(super) fn attach(&self, takes_back: Arc<dyn TakesBack>) {
        let _ = self.takes_back.set(takes_back);
    }

    /// Acquisition `number` listens from now on.
    pub(super) fn add(&self, number: u64, ear: Arc<Ear>) {
        self.ears().insert(number, Hearing::Ear(ear));
    }

    /// Acquisition `number` listens so from now on, if it has listened as `before`: who follows its
    /// own writer has its number.
    pub(super) fn turn(&self, number: u64, before: &Hearing, next: Hearing) {
        let mut ears = self.ears();
        let hearing = ears.get_mut(&number).filter(|hearing| hearing.is(before));
        // What was there is dropped outside of the lock.
        let _before = hearing.map(|hearing| std::mem::replace(hearing, next));
        drop(ears);
    }

    /// It does not any more, if it is that one: who follows its own writer has its number.
    pub(super) fn remove(&self, number: u64, hearing: &Hearing) {
        let mut ears = self.ears();
        let same = ears.get(&number).is_some_and(|found| found.is(hearing));
        // What was there is dropped outside of the lock.
        let _removed = same.then(|| ears.remove(&number));
        drop(ears);
    }

    /// Who observes names.
    pub(super) const fn observers(&self) -> &Observers {
        &self.observers
    }

    /// The nodes that may have forgotten what they granted.
    pub(crate) fn doubts(&self) -> Arc<Doubts> {
        self.doubts.clone()
    }

    /// Notified when there is something new about a node: a connection, a doubt, a record.
    pub(super) const fn node_news(&self) -> &Arc<Notify> {
        &self.news
    }

    /// How many listen, and how many observe.
    #[cfg(feature = "unstable")]
    pub(crate) fn ears_in_use(&self) -> usize {
        self.ears().len() + self.observers.len()
    }

    fn give_back(&self, node: usize, granted: &HandedOver) {
        self.takes_back.get().into_iter().for_each(|takes_back| takes_back.take_back(node, granted));
    }

    fn ears(&self) -> MutexGuard<'_, BTreeMap<u64, Hearing>> {
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn is_there(&self, number: u64) -> bool {
        self.ears().contains_key(&number)
    }

    fn hearing(&self, hint: &Hint) -> Option<Hearing> {
        let (client, number) = hint.address()?;
        if client == self.client { self.ears().get(&number).cloned() } else { None }
    }
}

impl Listener for Hints {
    fn client(&self) -> &str {
        &self.client
    }

    fn hint(&self, node: usize, hint: &Hint) {
        match self.hearing(hint) {
            Some(hearing) => {
                self.heard.increment(1);
                let heard = hearing.hear(node, hint, self.host.now());
                if let Some(granted) = hint.granted.as_ref().filter(|_| !heard) {
                    self.give_back(node, granted);
                }
            }
            None => {
                self.wasted.increment(1);
                // Others listen to the same node here.
                let mine = hint.address().is_some_and(|(client, _)| client == self.client);
                if let Some(granted) = hint.granted.as_ref().filter(|_| mine) {
                    self.give_back(node, granted);
                }
            }
        }
    }

    fn news(&self, _: usize, name: &Name) {
        if self.observers.news(name) {
            self.heard.increment(1);
        }
    }

    fn missed(&self, _node: usize) {
        let all: Vec<_> = self.ears().values().cloned().collect();
        for hearing in all {
            if let Hearing::Ear(ear) = hearing {
                ear.ask_now(self.host.now());
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
