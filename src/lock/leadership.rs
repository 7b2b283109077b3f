//! Observes which owner leads. Nodes publish a message after a change, and the message makes the
//! observer ask the nodes.

use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use futures::stream::unfold;

use super::inner::Inner;
use super::mutex::QuorumLock;
use crate::error::Result;
use crate::protocol::{Inspected, Observing};
use crate::rules::{Backoff, Tick};

/// Published messages can be lost, so observers also ask without a message: after this time at
/// most, and after half of it at least, at random.
const RARELY: Duration = Duration::from_secs(5);

/// One leader, and the value that it proclaimed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leadership {
    /// The leader's owner id: `host/pid/uuid/number`.
    pub leader: String,
    /// The leader's fencing token, greater than the token of every earlier leader.
    pub token: u64,
    /// The value that the leader proclaimed last; empty if there is none.
    pub value: String,
}

/// Asks which owner leads: when a node publishes a change, when a hold expires, and at random
/// times. Makes one inspection at a time, however many nodes publish.
pub(super) struct Observer {
    inner: Arc<Inner>,
    observing: Observing,
    /// The token of the last leader in the stream, and the number of its value.
    last: Option<(u64, u32)>,
    /// When to ask again if no message comes earlier.
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

    /// The next change; `None` after a shutdown.
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

    /// Waits for a message, or until the next inspection is due. Then asks the nodes.
    async fn look(&mut self) -> Inspected {
        let (host, voters) = (&self.inner.host, &self.inner.leases.voters);
        self.observing.is_worth_a_look(self.due).await;
        let survey = self.observing.look(self.inner.rules.round_timeout).await;
        let half = RARELY / 2;
        let jitter = Backoff { min: half, max: half }.pause(0, Duration::ZERO, host.random());
        // Nodes do not publish that a hold has expired.
        let ends = survey.heard().filter_map(|said| said.remaining).max().unwrap_or(RARELY);
        self.due = host.now() + ends.min(half + jitter);
        Inspected::new(voters, &survey)
    }

    /// The leader, if its token or its value is newer than what the stream returned last.
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
