//! Who leads, as somebody sees it who looks again and again.

use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use futures::stream::unfold;

use super::inner::Inner;
use super::mutex::QuorumLock;
use crate::error::Result;
use crate::host::sleep_until;
use crate::node::Name;
use crate::protocol::{Inspected, Survey};
use crate::rules::{Backoff, Tick};

/// Nodes are asked again after half of that, and up to as much more.
const PACE: Duration = Duration::from_millis(500);

/// Somebody leads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leadership {
    /// Who: `host/pid/uuid/acquisition.round`.
    pub leader: String,
    /// Its fencing token, greater than that of every leader before.
    pub token: u64,
    /// What it proclaimed last; empty before that.
    pub value: String,
}

/// Looks who leads.
pub(super) struct Observer {
    inner: Arc<Inner>,
    name: Name,
    /// The token and the number of the value that were seen last.
    last: Option<(u64, u32)>,
    /// When to look again.
    due: Tick,
}

impl Observer {
    pub(super) fn new(lock: &QuorumLock) -> Result<Self> {
        let (inner, name) = lock.first()?;
        inner.usable()?;
        let due = inner.host.now();
        Ok(Self { inner, name, last: None, due })
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

    /// Asks the nodes, when that is due.
    async fn look(&mut self) -> Inspected {
        let (host, voters) = (&self.inner.host, &self.inner.leases.voters);
        sleep_until(host, self.due).await;
        let survey = Survey::of(voters, &self.name, self.inner.rules.round_timeout).await;
        let half = PACE / 2;
        let jitter = Backoff { min: half, max: half }.pause(0, Duration::ZERO, host.random());
        self.due = host.now() + half + jitter;
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
