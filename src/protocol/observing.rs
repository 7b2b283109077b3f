//! Observing one name: nodes publish that there is news of it, and only what a look shows counts.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Notify;

use super::inspect::Survey;
use super::voters::Voters;
use crate::host::sleep_until;
use crate::node::Name;
use crate::rules::Tick;

/// Two looks of one observer begin so far apart at least: however many messages come, they cost few
/// looks, and each is answered by one that begins after it.
const GAP: Duration = Duration::from_millis(30);

/// One observer of a name. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Observing {
    voters: Arc<Voters>,
    name: Name,
    number: u64,
    news: Arc<Notify>,
    /// Before that it does not look again.
    rests: Tick,
}

impl Observing {
    /// Observes the name until it is dropped.
    pub(crate) fn begin(voters: &Arc<Voters>, name: Name) -> Self {
        let (number, news) = voters.hints.observers().add(&name, |name| voters.follow(name, true));
        Self { voters: voters.clone(), name, number, news, rests: Tick::default() }
    }

    /// Waits until it is worth looking: there was news since the last look began, or it is `due`.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn is_worth_a_look(&self, due: Tick) {
        let host = &self.voters.host;
        // What comes meanwhile is kept for the next line.
        sleep_until(host, self.rests).await;
        tokio::select! {
            biased;
            () = self.news.notified() => {}
            () = sleep_until(host, due) => {}
        }
    }

    /// Asks all nodes, and waits for their answers for `patience`.
    pub(crate) async fn look(&mut self, patience: Duration) -> Survey {
        self.rests = self.voters.host.now() + GAP;
        // Whatever was published by now, this look is for.
        let _ = self.news.notified().now_or_never();
        Survey::of(&self.voters, &self.name, patience).await
    }
}

impl Drop for Observing {
    fn drop(&mut self) {
        self.voters.hints.observers().remove(&self.name, self.number, |name| self.voters.follow(name, false));
    }
}
