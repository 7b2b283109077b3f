//! How one configuration follows another in a random world, and the truces that keep faults to what
//! rosters promise.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::Operation;

use crate::cue::HeldBack;
use crate::faults::Action;
use crate::judge::history::{Micros, SECOND, What};
use crate::lists::Change;
use crate::world::{Core, Event, Weather, World, micros};

/// Longer than between two enrolments, and than a process waits before it starts.
const STEPS_APART: Micros = 30 * SECOND;

/// One step of a change.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// All of the old configuration stop.
    Stop,
    /// So many processes of the new one start, instead of those.
    Start,
    /// One of the old configuration stands still from now on, for so long.
    Stall(Micros),
    /// The next of the old ones is replaced by a new one.
    Roll,
    /// All is well with the nodes that many share.
    Truce,
}

impl World {
    /// Plans the change, if there is one.
    pub fn plan_changes(&self) {
        let mut core = self.core.lock().unwrap();
        let Some(mixed) = core.plan.mixed.clone() else { return };
        let mut at = |at, step| core.schedule(at, Event::Act(Action::Change(step)));
        if !mixed.truces.common.is_empty() {
            at(mixed.truces.next(0), Step::Truce);
        }
        match mixed.change {
            Change::Together => {}
            Change::Cold { stop, start, stalled } => {
                stalled.into_iter().for_each(|last| at(micros(stop).saturating_sub(1_000), Step::Stall(micros(last))));
                at(micros(start), Step::Start);
                at(micros(stop), Step::Stop);
            }
            Change::Rolling { from, .. } => at(micros(from), Step::Roll),
        }
    }

    pub fn change(self: &Arc<Self>, step: Step) {
        match step {
            Step::Stop => self.stop_side(0, true),
            Step::Start => self.start_new(),
            Step::Stall(last) => self.stall(last),
            Step::Roll => self.roll_on(),
            Step::Truce => self.truce(),
        }
    }

    /// All of that side stop, but for who stands still where it may come back.
    fn stop_side(self: &Arc<Self>, side: usize, but_stalled: bool) {
        let core = self.core.lock().unwrap();
        let stalled = core.stalled.filter(|_| but_stalled);
        let of: Vec<_> =
            core.live().into_iter().filter(|&one| core.side(one) == side && stalled != Some(one)).collect();
        drop(core);
        of.into_iter().for_each(|process| self.stop(process));
    }

    /// A process ends, and none begins in its place.
    fn stop(self: &Arc<Self>, process: usize) {
        let mut core = self.core.lock().unwrap();
        let clients = std::mem::take(&mut core.processes[process].clients);
        core.expected -= clients as u64;
        drop(core);
        self.kill(process);
    }

    fn start_new(self: &Arc<Self>) {
        let mut core = self.core.lock().unwrap();
        let Some(mixed) = core.plan.mixed.clone() else { return };
        let processes = 1 + core.dice.index(3);
        let regions = core.plan.regions;
        for number in 0..processes {
            let (region, clients) = (core.dice.index(regions), 1 + core.dice.index(3));
            core.expected += clients as u64;
            let now = self.now();
            let deployment = mixed.some_of(1, number);
            let action = Action::Begin { region, clients, deployment, new: mixed.truces.starts };
            core.schedule(now, Event::Act(action));
        }
    }

    fn stall(self: &Arc<Self>, last: Micros) {
        let mut core = self.core.lock().unwrap();
        let holder = self.leases.some_holder().filter(|&holder| !core.processes[holder].dead);
        let chosen = if core.dice.chance(0.7) { holder } else { None };
        let Some(process) = chosen.filter(|&one| core.side(one) == 0).or_else(|| core.some_process()) else { return };
        core.stalled = Some(process);
        drop(core);
        self.freeze(process, Duration::from_micros(last), false);
    }

    fn roll_on(self: &Arc<Self>) {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        let Some(mixed) = core.plan.mixed.clone().filter(|_| now < micros(core.plan.length)) else { return };
        let Change::Rolling { every, .. } = mixed.change else { return };
        core.schedule(now + micros(every), Event::Act(Action::Change(Step::Roll)));
        let Some(old) = core.live().into_iter().find(|&one| core.side(one) == 0) else { return };
        let (region, clients) = (core.processes[old].region, core.processes[old].clients);
        core.expected += clients as u64;
        let action = Action::Begin { region, clients, deployment: mixed.some_of(1, old), new: false };
        core.schedule(now, Event::Act(action));
        drop(core);
        self.stop(old);
    }

    /// When the faults end, one configuration may be left.
    pub fn decide_sides(self: &Arc<Self>) {
        let left = self.core.lock().unwrap().plan.mixed.as_ref().and_then(|mixed| mixed.left);
        self.core.lock().unwrap().stalled = None;
        if let Some(left) = left {
            self.stop_side(1 - left, false);
        }
    }

    /// Whether a process that was to begin may not any more.
    pub fn comes_too_late(&self, deployment: usize, clients: usize) -> bool {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        let over = now >= micros(core.plan.length);
        let Some(mixed) = core.plan.mixed.as_ref().filter(|_| over) else { return false };
        let late = mixed.left.is_some_and(|left| mixed.deployments[deployment].side != left);
        if late {
            core.expected -= clients as u64;
        }
        late
    }

    /// Every process reaches the common nodes, until the next trouble.
    fn truce(self: &Arc<Self>) {
        let now = self.now();
        let core = self.core.lock().unwrap();
        let Some(mixed) = core.plan.mixed.as_ref() else { return };
        if now >= micros(core.plan.length) {
            return;
        }
        let (next, common) = (mixed.truces.next(now + 1), mixed.truces.common.clone());
        let (live, stalled) = (core.live(), core.stalled);
        let epochs: Vec<_> = core.servers.iter().map(|server| (server.down, server.hung, server.epoch)).collect();
        drop(core);
        self.weather_calms();
        for node in common {
            live.iter().for_each(|&process| self.mend(process, node));
            let (down, hung, epoch) = epochs[node];
            if down {
                self.restart(node, epoch);
            }
            if hung {
                self.unhang(node);
            }
            self.core.lock().unwrap().reset_outdated(now, node);
        }
        live.into_iter().filter(|&process| stalled != Some(process)).for_each(|process| self.resume(process));
        self.core.lock().unwrap().schedule(next, Event::Act(Action::Change(Step::Truce)));
    }

    fn weather_calms(&self) {
        let calm = {
            let weather = self.core.lock().unwrap().weather;
            weather.slow + weather.lost_requests + weather.lost_replies > 0.0
        };
        if calm {
            self.weather(Weather::default());
        }
    }

    fn mend(&self, process: usize, node: usize) {
        let is_cut = self.core.lock().unwrap().processes[process].links[node].cut != [false; 2];
        if is_cut {
            self.cut(process, node, [false; 2]);
        }
    }

    /// An operator retires a node for a while.
    pub fn retire_some(&self) -> bool {
        let mut core = self.core.lock().unwrap();
        let node = core.some_node();
        if core.servers[node].down || core.servers[node].hung {
            return false;
        }
        let last = core.dice.log(Duration::from_secs(1), Duration::from_secs(30));
        drop(core);
        self.retire(node, true);
        self.after(last, Action::Reset(node));
        true
    }

    /// All that was retired counts again.
    pub fn reset_all(&self) {
        let retired = std::mem::take(&mut self.core.lock().unwrap().retired);
        retired.into_iter().for_each(|node| self.retire(node, false));
    }

    /// Nobody counts the node's votes any more, or they do again.
    pub fn retire(&self, node: usize, retired: bool) {
        let operation = if retired { Operation::Retire } else { Operation::Reset };
        self.tell(node, &operation);
        if retired {
            self.core.lock().unwrap().retired.push(node);
        }
        self.record(What::Retired { node: node as u8, retired });
    }
}

impl Core {
    fn side(&self, process: usize) -> usize {
        let deployment = self.processes[process].deployment;
        self.plan.mixed.as_ref().map_or(0, |mixed| mixed.deployments[deployment].side)
    }

    /// Whether something may go wrong with a node now.
    pub fn may_fail(&self, now: Micros, node: usize) -> bool {
        self.plan.mixed.as_ref().is_none_or(|mixed| !mixed.truces.common.contains(&node) || mixed.truces.trouble(now))
    }

    /// Whether something may go wrong now that concerns all nodes.
    pub fn all_may_fail(&self, now: Micros) -> bool {
        self.plan.mixed.as_ref().is_none_or(|mixed| mixed.truces.trouble(now))
    }

    /// Whether it may restart now. Where some clients have longer locks than others, no two nodes
    /// forget that at a time.
    pub fn may_crash(&mut self, now: Micros, node: usize) -> bool {
        let Some(mixed) = &self.plan.mixed else { return true };
        let next = mixed.truces.next(now);
        self.may_fail(now, node) && self.crashed != Some(next) && {
            self.crashed = Some(next);
            true
        }
    }

    /// When a process may start that would not wait long for nodes which do not answer, unless it
    /// would.
    pub fn may_start(&self, now: Micros, waits: bool) -> Micros {
        let Some(mixed) = self.plan.mixed.as_ref().filter(|_| now < micros(self.plan.length)) else { return now };
        if waits { now } else { mixed.truces.start(now) }
    }

    /// Whether a clock may be stepped: entries of rosters must not end before what rests on them,
    /// not by two steps either, and who is to start must not wait for ever.
    pub fn may_step(&self, now: Micros) -> bool {
        let before = self.servers.iter().filter_map(|server| server.stepped_at).max();
        self.plan.mixed.is_none() || before.is_none_or(|before| now > before + STEPS_APART)
    }

    /// What is held back comes before the next truce.
    pub fn until_truce(&self, held: HeldBack) -> HeldBack {
        let Some(mixed) = self.plan.mixed.as_ref().filter(|mixed| mixed.truces.common.contains(&held.node)) else {
            return held;
        };
        let next = mixed.truces.next(held.sent.start);
        HeldBack { until: held.until.map(|until| until.min(next)), ..held }
    }

    /// Connections to a server's process that is no more end.
    fn reset_outdated(&mut self, now: Micros, node: usize) {
        let epoch = Some(self.servers[node].epoch);
        for process in self.live() {
            let connection = self.link(process, node).connection;
            if let Some(connection) = connection.filter(|&one| self.connections[one].is_outdated(epoch)) {
                self.reset(now, connection);
            }
        }
    }
}
