//! The same node in memory, by the letter of the script, with a clock that can be skewed.
//!
//! For doc examples, users' unit tests and simulations. That it answers as the script does is shown by random
//! sequences of operations (`tests/script.rs`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::operation::{Name, Operation, Verb};
use super::reply::{Inspection, Outcome};
use super::status::{NodeState, NodeStatus};
use super::{Node, Request};
use crate::host::Host;

/// For how long a fence is kept after its last change, unless 10 ttl are longer.
pub const FENCE_RETENTION: Duration = Duration::from_secs(3_600);

#[derive(Clone, Debug)]
struct Hold {
    owner: Arc<str>,
    count: u32,
    until: Duration,
}

#[derive(Clone, Debug)]
struct Fence {
    ballot: u64,
    until: Duration,
}

/// What a node stores. Its functions take the node's own time, so that a simulation can run it fast, slow or stepped.
#[derive(Clone, Debug, Default)]
pub struct Store {
    holds: BTreeMap<Name, Hold>,
    fences: BTreeMap<Name, Fence>,
    sweep_at: usize,
}

/// How many entries are kept at least before the expired ones are looked for.
const SWEEP: usize = 1_024;

impl Store {
    /// Carries out one operation at the node's time `now`, which is the time since any fixed origin.
    pub fn apply(&mut self, operation: &Operation, now: Duration) -> Outcome {
        self.expire(operation, now);
        match operation.verb {
            Verb::Claim => self.claim(operation, now),
            Verb::Renew => self.renew(operation, now),
            Verb::Release => self.release(operation, now),
            Verb::Inspect => self.inspect(operation, now),
        }
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_free(&self, now: Duration) -> bool {
        self.holds.values().all(|hold| hold.until <= now)
    }

    /// Forgets what has expired of the operation's names at once, and of all others now and then.
    fn expire(&mut self, operation: &Operation, now: Duration) {
        for name in operation.names.iter() {
            if self.holds.get(name).is_some_and(|hold| hold.until <= now) {
                self.holds.remove(name);
            }
            if self.fences.get(name).is_some_and(|fence| fence.until <= now) {
                self.fences.remove(name);
            }
        }
        if self.fences.len() >= self.sweep_at {
            self.holds.retain(|_, hold| hold.until > now);
            self.fences.retain(|_, fence| fence.until > now);
            self.sweep_at = SWEEP + 2 * self.fences.len();
        }
    }

    fn claim(&mut self, claim: &Operation, now: Duration) -> Outcome {
        if let Some(refusal) = claim.names.iter().find_map(|name| self.refusal(claim, name, now)) {
            return refusal;
        }
        for name in claim.names.iter() {
            self.hold(claim, name, now);
            self.raise(claim, name, now);
        }
        Outcome::Granted
    }

    fn refusal(&self, claim: &Operation, name: &Name, now: Duration) -> Option<Outcome> {
        let fence = self.fence(name);
        match self.holds.get(name) {
            Some(hold) if hold.owner == claim.owner => None,
            Some(hold) => {
                Some(Outcome::Held { holder: hold.owner.to_string(), remaining: Some(left(hold, now)), fence })
            }
            None => (claim.ballot <= fence).then_some(Outcome::Stale { fence }),
        }
    }

    fn renew(&mut self, renewal: &Operation, now: Duration) -> Outcome {
        let stranger = |name: &Name| self.holds.get(name).filter(|hold| hold.owner != renewal.owner);
        if let Some(hold) = renewal.names.iter().find_map(stranger) {
            return Outcome::Lost { holder: hold.owner.to_string() };
        }
        let mut outcome = Outcome::Extended;
        for name in renewal.names.iter() {
            if let Some(hold) = self.holds.get_mut(name) {
                hold.until = now + millis(renewal.ttl);
            } else {
                outcome = Outcome::Healed;
                self.hold(renewal, name, now);
                self.raise(renewal, name, now);
            }
        }
        outcome
    }

    fn release(&mut self, release: &Operation, now: Duration) -> Outcome {
        let mut held = 0;
        for name in release.names.iter() {
            if self.holds.get(name).is_some_and(|hold| hold.owner == release.owner) {
                self.holds.remove(name);
                held += 1;
            }
            self.raise(release, name, now);
        }
        Outcome::Released { held }
    }

    fn inspect(&self, question: &Operation, now: Duration) -> Outcome {
        let entry = |name: &Name| {
            let fence = self.fence(name);
            self.holds.get(name).map_or_else(
                || Inspection::free(fence),
                |hold| Inspection::held(hold.owner.to_string(), hold.count, Some(left(hold, now)), fence),
            )
        };
        Outcome::Inspected(question.names.iter().map(entry).collect())
    }

    fn hold(&mut self, operation: &Operation, name: &Name, now: Duration) {
        let hold = Hold { owner: operation.owner.clone(), count: operation.count, until: now + millis(operation.ttl) };
        self.holds.insert(name.clone(), hold);
    }

    fn fence(&self, name: &Name) -> u64 {
        self.fences.get(name).map_or(0, |fence| fence.ballot)
    }

    fn raise(&mut self, operation: &Operation, name: &Name, now: Duration) {
        if operation.ballot > self.fence(name) {
            let kept = FENCE_RETENTION.max(millis(operation.ttl) * 10);
            self.fences.insert(name.clone(), Fence { ballot: operation.ballot, until: now + kept });
        }
    }
}

/// Nodes count whole milliseconds.
fn millis(ttl: Duration) -> Duration {
    Duration::from_millis(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
}

fn left(hold: &Hold, now: Duration) -> Duration {
    hold.until.saturating_sub(now)
}

/// A node in memory that answers at once.
#[derive(Debug)]
pub struct MemoryNode {
    label: Arc<str>,
    host: Arc<dyn Host>,
    store: Mutex<Store>,
}

impl MemoryNode {
    /// An empty node that takes the time from `host`.
    #[must_use]
    pub fn new(label: &str, host: Arc<dyn Host>) -> Self {
        Self { label: label.into(), host, store: Mutex::default() }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node for MemoryNode {
    fn label(&self) -> &Arc<str> {
        &self.label
    }

    fn submit(&self, request: Request) {
        let outcome = self.store().apply(&request.operation, self.host.now().since_origin());
        request.reply.send(Ok(outcome));
    }

    fn status(&self) -> NodeStatus {
        NodeStatus::new(self.label.clone(), NodeState::Up)
    }
}
