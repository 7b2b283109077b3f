//! Watching one name: nodes tell when it is worth looking at, and only what a look shows counts.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Notify;

use super::hints::Hints;
use super::inspect::Survey;
use super::voters::Voters;
use crate::host::{Host, sleep_until};
use crate::node::{Name, Operation, Watch};
use crate::rules::Tick;

/// For how long a node tells this client of a name unless it is asked again: several looks.
const LASTS: Duration = Duration::from_secs(30);

/// Two looks of one observer begin so far apart at least: however many messages come, they cost few
/// looks, and each is answered by one that begins after it.
const GAP: Duration = Duration::from_millis(30);

/// One observer of a name. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Observing {
    hints: Arc<Hints>,
    name: Name,
    number: u64,
    news: Arc<Notify>,
    /// Before that it does not look again.
    rests: Tick,
}

impl Observing {
    /// Watches the name until it is dropped.
    pub(crate) fn begin(hints: &Arc<Hints>, name: Name) -> Self {
        let (number, news) = hints.observe(&name);
        Self { hints: hints.clone(), name, number, news, rests: Tick::default() }
    }

    /// Waits until it is worth looking: a node has said so since the last look began, or it is `due`.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn is_worth_a_look(&self, host: &Arc<dyn Host>, due: Tick) {
        // What is told meanwhile is kept for the next line.
        sleep_until(host, self.rests).await;
        tokio::select! {
            biased;
            () = self.news.notified() => {}
            () = sleep_until(host, due) => {}
        }
    }

    /// Asks all nodes, and waits for their answers for `patience`. Where hints can be had, nodes
    /// tell from then on when it is worth asking again. Whether a quorum of them does.
    pub(crate) async fn look(&mut self, voters: &Arc<Voters>, patience: Duration) -> (Survey, bool) {
        self.rests = voters.host.now() + GAP;
        let names: Arc<[Name]> = [self.name.clone()].into();
        // Whatever was told by now, this look is for.
        let _ = self.news.notified().now_or_never();
        let question = if voters.hinted() { self.watch(names) } else { Operation::Inspect(names) };
        let survey = Survey::asking(voters, question, patience).await;
        // A node that keeps it as a watcher tells it nothing while no messages come from there.
        let tells = survey.registered.iter().filter(|&node| voters.nodes[node].hints()).count();
        let quorum = tells >= voters.size.quorum() as usize;
        (survey, quorum)
    }

    fn watch(&self, names: Arc<[Name]>) -> Operation {
        Watch { names, client: self.hints.name().into(), lasts: LASTS }.into()
    }
}

impl Drop for Observing {
    fn drop(&mut self) {
        self.hints.observe_no_more(&self.name, self.number);
    }
}
