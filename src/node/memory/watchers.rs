//! Who is told when what observers see of a name may have changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::node::operation::Watch;

/// Clients, and until when each is told: what a sorted set is on a real node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Watchers(BTreeMap<Arc<str>, Duration>);

impl Watchers {
    /// Forgets those that have not asked again.
    pub(super) fn expire(&mut self, now: Duration) {
        self.0.retain(|_, until| *until > now);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One more watches, or still does. Whether there is room for it.
    pub(super) fn add(&mut self, client: &Arc<str>, until: Duration) -> bool {
        let room = self.0.contains_key(client) || self.0.len() < Watch::MOST;
        if room {
            self.0.insert(client.clone(), until);
        }
        room
    }

    /// All of them, in the order in which they end. Those that nobody `hears` for have gone, and
    /// are forgotten.
    pub(super) fn told(&mut self, hears: &dyn Fn(&str) -> bool) -> Vec<Arc<str>> {
        self.0.retain(|client, _| hears(client));
        let mut told: Vec<_> = self.0.iter().map(|(client, until)| (*until, client.clone())).collect();
        told.sort_unstable();
        told.into_iter().map(|(_, client)| client).collect()
    }
}
