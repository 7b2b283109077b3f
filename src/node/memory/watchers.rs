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

    /// The first `most` of them, in the order in which they end, without those that nobody `hears`
    /// for: these have gone, and are forgotten. How many there were with these.
    pub(super) fn told(&mut self, most: usize, hears: &dyn Fn(&str) -> bool) -> (Vec<Arc<str>>, usize) {
        let mut first: Vec<_> = self.0.iter().map(|(client, until)| (*until, client.clone())).collect();
        first.sort_unstable();
        first.truncate(most);
        let published = first.len();
        let (told, gone): (Vec<_>, Vec<_>) =
            first.into_iter().map(|(_, client)| client).partition(|client| hears(client));
        self.0.retain(|client, _| !gone.contains(client));
        (told, published)
    }
}
