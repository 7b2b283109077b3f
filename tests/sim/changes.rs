//! How a random world replaces the configuration of its processes by another configuration.

use std::sync::Arc;
use std::time::Duration;

use crate::faults::Action;
use crate::judge::history::Micros;
use crate::lists::Change;
use crate::world::{Core, Event, World, micros};

/// One step of a change.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// All processes of this side stop.
    Stop(usize),
    /// Three processes of the new configuration start, to replace the old processes.
    Start,
    /// One process of the new configuration starts beside the old processes.
    Join,
    /// One process of the old configuration stands still for this time.
    Stall(Micros),
    /// One process of the other side is replaced by a process of this side.
    Roll(usize),
}

impl World {
    /// Schedules the steps of the change, if the plan has a change.
    pub fn plan_changes(&self) {
        let mut core = self.core.lock().unwrap();
        let Some(mixed) = core.plan.mixed.clone() else { return };
        let mut at = |at, step| core.schedule(micros(at), Event::Act(Action::Change(step)));
        match mixed.change {
            Change::Together => {}
            Change::Cold { stop, start, stalled } => {
                let before = stop.saturating_sub(Duration::from_millis(1));
                stalled.into_iter().for_each(|last| at(before, Step::Stall(micros(last))));
                at(start, Step::Start);
                at(stop, Step::Stop(0));
            }
            Change::Rolling { from, back, .. } => {
                at(from, Step::Roll(1));
                back.into_iter().for_each(|back| at(back, Step::Roll(0)));
            }
            Change::Beside { from, last } => {
                at(from, Step::Join);
                at(from + last, Step::Stop(1));
            }
        }
    }

    pub fn change(self: &Arc<Self>, step: Step) {
        match step {
            Step::Stop(side) => self.stop_side(side, true),
            Step::Start => self.start_new(3),
            Step::Join => self.start_new(1),
            Step::Stall(last) => self.stall(last),
            Step::Roll(side) => self.roll_on(side),
        }
    }

    /// Stops all processes of a side. `but_stalled` spares a process that stands still.
    fn stop_side(self: &Arc<Self>, side: usize, but_stalled: bool) {
        let core = self.core.lock().unwrap();
        let stalled = core.stalled.filter(|_| but_stalled);
        let of: Vec<_> =
            core.live().into_iter().filter(|&one| core.side(one) == side && stalled != Some(one)).collect();
        drop(core);
        of.into_iter().for_each(|process| self.stop(process));
    }

    /// Ends a process, and starts none in its place.
    pub fn stop(self: &Arc<Self>, process: usize) {
        let mut core = self.core.lock().unwrap();
        let clients = std::mem::take(&mut core.processes[process].clients);
        core.expected -= clients as u64;
        drop(core);
        self.kill(process);
    }

    fn start_new(self: &Arc<Self>, most: usize) {
        let mut core = self.core.lock().unwrap();
        let Some(mixed) = core.plan.mixed.clone() else { return };
        let processes = 1 + core.dice.index(most);
        let regions = core.plan.regions;
        for number in 0..processes {
            let (region, clients) = (core.dice.index(regions), 1 + core.dice.index(3));
            core.expected += clients as u64;
            let now = self.now();
            let deployment = mixed.some_of(1, number);
            core.schedule(now, Event::Act(Action::Begin { region, clients, deployment }));
        }
    }

    fn stall(self: &Arc<Self>, last: Micros) {
        let mut core = self.core.lock().unwrap();
        let holder = self.leases.some_holder().filter(|&holder| !core.processes[holder].dead);
        let chosen = if core.dice.chance(0.7) { holder } else { None };
        let Some(process) = chosen.filter(|&one| core.side(one) == 0).or_else(|| core.some_process()) else { return };
        core.stalled = Some(process);
        drop(core);
        self.pause(process, Duration::from_micros(last), false);
    }

    fn roll_on(self: &Arc<Self>, side: usize) {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        let Some(mixed) = core.plan.mixed.clone().filter(|_| now < micros(core.plan.length)) else { return };
        let Change::Rolling { every, back, .. } = mixed.change else { return };
        // From `back` on, only processes of the old side (0) replace others.
        if side == 1 && back.is_some_and(|back| now >= micros(back)) {
            return;
        }
        core.schedule(now + micros(every), Event::Act(Action::Change(Step::Roll(side))));
        let Some(old) = core.live().into_iter().find(|&one| core.side(one) != side) else { return };
        let (region, clients) = (core.processes[old].region, core.processes[old].clients);
        core.expected += clients as u64;
        let action = Action::Begin { region, clients, deployment: mixed.some_of(side, old) };
        core.schedule(now, Event::Act(action));
        drop(core);
        self.stop(old);
    }

    /// When the faults end, stops one side, unless the plan leaves both sides.
    pub fn decide_sides(self: &Arc<Self>) {
        let left = self.core.lock().unwrap().plan.mixed.as_ref().and_then(|mixed| mixed.left);
        self.core.lock().unwrap().stalled = None;
        if let Some(left) = left {
            self.stop_side(1 - left, false);
        }
    }

    /// Whether it is too late for a scheduled process to begin.
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
}

impl Core {
    fn side(&self, process: usize) -> usize {
        let deployment = self.processes[process].deployment;
        self.plan.mixed.as_ref().map_or(0, |mixed| mixed.deployments[deployment].side)
    }
}
