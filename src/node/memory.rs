//! The same node in memory, by the letter of the script, with a clock that can be skewed.
//!
//! For doc examples, users' unit tests and simulations. That it answers as the script does is shown by random
//! sequences of operations (`tests/script.rs`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::hint::{Hint, Listener};
use super::operation::{Name, Operation, Stance, Verb};
use super::reply::{Inspection, Outcome};
use super::status::{NodeState, NodeStatus};
use super::{Node, Request};
use crate::host::Host;

mod line;

use line::Line;

/// For how long a fence is kept after its last change, unless 10 ttl are longer.
pub const FENCE_RETENTION: Duration = Duration::from_secs(3_600);

/// No turn lasts longer, whatever the node's clock says.
const LONGEST_TURN: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Hold {
    owner: Arc<str>,
    count: u32,
    until: Duration,
}

/// What a node keeps of a name beside who holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Gate {
    fence: u64,
    /// Who may claim the free name first, until when.
    turn: Option<(Arc<str>, Duration)>,
    line: Line,
    until: Duration,
}

/// What a node stores. Its functions take the node's own time, so that a simulation can run it fast, slow or stepped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Store {
    holds: BTreeMap<Name, Hold>,
    gates: BTreeMap<Name, Gate>,
    hints: Vec<Hint>,
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
            Verb::Pass => self.pass(operation, now),
            Verb::Renew => self.renew(operation, now),
            Verb::Release => self.release(operation, now),
            Verb::Inspect => self.inspect(operation, now),
        }
    }

    /// Takes what was published since the last time.
    pub fn hints(&mut self) -> Vec<Hint> {
        std::mem::take(&mut self.hints)
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_free(&self, now: Duration) -> bool {
        self.holds.values().all(|hold| hold.until <= now)
    }

    /// Whether nobody waits in any line.
    #[must_use]
    pub fn is_idle(&self, now: Duration) -> bool {
        self.gates.values().all(|gate| gate.line.len(now) == 0)
    }

    /// Whether an acquisition stands in the line of a name.
    #[must_use]
    pub fn waits(&self, name: &Name, acquisition: &str, now: Duration) -> bool {
        self.gates.get(name).is_some_and(|gate| gate.line.contains(acquisition, now))
    }

    /// Forgets what has expired of the operation's names at once, and of all others now and then.
    fn expire(&mut self, operation: &Operation, now: Duration) {
        for name in operation.names.iter() {
            if self.holds.get(name).is_some_and(|hold| hold.until <= now) {
                self.holds.remove(name);
            }
            if self.gates.get(name).is_some_and(|gate| gate.until <= now) {
                self.gates.remove(name);
            }
            if let Some(gate) = self.gates.get_mut(name) {
                gate.line.expire(now);
                // A turn that is longer than any: the node's clock was set back since it was given.
                gate.turn.take_if(|(_, until)| *until <= now || *until > now + LONGEST_TURN);
            }
        }
        if self.gates.len() >= self.sweep_at {
            self.holds.retain(|_, hold| hold.until > now);
            self.gates.retain(|_, gate| gate.until > now);
            self.sweep_at = SWEEP + 2 * self.gates.len();
        }
    }

    fn claim(&mut self, claim: &Operation, now: Duration) -> Outcome {
        for name in claim.names.iter() {
            if let Some(refusal) = self.refusal(claim, name, now) {
                return refusal;
            }
        }
        for name in claim.names.iter() {
            self.take(claim, name, now);
        }
        Outcome::Granted
    }

    /// Takes a name that nothing refuses: its line is left, and the turn is over.
    fn take(&mut self, claim: &Operation, name: &Name, now: Duration) {
        self.hold(claim, name, now);
        self.raise(claim, name, now);
        if let Some(gate) = self.gates.get_mut(name) {
            gate.line.leave(Operation::acquisition(&claim.owner));
            gate.turn = None;
        }
    }

    fn refusal(&mut self, claim: &Operation, name: &Name, now: Duration) -> Option<Outcome> {
        let fence = self.fence(name);
        match self.holds.get(name) {
            Some(hold) if hold.owner == claim.owner => None,
            Some(hold) => {
                let (holder, remaining) = (hold.owner.to_string(), Some(left(hold, now)));
                self.join(claim, name, now);
                Some(Outcome::Held { holder, remaining, fence })
            }
            None if claim.ballot <= fence => Some(Outcome::Stale { fence }),
            None => {
                let (turn, left, due) = self.before(claim, name, now)?;
                self.join(claim, name, now);
                if due {
                    self.give(claim, name, now);
                }
                let me = Operation::acquisition(&claim.owner);
                let first = self.gates.get(name).and_then(|gate| gate.line.first());
                let next =
                    matches!(claim.stance, Stance::Wait { .. }) && first.is_some_and(|(_, first)| **first == *me);
                Some(Outcome::Reserved { turn: turn.to_string(), left, fence, next })
            }
        }
    }

    /// Who comes before this claim to the free name, for how long, and whether the turn is still to be given.
    fn before(&self, claim: &Operation, name: &Name, now: Duration) -> Option<(Arc<str>, Duration, bool)> {
        let gate = self.gates.get(name).filter(|_| claim.stance != Stance::Barge)?;
        let me = Operation::acquisition(&claim.owner);
        if let Some((turn, until)) = &gate.turn {
            return (**turn != *me).then(|| (turn.clone(), whole_millis(until.saturating_sub(now)), false));
        }
        let (ticket, first) = gate.line.first().filter(|(_, first)| ***first != *me)?;
        match claim.stance {
            Stance::Wait { ticket: mine, .. } if (mine, me) < (ticket, &**first) => None,
            _ => Some((first.clone(), millis(claim.grace), true)),
        }
    }

    fn pass(&mut self, pass: &Operation, now: Duration) -> Outcome {
        let next = Operation { verb: Verb::Claim, owner: pass.claimant().clone(), next: None, ..pass.clone() };
        let held = |name: &Name| self.holds.get(name).is_some_and(|hold| hold.owner == pass.owner);
        let mine = pass.names.iter().all(held);
        let highest = pass.names.iter().map(|name| self.fence(name)).find(|fence| pass.ballot <= *fence);
        if let Some(fence) = highest.filter(|_| mine) {
            return Outcome::Stale { fence };
        }
        for name in pass.names.iter() {
            if let Some(gate) = self.gates.get_mut(name) {
                gate.line.leave(Operation::acquisition(&pass.owner));
            }
        }
        if !mine {
            return self.claim(&next, now);
        }
        let mut waiting = false;
        for name in pass.names.iter() {
            let turn = self.gates.get(name).and_then(|gate| gate.turn.clone());
            self.take(&next, name, now);
            if let Some(gate) = self.gates.get_mut(name) {
                gate.turn = turn;
                waiting |= gate.line.len(now) > 0;
            }
        }
        Outcome::Passed { waiting }
    }

    fn renew(&mut self, renewal: &Operation, now: Duration) -> Outcome {
        let stranger = |name: &Name| match self.holds.get(name) {
            Some(hold) if hold.owner == renewal.owner => None,
            Some(hold) => Some(hold.owner.clone()),
            None => self.gates.get(name)?.turn.as_ref().map(|(turn, _)| turn.clone()),
        };
        if let Some(holder) = renewal.names.iter().find_map(stranger) {
            return Outcome::Lost { holder: holder.to_string() };
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
            self.queue_after_release(release, name, now);
        }
        Outcome::Released { held }
    }

    /// Leaves the line or stays in it, and gives the first its turn if the name is free now.
    fn queue_after_release(&mut self, release: &Operation, name: &Name, now: Duration) {
        let me = Operation::acquisition(&release.owner);
        if matches!(release.stance, Stance::Wait { .. }) {
            self.join(release, name, now);
        }
        let free = !self.holds.contains_key(name);
        let Some(gate) = self.gates.get_mut(name) else { return };
        if !matches!(release.stance, Stance::Wait { .. }) {
            gate.line.leave(me);
        }
        gate.turn.take_if(|(turn, _)| **turn == *me);
        if free && gate.turn.is_none() {
            self.give(release, name, now);
        }
    }

    fn inspect(&self, question: &Operation, now: Duration) -> Outcome {
        let entry = |name: &Name| {
            let fence = self.fence(name);
            let gate = self.gates.get(name);
            let entry = self.holds.get(name).map_or_else(
                || Inspection::free(fence),
                |hold| Inspection::held(hold.owner.to_string(), hold.count, Some(left(hold, now)), fence),
            );
            let turn = gate.and_then(|gate| gate.turn.as_ref());
            let turn = turn.map(|(who, until)| (who.to_string(), whole_millis(until.saturating_sub(now))));
            entry.with_line(gate.map_or(0, |gate| gate.line.len(now)), turn)
        };
        Outcome::Inspected(question.names.iter().map(entry).collect())
    }

    fn hold(&mut self, operation: &Operation, name: &Name, now: Duration) {
        let hold = Hold { owner: operation.owner.clone(), count: operation.count, until: now + millis(operation.ttl) };
        self.holds.insert(name.clone(), hold);
    }

    fn fence(&self, name: &Name) -> u64 {
        self.gates.get(name).map_or(0, |gate| gate.fence)
    }

    fn raise(&mut self, operation: &Operation, name: &Name, now: Duration) {
        if operation.ballot > self.fence(name) {
            self.gate(operation, name, now).fence = operation.ballot;
        }
    }

    fn join(&mut self, operation: &Operation, name: &Name, now: Duration) {
        if let Stance::Wait { ticket, patience } = operation.stance {
            let until = now + millis(patience.max(Duration::from_millis(1)));
            let acquisition = Operation::acquisition(&operation.owner).into();
            self.gate(operation, name, now).line.join(ticket, acquisition, until);
        }
    }

    /// Gives the first in line its turn, which takes it out of the line, and tells the one behind it when to ask.
    fn give(&mut self, operation: &Operation, name: &Name, now: Duration) {
        let grace = millis(operation.grace);
        let Some(gate) = self.gates.get_mut(name) else { return };
        let Some(first) = gate.line.pop() else { return };
        gate.turn = Some((first.clone(), now + grace)).filter(|_| !grace.is_zero());
        let behind = gate.line.first().map(|(_, behind)| behind.clone());
        self.gate(operation, name, now);
        self.hints.push(Hint { acquisition: first, after: Duration::ZERO });
        self.hints.extend(behind.map(|acquisition| Hint { acquisition, after: grace }));
    }

    /// The gate, about to change.
    fn gate(&mut self, operation: &Operation, name: &Name, now: Duration) -> &mut Gate {
        let gate = self.gates.entry(name.clone()).or_default();
        gate.until = now + FENCE_RETENTION.max(millis(operation.ttl) * 10);
        gate
    }
}

/// Nodes count whole milliseconds.
fn millis(ttl: Duration) -> Duration {
    Duration::from_millis(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
}

/// What is left, rounded up as a node does whose clock is cut to whole milliseconds.
fn whole_millis(left: Duration) -> Duration {
    millis(left + Duration::from_nanos(999_999))
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
    listeners: Mutex<Vec<(usize, Weak<dyn Listener>)>>,
}

impl MemoryNode {
    /// An empty node that takes the time from `host`.
    #[must_use]
    pub fn new(label: &str, host: Arc<dyn Host>) -> Self {
        Self { label: label.into(), host, store: Mutex::default(), listeners: Mutex::default() }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, hints: Vec<Hint>) {
        let listeners = self.listeners().clone();
        for (index, listener) in listeners.iter().filter_map(|(index, listener)| Some((*index, listener.upgrade()?))) {
            hints.iter().for_each(|hint| listener.hint(index, hint));
        }
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<(usize, Weak<dyn Listener>)>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node for MemoryNode {
    fn label(&self) -> &Arc<str> {
        &self.label
    }

    fn submit(&self, request: Request) {
        let mut store = self.store();
        let outcome = store.apply(&request.operation, self.host.now().since_origin());
        let hints = store.hints();
        drop(store);
        request.reply.send(Ok(outcome));
        if !hints.is_empty() {
            self.publish(hints);
        }
    }

    fn listen(&self, index: usize, listener: Arc<dyn Listener>) {
        let mut listeners = self.listeners();
        listeners.retain(|(_, known)| known.strong_count() > 0);
        listeners.push((index, Arc::downgrade(&listener)));
    }

    fn hints(&self) -> bool {
        true
    }

    fn clock_ahead(&self) -> Option<i128> {
        Some(0)
    }

    fn status(&self) -> NodeStatus {
        NodeStatus::new(self.label.clone(), NodeState::Up)
    }
}
