//! The common result of several releases.

use std::sync::Arc;

use super::release::ReleaseTask;
use crate::host::{Host, before};
use crate::rules::Tick;
use crate::rules::tally::Freed;

/// Releases that were sent: almost always one.
#[derive(Clone, Debug)]
pub(crate) struct ReleaseSet {
    first: Option<Arc<ReleaseTask>>,
    others: Vec<Arc<ReleaseTask>>,
}

impl ReleaseSet {
    /// Records that the caller got an error about an unconfirmed release: see
    /// [`ReleaseTask::told`].
    pub(crate) fn told(&self) {
        self.all().for_each(|task| task.told());
    }

    /// The worst result of all releases; `Unknown` if a release has no result at `until`. Waits for
    /// all releases even if one name is `Gone`: if the caller exited earlier, the other names might
    /// stay held.
    pub(crate) async fn freed(&self, host: &Arc<dyn Host>, until: Tick) -> Freed {
        let mut all = Freed::Held;
        for task in self.all() {
            all = all.max(before(host, until, task.freed()).await.unwrap_or(Freed::Unknown));
        }
        all
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<ReleaseTask>> {
        self.first.iter().chain(&self.others)
    }
}

impl FromIterator<Arc<ReleaseTask>> for ReleaseSet {
    fn from_iter<I: IntoIterator<Item = Arc<ReleaseTask>>>(tasks: I) -> Self {
        let mut tasks = tasks.into_iter();
        Self { first: tasks.next(), others: tasks.collect() }
    }
}
