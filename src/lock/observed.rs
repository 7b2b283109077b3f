//! Who leads, as observers see it: nodes publish when to look.

use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use futures::stream::unfold;

use super::inner::Inner;
use super::mutex::QuorumLock;
use crate::error::Result;
use crate::protocol::{Inspected, Observing};
use crate::rules::{Backoff, Tick};

/// Nodes are asked again after half of that, and up to as much more: what they publish can be lost.
const RARELY: Duration = Duration::from_secs(5);

/// Somebody leads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leadership {
    /// Who: `host/pid/uuid/number`.
    pub leader: String,
    /// Its fencing token, greater than that of every leader before.
    pub token: u64,
    /// What it proclaimed last; empty before that.
    pub value: String,
}

/// Looks who leads: when there is news, when a hold ends by itself, and now and then. One look at a
/// time, however many nodes publish.
pub(super) struct Observer {
    inner: Arc<Inner>,
    observing: Observing,
    /// The token and the number of the value that were seen last.
    last: Option<(u64, u32)>,
    /// When to look again, if there is no news before that.
    due: Tick,
}

impl Observer {
    pub(super) fn new(lock: &QuorumLock) -> Result<Self> {
        let (inner, name) = lock.first()?;
        inner.usable()?;
        let observing = Observing::begin(&inner.leases.voters, name);
        let due = inner.host.now();
        Ok(Self { inner, observing, last: None, due })
    }

    pub(super) fn leaders(self) -> impl Stream<Item = Leadership> + Send + use<> {
        unfold(self, |mut observer| async move {
            let news = observer.next().await?;
            Some((news, observer))
        })
    }

    /// What is news; `None` once the quorum was shut down.
    async fn next(&mut self) -> Option<Leadership> {
        loop {
            self.inner.usable().ok()?;
            let shut = self.inner.shut.clone();
            let seen = shut.run_until_cancelled(self.look()).await?;
            if let Some(news) = self.news(&seen) {
                return Some(news);
            }
        }
    }

    /// Asks the nodes, once that is worth it or due.
    async fn look(&mut self) -> Inspected {
        let (host, voters) = (&self.inner.host, &self.inner.leases.voters);
        self.observing.is_worth_a_look(self.due).await;
        let survey = self.observing.look(self.inner.rules.round_timeout).await;
        let half = RARELY / 2;
        let jitter = Backoff { min: half, max: half }.pause(0, Duration::ZERO, host.random());
        // Nobody publishes that a hold has ended by itself.
        let ends = survey.heard().filter_map(|said| said.remaining).max().unwrap_or(RARELY);
        self.due = host.now() + ends.min(half + jitter);
        Inspected::new(voters, &survey)
    }

    /// Who leads, unless that, or something later, was seen before.
    fn news(&mut self, seen: &Inspected) -> Option<Leadership> {
        let (leader, told) = (seen.holder()?, seen.description()?);
        let this = Some((told.token, told.number));
        if this <= self.last {
            return None;
        }
        self.last = this;
        Some(Leadership { leader: leader.to_owned(), token: told.token, value: told.says.to_string() })
    }
}
