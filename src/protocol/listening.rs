//! An acquisition that listens, and what its asks take note of.

use std::sync::{Arc, Weak};

use super::ear::{Ear, Heard, Releases};
use super::hints::{Hearing, Hints};
use crate::node::{Claim, Outcome, Reply};
use crate::rules::handover::{Handovers, Registered};
use crate::rules::{NodeSet, Tick, Validity};

/// What an ask listens with: what nodes reply to it says what they may hand over.
#[derive(Debug)]
pub(super) struct Watch {
    ear: Arc<Ear>,
    owner: Arc<str>,
    t0: Tick,
    lasts: Option<Validity>,
    /// Whether it is the first claim of its owner.
    first: bool,
}

impl Watch {
    /// Lets its owner look at the votes once more.
    pub(super) fn wake(&self) {
        self.ear.news.notify_one();
    }

    /// A node answered, before anything else that it has said since. Returns whether the name was
    /// handed over anywhere.
    pub(super) fn heard(&self, node: usize, reply: &Reply) -> bool {
        let queued = match reply {
            Ok(Outcome::Held { queued, .. }) => *queued,
            Ok(Outcome::Granted { .. }) => {
                return self.ear.of(&self.owner, |state| {
                    state.handed.granted(node);
                    state.late = true;
                });
            }
            Ok(Outcome::Stale { .. }) => return self.ear.of(&self.owner, |state| state.handed.stale(node)),
            _ => return false,
        };
        let registered = self.lasts.zip(queued).map(|(lasts, queued)| Registered {
            t0: self.t0,
            lasts,
            stamp: queued.stamp,
            rank: queued.rank,
            first: self.first,
        });
        self.ear.of(&self.owner, |state| state.handed.refused(node, registered))
    }
}

/// One acquisition that listens. Dropping it stops listening.
#[derive(Debug)]
pub(super) struct Listening {
    hints: Arc<Hints>,
    number: u64,
    hearing: Hearing,
}

impl Listening {
    /// Listens for acquisition `number` until it is dropped.
    pub(super) fn begin(hints: &Arc<Hints>, number: u64) -> Self {
        let ear = Arc::new(Ear::new());
        hints.add(number, ear.clone());
        Self { hints: hints.clone(), number, hearing: Hearing::Ear(ear) }
    }

    /// `claim` is about to ask everyone at `t0`. Forgets what was heard, but for what was handed
    /// over. What it is asked with says what nodes may hand over from now on:
    /// `lasts`, if anything.
    pub(super) fn asks(&self, claim: &Claim, t0: Tick, lasts: Option<Validity>) -> Option<Watch> {
        let ear = self.ear()?;
        let first = ear.asks(claim, t0, lasts.map(Validity::ttl).unwrap_or_default());
        Some(Watch { ear: ear.clone(), owner: claim.owner.clone(), t0, lasts, first })
    }

    /// What was heard since.
    pub(super) fn heard(&self) -> Option<Heard> {
        self.ear().map(|ear| ear.heard())
    }

    /// What was handed over.
    pub(super) fn handed(&self) -> Handovers {
        self.ear().map(|ear| ear.handed()).unwrap_or_default()
    }

    /// What was granted so far is withdrawn: see [`Ear::withdraw`].
    pub(super) fn withdraw(&self, asked: u64, whom: impl Fn(&Handovers) -> NodeSet) -> (NodeSet, u64) {
        self.ear().map_or_else(|| (whom(&Handovers::default()), asked), |ear| ear.withdraw(asked, &whom))
    }

    /// The acquisition has ended, and is released by this: as long as a node has that
    /// before it, nothing else needs to be given back there.
    pub(super) fn release(&self, release: Weak<dyn Releases>) {
        match self.ear() {
            Some(ear) => ear.release(release),
            None => self.hints.turn(self.number, &self.hearing, Hearing::Ended(release)),
        }
    }

    /// The acquisition has ended. What was handed over so far; what is from now on is given back.
    pub(super) fn end(&self) -> Handovers {
        self.ear().map(|ear| ear.end()).unwrap_or_default()
    }

    /// Waits until something was heard.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn news(&self) {
        match self.ear() {
            Some(ear) => ear.news.notified().await,
            None => std::future::pending().await,
        }
    }

    /// From now on it holds the lock as `owner`: an ear would be kept for nothing, as long as that
    /// lasts.
    pub(super) fn rest(&mut self, owner: &Arc<str>) {
        let holds = Hearing::Holds(owner.clone());
        self.hints.turn(self.number, &self.hearing, holds.clone());
        // Whoever hears something now has the ear still.
        self.ear().into_iter().for_each(|ear| ear.hold());
        self.hearing = holds;
    }

    fn ear(&self) -> Option<&Arc<Ear>> {
        match &self.hearing {
            Hearing::Ear(ear) => Some(ear),
            Hearing::Holds(_) | Hearing::Ended(_) => None,
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.hints.remove(self.number, &self.hearing);
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::*;
    use crate::host::TokioTime;
    use crate::metrics::Meters;

    #[tokio::test]
    async fn a_reader_listens_on_when_the_writer_has_gone_that_it_followed() {
        let host = Arc::new(TokioTime::new(Handle::current()));
        let hints = Hints::new("client".to_owned(), host, Meters::new("default".into(), 1, 2).hints());
        for rests in [false, true] {
            let mut writer = Listening::begin(&hints, 7);
            if rests {
                writer.rest(&"client/7".into());
            }
            let mut reader = Listening::begin(&hints, 7);
            drop(writer);
            assert!(hints.is_there(7));
            if rests {
                reader.rest(&"client/s7".into());
            }
            drop(reader);
            assert!(!hints.is_there(7), "nothing is left");
        }
    }

    #[tokio::test]
    async fn whoever_was_released_while_it_rested_leaves_nothing() {
        let host = Arc::new(TokioTime::new(Handle::current()));
        let hints = Hints::new("client".to_owned(), host, Meters::new("default".into(), 1, 2).hints());
        let mut listening = Listening::begin(&hints, 7);
        listening.rest(&"client/7".into());
        let release: Weak<dyn Releases> = Weak::<Never>::new();
        listening.release(release);
        assert!(hints.is_there(7));
        drop(listening);
        assert!(!hints.is_there(7));
    }

    #[derive(Debug)]
    struct Never;

    impl Releases for Never {
        fn is_under_way(&self, _: usize, _: &str) -> bool {
            false
        }
    }
}
