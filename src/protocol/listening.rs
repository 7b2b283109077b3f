//! Receives the pushes and hints for one acquisition, and notes the nodes' replies. These replies
//! decide which pushes count.

use std::sync::{Arc, Weak};

use super::push_receiver::{Heard, PushReceiver, Releases};
use super::wakeups::{PushOutcome, Wakeups};
use crate::node::{Claim, Outcome, Reply};
use crate::rules::handover::{Handovers, Registered};
use crate::rules::{NodeSet, Tick, Validity};

/// Passes the replies to one ask on to the owner's receiver.
#[derive(Debug)]
pub(super) struct Watch {
    receiver: Arc<PushReceiver>,
    owner: Arc<str>,
    t0: Tick,
    lasts: Option<Validity>,
    /// Whether this ask is the first claim of its owner.
    first: bool,
}

impl Watch {
    /// Wakes the owner's task, so that it counts the votes again.
    pub(super) fn wake(&self) {
        self.receiver.news.notify_one();
    }

    /// Takes note of a node's reply. Call this for the messages of one node in the order in which
    /// they came. Returns whether any node has handed the name over to this owner.
    pub(super) fn heard(&self, node: usize, reply: &Reply) -> bool {
        let queued = match reply {
            Ok(Outcome::Held { queued, .. }) => *queued,
            Ok(Outcome::Granted { .. }) => {
                return self.receiver.of(&self.owner, |state| {
                    state.handed.granted(node);
                    state.heard.late = true;
                });
            }
            Ok(Outcome::Stale { .. }) => return self.receiver.of(&self.owner, |state| state.handed.stale(node)),
            _ => return false,
        };
        let registered = self.lasts.zip(queued).map(|(lasts, queued)| Registered {
            t0: self.t0,
            lasts,
            stamp: queued.stamp,
            rank: queued.rank,
            first: self.first,
        });
        let is_near = queued.is_some_and(|queued| queued.rank <= 2);
        let mut asks_earlier = false;
        let is_handed = self.receiver.of(&self.owner, |state| {
            state.handed.refused(node, registered);
            asks_earlier = is_near && state.ask_soon();
        });
        if asks_earlier {
            self.wake();
        }
        is_handed
    }
}

/// Receives the pushes and hints for one acquisition until this value is dropped.
#[derive(Debug)]
pub(super) struct Listening {
    wakeups: Arc<Wakeups>,
    number: u64,
    hearing: PushOutcome,
}

impl Listening {
    pub(super) fn begin(wakeups: &Arc<Wakeups>, number: u64) -> Self {
        let receiver = Arc::new(PushReceiver::new());
        wakeups.add(number, receiver.clone());
        Self { wakeups: wakeups.clone(), number, hearing: PushOutcome::PushReceiver(receiver) }
    }

    /// Call this before `claim` is sent, at `t0`. Forgets all messages except hand-overs. `lasts`
    /// is how long a hand-over after this claim lasts, if the claim waits.
    pub(super) fn asks(&self, claim: &Claim, t0: Tick, lasts: Option<Validity>) -> Option<Watch> {
        let receiver = self.receiver()?;
        let first = receiver.asks(claim, t0, lasts.map(Validity::ttl).unwrap_or_default());
        Some(Watch { receiver: receiver.clone(), owner: claim.owner.clone(), t0, lasts, first })
    }

    pub(super) fn heard(&self) -> Option<Heard> {
        self.receiver().map(|receiver| receiver.heard())
    }

    pub(super) fn handed(&self) -> Handovers {
        self.receiver().map(|receiver| receiver.handed()).unwrap_or_default()
    }

    /// Withdraws all grants so far: see [`PushReceiver::withdraw`].
    pub(super) fn withdraw(&self, asked: u64, targets: impl Fn(&Handovers) -> NodeSet) -> (NodeSet, u64) {
        self.receiver()
            .map_or_else(|| (targets(&Handovers::default()), asked), |receiver| receiver.withdraw(asked, &targets))
    }

    /// Sets the release that ends the acquisition. A push from a node needs no other release if
    /// this release is still under way to that node.
    pub(super) fn release(&self, release: Weak<dyn Releases>) {
        match self.receiver() {
            Some(receiver) => receiver.release(release),
            None => self.wakeups.turn(self.number, PushOutcome::Ended(release)),
        }
    }

    /// Ends the acquisition, and returns the hand-overs so far. Later hand-overs are released.
    pub(super) fn end(&self) -> Handovers {
        self.receiver().map(|receiver| receiver.end()).unwrap_or_default()
    }

    /// Waits for a message, or a late grant.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn news(&self) {
        match self.receiver() {
            Some(receiver) => receiver.news.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Call this once the acquisition holds the lock as `owner`. A holder needs no receiver.
    pub(super) fn rest(&mut self, owner: &Arc<str>) {
        let holds = PushOutcome::Holds(owner.clone());
        self.wakeups.turn(self.number, holds.clone());
        // Another thread may be delivering a message to the receiver. So change the receiver's mode
        // too.
        self.receiver().into_iter().for_each(|receiver| receiver.hold());
        self.hearing = holds;
    }

    fn receiver(&self) -> Option<&Arc<PushReceiver>> {
        match &self.hearing {
            PushOutcome::PushReceiver(receiver) => Some(receiver),
            PushOutcome::Holds(_) | PushOutcome::Ended(_) => None,
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.wakeups.remove(self.number);
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use tokio::runtime::Handle;

    use super::*;
    use crate::host::TokioTime;
    use crate::metrics::Meters;
    use crate::node::{Kind, Queued};
    use crate::rules::Drift;

    #[tokio::test]
    async fn waiter_asks_soon_after_a_late_reply_ranks_it_second() {
        let host = Arc::new(TokioTime::new(Handle::current()));
        let wakeups = Wakeups::new("client".to_owned(), host, Meters::new("default".into(), 1, 2).hints());
        let listening = Listening::begin(&wakeups, 7);
        let (claim, lasts) = (Claim::sample("a", "client/7", 1), Validity::new(Duration::from_secs(2), Drift::default()));
        let t0 = Tick::new(Duration::from_secs(100));
        let watch = listening.asks(&claim, t0, Some(lasts)).unwrap();
        let told = |rank| {
            let queued = Queued::of(rank);
            Ok(Outcome::Held { holder: "other".into(), kind: Kind::Lock, remaining: None, fence: 0, queued })
        };
        watch.heard(0, &told(3));
        assert_eq!(listening.heard().unwrap().ask_at, Tick::NEVER);
        watch.heard(1, &told(2));
        assert_eq!(listening.heard().unwrap().ask_at, t0 + lasts.ttl() / 4);
        listening.news().now_or_never().expect("the late reply wakes the waiter");
        watch.heard(2, &told(1));
        assert!(listening.news().now_or_never().is_none(), "it will ask soon already");
    }

    #[tokio::test]
    async fn acquisition_released_while_it_rested_leaves_no_entry() {
        let host = Arc::new(TokioTime::new(Handle::current()));
        let wakeups = Wakeups::new("client".to_owned(), host, Meters::new("default".into(), 1, 2).hints());
        let mut listening = Listening::begin(&wakeups, 7);
        listening.rest(&"client/7".into());
        let release: Weak<dyn Releases> = Weak::<Never>::new();
        listening.release(release);
        assert!(wakeups.is_there(7));
        drop(listening);
        assert!(!wakeups.is_there(7));
    }

    #[derive(Debug)]
    struct Never;

    impl Releases for Never {
        fn is_under_way(&self, _: usize, _: &str) -> bool {
            false
        }
    }
}
