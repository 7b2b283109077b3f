//! Observes one name. Nodes publish that the name has changed, and the observer then inspects the
//! name. Only the result of this inspection counts.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Notify;

use super::inspect::Survey;
use super::voters::Voters;
use crate::host::sleep_until;
use crate::node::Name;
use crate::rules::Tick;

/// The shortest time between two inspections by one observer: many messages cost few inspections.
/// One more inspection follows the last message.
const GAP: Duration = Duration::from_millis(30);

/// One observer of a name. Dropping it ends the observation.
#[derive(Debug)]
pub(crate) struct Observing {
    voters: Arc<Voters>,
    name: Name,
    number: u64,
    news: Arc<Notify>,
    /// The earliest time of the next inspection.
    rests: Tick,
}

impl Observing {
    /// Observes the name until the returned value is dropped.
    pub(crate) fn begin(voters: &Arc<Voters>, name: Name) -> Self {
        let (number, news) = voters.wakeups.observers.add(&name, |name| voters.follow(name, true));
        Self { voters: voters.clone(), name, number, news, rests: Tick::default() }
    }

    /// Waits until there is news that came after the last inspection began, or until `due`.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn is_worth_a_look(&self, due: Tick) {
        let host = &self.voters.host;
        // News that comes during this sleep is kept for `notified` below.
        sleep_until(host, self.rests).await;
        tokio::select! {
            biased;
            () = self.news.notified() => {}
            () = sleep_until(host, due) => {}
        }
    }

    /// Inspects the name on all nodes, and waits for replies for `patience` at most.
    pub(crate) async fn look(&mut self, patience: Duration) -> Survey {
        self.rests = self.voters.host.now() + GAP;
        // This inspection covers everything that was published until now.
        let _ = self.news.notified().now_or_never();
        Survey::of(&self.voters, &self.name, patience).await
    }
}

impl Drop for Observing {
    fn drop(&mut self) {
        self.voters.wakeups.observers.remove(&self.name, self.number, |name| self.voters.follow(name, false));
    }
}
