//! Names that are free on a node though somebody waits for them there. Whoever touches such a name
//! hands it over, and waiters ask again: the first two of a queue four times as long as a hand-over
//! lasts, the others by what they said. So it does not last.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::{Name, Operation, Outcome, Verb};

use crate::faults::Action;
use crate::judge::history::{Micros, What};
use crate::recorder::letter;
use crate::world::{Core, Event, micros};

/// Timers, and tasks that run late.
const LATE: Duration = Duration::from_millis(50);

/// What is known of the waiters of each name, by node.
#[derive(Debug, Default)]
pub struct Idle(BTreeMap<(usize, Name), Waited>);

#[derive(Debug, Default)]
struct Waited {
    /// When each of them asks again, and how often it does.
    asks: BTreeMap<Arc<str>, (Micros, Micros)>,
    /// Since when the name is free for them, or will be; and by when it is somebody's.
    free: Option<(Micros, Micros)>,
    /// When that is looked at.
    looks: Option<Micros>,
    channel: Arc<str>,
    /// The server's process that knows of them.
    epoch: u32,
}

impl Core {
    /// A node has carried an operation out.
    pub fn waited(
        &mut self,
        now: Micros,
        node: usize,
        channel: &Arc<str>,
        (operation, outcome): (&Operation, &Outcome),
    ) {
        if !matches!(operation.verb(), Verb::Claim | Verb::Renew | Verb::Release | Verb::Withdraw) {
            return;
        }
        for name in operation.names() {
            let (left, live) = self.waiters(now, node, channel, name);
            if live.is_empty() && !self.idle.0.contains_key(&(node, name.clone())) {
                continue;
            }
            let (epoch, slack) = (self.servers[node].epoch, micros(8 * self.plan.farthest() + LATE));
            let waited = self.idle.0.entry((node, name.clone())).or_default();
            if let Some((owner, interval)) = asks(operation, outcome) {
                waited.asks.insert(owner, (now + interval, interval));
            }
            waited.asks.retain(|owner, _| live.contains(owner));
            let is_free = |&(since, _): &(Micros, Micros)| since <= now && left == 0 && waited.epoch == epoch;
            let since = now + left;
            let next = || waited.asks.values().map(|&(at, interval)| at.max(since) + interval).min();
            // Whoever touches it first may not know how high the ballot must be that it is handed over
            // with.
            let by = || Some((since, next()? + slack));
            waited.free = waited.free.filter(is_free).or_else(by).filter(|_| !live.is_empty());
            (waited.epoch, waited.channel) = (epoch, channel.clone());
            self.look_later(node, name);
        }
    }

    fn look_later(&mut self, node: usize, name: &Name) {
        let waited = self.idle.0.get_mut(&(node, name.clone()));
        if let Some(waited) = waited.filter(|waited| waited.looks.is_none())
            && let Some((_, by)) = waited.free
        {
            waited.looks = Some(by);
            self.schedule(by, Event::Act(Action::LookAtIdle(node, name.clone())));
        }
    }

    /// Looks whether a name is free that must not be by now.
    pub fn look_at_idle(&mut self, now: Micros, node: usize, name: &Name) {
        let Some(waited) = self.idle.0.get_mut(&(node, name.clone())) else { return };
        waited.looks = None;
        let (free, epoch, channel) = (waited.free, waited.epoch, waited.channel.clone());
        let Some((since, by)) = free else { return };
        if by > now {
            return self.look_later(node, name);
        }
        let (left, live) = self.waiters(now, node, &channel, name);
        let is_known = self.plan.tail == 0.0 && !self.holds_back() && epoch == self.servers[node].epoch;
        if let Some(first) = live.first().filter(|_| is_known && left == 0) {
            let owner = self.history.owner(0, first);
            self.history.record(now, What::Idle { node: node as u8, name: letter(name), owner, since, by });
        }
    }

    /// In how long a name is free for the first that waits for it, and who waits.
    fn waiters(&self, now: Micros, node: usize, channel: &str, name: &Name) -> (Micros, Vec<Arc<str>>) {
        let alive = |number: usize| !self.processes[self.connections[number].process].dead;
        self.servers[node].waited_for(name, now, channel, alive)
    }
}

/// Who waits from now on, and in how long it asks again, by the slowest clock.
fn asks(operation: &Operation, outcome: &Outcome) -> Option<(Arc<str>, Micros)> {
    let Operation::Claim(claim) = operation else { return None };
    let (waiter, Outcome::Held { queued, .. }) = (claim.waiter?, outcome) else { return None };
    let interval = micros(if (*queued)?.rank <= 2 { waiter.lasts / 4 } else { waiter.again });
    Some((claim.owner.clone(), interval + interval / 100))
}
