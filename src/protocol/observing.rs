//! Watching one name: nodes tell when it is worth looking at, and only what a look shows counts.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Notify;

use super::hints::Hints;
use super::inspect::Survey;
use super::voters::Voters;
use crate::node::{Name, Operation, Watch};

/// For how long a node tells this client of a name unless it is asked again: several looks.
const LASTS: Duration = Duration::from_secs(30);

/// One observer of a name. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Observing {
    hints: Arc<Hints>,
    name: Name,
    number: u64,
    news: Arc<Notify>,
}

impl Observing {
    /// Watches the name until it is dropped.
    pub(crate) fn begin(hints: &Arc<Hints>, name: Name) -> Self {
        let (number, news) = hints.observe(&name);
        Self { hints: hints.clone(), name, number, news }
    }

    /// Asks all nodes, and waits for their answers for `patience`. Where hints can be had, nodes
    /// tell from then on when it is worth asking again. Whether a quorum of them does.
    pub(crate) async fn look(&self, voters: &Arc<Voters>, patience: Duration) -> (Survey, bool) {
        let names: Arc<[Name]> = [self.name.clone()].into();
        // Whatever was told by now, this look is for.
        let _ = self.news().now_or_never();
        let hinted = voters.hinted();
        let question = if hinted { self.watch(names) } else { Operation::Inspect(names) };
        let survey = Survey::asking(voters, question, patience).await;
        let registered = survey.registered.len() >= voters.size.quorum();
        (survey, hinted && registered)
    }

    fn watch(&self, names: Arc<[Name]>) -> Operation {
        Watch { names, client: self.hints.name().into(), lasts: LASTS }.into()
    }

    /// Waits until a node has said since the last time that it is worth looking.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }
}

impl Drop for Observing {
    fn drop(&mut self) {
        self.hints.observe_no_more(&self.name, self.number);
    }
}
