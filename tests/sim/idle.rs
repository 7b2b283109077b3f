//! Checks that no name stays free on a node while a live waiter has a place there. The next claim
//! of a waiter, or of another owner, hands such a name over. Waiters claim by themselves: the first
//! two in the queue ask every H / 4, where H is the time for which a hand-over lasts. The other
//! waiters ask after the time that they announced. A waiter that becomes the first or the second
//! gets a hint. A waiter that has failed, and has withdrawn, first pauses: the longer, the more
//! often it has failed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::{Name, Operation, Outcome, Verb};
use quorumlock::rules::waiting::gathering;

use crate::faults::Action;
use crate::judge::history::{Micros, What};
use crate::recorder::letter;
use crate::world::{Core, Event, micros};

/// Allowance for timers and tasks that run late.
const LATE: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub struct Idle {
    /// The waiters of each name on each node.
    waited: BTreeMap<(usize, Name), Waited>,
    /// The ballot of each owner's last withdrawal, and how many ballots the owner has withdrawn.
    withdrawn: BTreeMap<Arc<str>, (u64, u32)>,
}

/// When the name must be held again at the latest, if this waiter asks in time.
type Due = (Micros, Arc<str>);

#[derive(Debug, Default)]
struct Waited {
    asks: BTreeMap<Arc<str>, Asks>,
    /// From when the name is free for its waiters, and the earliest dues first. Each waiter has its
    /// own: a waiter that holds the name by the votes of other nodes does not ask any more, but the
    /// waiters behind it do.
    free: Option<(Micros, Vec<Due>)>,
    /// When the simulation checks the name next.
    looks: Option<Micros>,
    channel: Arc<str>,
    /// The number of the server process that has these waiters.
    epoch: u32,
}

/// When a waiter asked last, and how long until it asks again: without a hint (`itself`), and after
/// a hint (`told`).
#[derive(Debug)]
struct Asks {
    last: Micros,
    itself: Micros,
    told: Micros,
}

impl Idle {
    /// The longest time for which an owner pauses. It has failed once for each withdrawn ballot, and
    /// perhaps once more.
    fn longest_pause(&self, owner: &str, round_trip: Duration) -> Micros {
        let failures = self.withdrawn.get(owner).map_or(0, |(_, count)| *count);
        if failures == 0 { 0 } else { slow(2 * gathering(round_trip, failures)) }
    }
}

impl Core {
    /// Updates the waiters of a node after an operation that the node has carried out.
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
        if let Operation::Withdraw(release) = operation {
            let (last, count) = self.idle.withdrawn.entry(release.owner.clone()).or_default();
            *count += u32::from(release.ballot > *last);
            *last = release.ballot.max(*last);
        }
        for name in operation.names() {
            let (left, live) = self.waiters(now, node, channel, name);
            if live.is_empty() && !self.idle.waited.contains_key(&(node, name.clone())) {
                continue;
            }
            // Whether all hints are delivered.
            let heard = self.plan.hints[0].0 == 0;
            let (epoch, slack) = (self.servers[node].epoch, micros(8 * self.plan.farthest() + LATE));
            let round_trip = 4 * self.plan.farthest();
            let pauses: Vec<_> = live.iter().map(|owner| self.idle.longest_pause(owner, round_trip)).collect();
            let waited = self.idle.waited.entry((node, name.clone())).or_default();
            waited.asks.extend(asks(now, operation, outcome));
            waited.asks.retain(|owner, _| live.contains(owner));
            let is_same = left == 0 && waited.epoch == epoch;
            let free = waited.free.take().filter(|(since, _)| *since <= now && is_same);
            let since = now + left;
            // Allows for two asks: the hand-over ballot of the first ask may be too low for the
            // node.
            let by = |(place, owner): (usize, &Arc<str>)| {
                let asks = waited.asks.get(owner)?;
                let itself = asks.itself.max(pauses[place]);
                let often = if place < 2 && heard { itself.min(asks.told.max(pauses[place])) } else { itself };
                Some(((asks.last + often).max(since) + often + slack, owner.clone()))
            };
            let all = || {
                let mut dues: Vec<Due> = live.iter().enumerate().filter_map(by).collect();
                dues.sort_unstable();
                (!dues.is_empty()).then_some((since, dues))
            };
            waited.free = free.or_else(all).filter(|_| !live.is_empty());
            (waited.epoch, waited.channel) = (epoch, channel.clone());
            self.look_after(0, node, name);
        }
    }

    /// Looks at the first due after this time.
    fn look_after(&mut self, time: Micros, node: usize, name: &Name) {
        let Some(waited) = self.idle.waited.get_mut(&(node, name.clone())) else { return };
        let mut dues = waited.free.iter().flat_map(|(_, dues)| dues).map(|due| due.0);
        if let Some(by) = dues.find(|&by| by > time && waited.looks.is_none_or(|looks| by < looks)) {
            waited.looks = Some(by);
            self.schedule(by, Event::Act(Action::LookAtIdle(node, name.clone())));
        }
    }

    /// If all dues have passed, looks once more when the name has been free for twice as long: the
    /// judge may excuse a waiter for a while.
    fn look_again(&mut self, now: Micros, since: Micros, node: usize, name: &Name) {
        let Some(waited) = self.idle.waited.get_mut(&(node, name.clone())) else { return };
        if waited.looks.is_none() {
            let at = now + (now - since);
            waited.looks = Some(at);
            self.schedule(at, Event::Act(Action::LookAtIdle(node, name.clone())));
        }
    }

    /// Records a violation for each waiter that had to ask, if the name must be held by now and is
    /// still free.
    pub fn look_at_idle(&mut self, now: Micros, node: usize, name: &Name) {
        let Some(waited) = self.idle.waited.get_mut(&(node, name.clone())) else { return };
        waited.looks = None;
        let (epoch, channel) = (waited.epoch, waited.channel.clone());
        let Some((since, mut passed)) = waited.free.clone() else { return };
        passed.retain(|&(by, _)| by <= now);
        self.look_after(now, node, name);
        let (left, live) = self.waiters(now, node, &channel, name);
        let is_known = self.plan.tail == 0.0 && !self.holds_back() && epoch == self.servers[node].epoch;
        let Some(first) = live.first().filter(|_| is_known && left == 0) else { return };
        let owner = self.history.owner(0, first);
        self.look_again(now, since, node, name);
        for (by, silent) in passed {
            let asks = self.history.owner(0, &silent);
            self.history.record(now, What::Idle { node: node as u8, name: letter(name), owner, asks, since, by });
        }
    }

    /// How long until a name is free for its first waiter, and a list of its live waiters.
    fn waiters(&self, now: Micros, node: usize, channel: &str, name: &Name) -> (Micros, Vec<Arc<str>>) {
        let alive = |number: usize| !self.processes[self.connections[number].process].dead;
        self.servers[node].waited_for(name, now, channel, alive)
    }
}

/// A time by the slowest clock.
fn slow(interval: Duration) -> Micros {
    micros(interval + interval / 100)
}

/// The waiter of a claim, and how long until it asks again, by the slowest clock.
fn asks(now: Micros, operation: &Operation, outcome: &Outcome) -> Option<(Arc<str>, Asks)> {
    let Operation::Claim(claim) = operation else { return None };
    let (waiter, Outcome::Held { queued, .. }) = (claim.waiter?, outcome) else { return None };
    let itself = slow(if (*queued)?.rank <= 2 { waiter.lasts / 4 } else { waiter.again });
    Some((claim.owner.clone(), Asks { last: now, itself, told: slow(waiter.lasts / 2) }))
}
