//! Hints on their way from a node: as late as its replies, doubled, or lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::link::Link;
use quorumlock::host::sleep_until;
use quorumlock::node::{Hint, Listener, Name, Node};

/// Receives the node's hints, and passes them on as late as replies, or not at all.
#[derive(Debug)]
pub(super) struct Relay {
    link: Weak<Link>,
    index: usize,
    client: String,
    /// This is weak, since a client that has gone needs no hints.
    listener: Weak<dyn Listener>,
}

impl Relay {
    pub(super) fn new(link: &Arc<Link>, index: usize, listener: &Arc<dyn Listener>) -> Arc<Self> {
        let client = listener.client().to_owned();
        Arc::new(Self { link: Arc::downgrade(link), index, client, listener: Arc::downgrade(listener) })
    }

    /// Receives the hints of `node` from now on.
    pub(super) fn listen_to(self: &Arc<Self>, node: &Arc<dyn Node>) {
        node.listen(self.index, self.clone());
    }

    /// Reports to the client that it may have missed hints.
    pub(super) fn has_missed(&self) {
        if let Some(listener) = self.listener.upgrade() {
            listener.missed(self.index);
        }
    }

    /// Reports to the client that the node may have forgotten its grants.
    pub(super) fn has_forgotten(&self) {
        if let Some(listener) = self.listener.upgrade() {
            listener.doubted(self.index);
        }
    }

    /// Passes a message on, as often and as late as the node's faults require.
    fn gives_on<G: FnOnce(Arc<dyn Listener>, usize) + Send + 'static>(&self, link: &Link, give: impl Fn() -> G) {
        let state = link.state();
        let times = if state.down || state.paused || state.hints_lost { 0 } else { 1 + u32::from(state.hints_doubled) };
        let due = link.host.now() + state.reply_delay;
        drop(state);
        for _ in 0..times {
            let Some(listener) = self.listener.upgrade() else { return };
            let (host, index, give) = (link.host.clone(), self.index, give());
            link.host.spawn(Box::pin(async move {
                sleep_until(&host, due).await;
                give(listener, index);
            }));
        }
    }

    fn is_heard(&self) -> bool {
        self.listener.strong_count() > 0
    }
}

/// The relays of one node, one for each client.
#[derive(Debug, Default)]
pub(super) struct Relays(Mutex<Vec<Arc<Relay>>>);

impl Relays {
    /// Adds a relay, and removes the relays of clients that have gone.
    pub(super) fn add(&self, relay: Arc<Relay>) {
        let mut relays = self.relays();
        relays.retain(|relay| relay.is_heard());
        relays.push(relay);
    }

    pub(super) fn all(&self) -> Vec<Arc<Relay>> {
        self.relays().clone()
    }

    fn relays(&self) -> MutexGuard<'_, Vec<Arc<Relay>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Relay {
    fn client(&self) -> &str {
        &self.client
    }

    fn hint(&self, _: usize, hint: &Hint) {
        let Some(link) = self.link.upgrade() else { return };
        let state = link.state();
        let (life, counts) = (state.life, link.host.now() >= state.quarantine);
        drop(state);
        let mut hint = hint.clone();
        if let Some(granted) = &mut hint.granted {
            granted.stamp.generation = life;
            granted.counts &= counts;
        }
        let hint = Arc::new(hint);
        self.gives_on(&link, || {
            let hint = hint.clone();
            move |listener, index| listener.hint(index, &hint)
        });
    }

    fn news(&self, _: usize, name: &Name) {
        let Some(link) = self.link.upgrade() else { return };
        self.gives_on(&link, || {
            let name = name.clone();
            move |listener, index| listener.news(index, &name)
        });
    }

    /// Whether the client counts as subscribed. A client whose connection hangs counts, since the
    /// server still has the subscription.
    fn hears(&self) -> bool {
        self.is_heard() && self.link.upgrade().is_some_and(|link| !link.state().down)
    }

    fn missed(&self, _: usize) {
        self.has_missed();
    }

    fn doubted(&self, _: usize) {
        self.has_forgotten();
    }
}
