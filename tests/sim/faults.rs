//! Faults: what fails, when, and for how long. Every fault that begins here ends at the plan's
//! length at the latest.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::Name;

use crate::changes::Step;
use crate::cue::Cue;
use crate::judge::history::{Memory, What};
use crate::plan::{FaultKind, LOST};
use crate::storage::Write;
use crate::twins::Move;
use crate::world::{Core, Event, Weather, World, micros};

/// A scheduled change of the world.
#[derive(Clone, Debug)]
pub enum Action {
    /// The next fault begins.
    Strike,
    Calm,
    Mend(Vec<(usize, usize)>),
    Unhang(usize),
    /// A server crashes, and restarts after `down`.
    Crash {
        node: usize,
        memory: Memory,
        down: Duration,
    },
    /// A replica of this server takes over.
    Promote {
        node: usize,
        memory: Memory,
        down: Duration,
    },
    Restart {
        node: usize,
        epoch: u32,
    },
    Resume(usize),
    /// A process stands still or dies, at the moment at which a node hands it the lock.
    Fell(usize),
    Begin {
        region: usize,
        clients: usize,
        deployment: usize,
    },
    Change(Step),
    Move(Move),
    /// The server `to` gets the data of the server `from`, as if `to` had been a replica of `from`.
    Copy {
        from: usize,
        to: usize,
    },
    /// Checks whether this name is free on this node although a waiter waits for it.
    LookAtIdle(usize, Name),
    /// All faults end.
    Heal,
    Write(Write),
    Cue(Cue),
}

impl World {
    /// Schedules the first fault of the plan, and the end of all faults.
    pub fn unleash(&self) {
        let mut core = self.core.lock().unwrap();
        let length = micros(core.plan.length);
        core.schedule(length, Event::Act(Action::Heal));
        if !core.plan.faults.is_empty() {
            let every = core.plan.fault_every;
            let first = micros(core.dice.around(every));
            core.schedule(first, Event::Act(Action::Strike));
        }
    }

    pub fn act(self: &Arc<Self>, action: Action) {
        match action {
            Action::Strike => self.strike(),
            Action::Calm => self.weather(Weather::default()),
            Action::Mend(links) => links.into_iter().for_each(|(process, node)| self.cut(process, node, [false; 2])),
            Action::Unhang(node) => self.unhang(node),
            Action::Crash { node, memory, down } => self.crash(node, memory, down, false),
            Action::Promote { node, memory, down } => self.crash(node, memory, down, true),
            Action::Restart { node, epoch } => self.restart(node, epoch),
            Action::Resume(process) => self.resume(process),
            Action::Fell(process) => self.fell(process),
            Action::Begin { region, clients, deployment } => self.begin_process(region, clients, deployment),
            Action::Change(step) => self.change(step),
            Action::Move(step) => self.move_on(step),
            Action::Copy { from, to } => self.copy(from, to),
            Action::LookAtIdle(node, name) => self.core.lock().unwrap().look_at_idle(self.now(), node, &name),
            Action::Heal => self.heal(),
            Action::Write(write) => self.store(write),
            Action::Cue(cue) => self.cue(cue),
        }
    }

    fn strike(self: &Arc<Self>) {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        if now >= micros(core.plan.length) {
            return;
        }
        let faults = core.plan.faults.clone();
        let kind = core.dice.pick(&faults);
        let every = core.plan.fault_every;
        let next = now + micros(core.dice.around(every)) + 1;
        core.schedule(next, Event::Act(Action::Strike));
        let last = core.fault_length();
        drop(core);
        if self.begin(kind, last) {
            *self.core.lock().unwrap().faults.entry(kind.name()).or_default() += 1;
        }
    }

    /// Begins one fault. Returns whether it began.
    fn begin(self: &Arc<Self>, kind: FaultKind, last: Duration) -> bool {
        match kind {
            FaultKind::SlowNetwork => self.storm(last, |share| Weather { slow: share, ..Weather::default() }),
            FaultKind::LostRequests => self.storm(last, |share| Weather { lost_requests: share, ..Weather::default() }),
            FaultKind::LostReplies => self.storm(last, |share| Weather { lost_replies: share, ..Weather::default() }),
            FaultKind::Replaced => self.replace_some(),
            FaultKind::Partition => self.part(last, [true; 2]),
            FaultKind::Cut => self.cut_one(last),
            FaultKind::Squeeze => self.squeeze(last),
            FaultKind::OneWay => {
                let way = self.core.lock().unwrap().dice.chance(0.5);
                self.part(last, [way, !way])
            }
            FaultKind::RegionPartition => self.part_regions(last),
            FaultKind::Hang => self.hang(last),
            FaultKind::CrashKept => self.crash_one(Memory::Kept, last),
            FaultKind::CrashEmpty => self.crash_one(Memory::Empty, last),
            FaultKind::CrashOld => self.crash_one(Memory::Old, last),
            FaultKind::RollingRestart => self.roll(last),
            FaultKind::Flush => {
                let server = self.core.lock().unwrap().some_server();
                self.flush(server);
                true
            }
            FaultKind::Promote => self.promote_some(last),
            FaultKind::NodeClockStep => {
                let server = self.core.lock().unwrap().some_server();
                self.step_clock(server)
            }
            FaultKind::WallStep => self.step_wall(),
            FaultKind::Pause => self.pause_one(last, false),
            FaultKind::Suspend => self.pause_one(last, true),
            FaultKind::Kill => self.kill_one(),
            FaultKind::Revoke => self.revoke_some(),
            FaultKind::DeadHead => !std::mem::replace(&mut self.core.lock().unwrap().head_dies, true),
        }
    }

    pub fn after(&self, length: Duration, action: Action) {
        let at = self.now() + micros(length);
        self.core.lock().unwrap().schedule(at, Event::Act(action));
    }

    fn storm(&self, last: Duration, of: impl Fn(f64) -> Weather) -> bool {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        if core.disturbed_by(now) {
            return false;
        }
        let share = core.dice.pick(&[0.02, 0.1, 0.3]);
        drop(core);
        self.weather(of(share));
        self.after(last, Action::Calm);
        true
    }

    pub fn weather(&self, weather: Weather) {
        let bad = weather.slow + weather.lost_requests + weather.lost_replies > 0.0;
        self.core.lock().unwrap().weather = weather;
        self.record(What::Weather { bad });
    }

    fn replace_some(&self) -> bool {
        let mut core = self.core.lock().unwrap();
        let Some(process) = core.some_process() else { return false };
        for node in 0..core.plan.nodes {
            if core.dice.chance(0.6) {
                core.replace(process, node);
            }
        }
        true
    }

    fn part(&self, last: Duration, ways: [bool; 2]) -> bool {
        let mut core = self.core.lock().unwrap();
        let Some(process) = core.some_process() else { return false };
        let nodes = core.plan.nodes;
        let links: Vec<_> = (0..nodes).filter(|_| core.dice.chance(0.5)).map(|node| (process, node)).collect();
        drop(core);
        links.iter().for_each(|&(process, node)| self.cut(process, node, ways));
        self.after(last, Action::Mend(links));
        true
    }

    /// Cuts one process off from one node, mostly in one direction only.
    fn cut_one(&self, last: Duration) -> bool {
        let mut core = self.core.lock().unwrap();
        let Some(process) = core.some_process() else { return false };
        let node = core.some_node();
        let ways = core.dice.weighed(&[(2, [true, false]), (2, [false, true]), (1, [true; 2])]);
        drop(core);
        self.cut_for(process, node, ways, last);
        true
    }

    /// Some process revokes the lock on some name.
    fn revoke_some(self: &Arc<Self>) -> bool {
        let mut core = self.core.lock().unwrap();
        let (process, names) = (core.some_process(), core.plan.names as usize);
        let name = core.dice.index(names) as u8;
        drop(core);
        process.is_some_and(|process| self.revoke(process, name))
    }

    pub fn cut_for(&self, process: usize, node: usize, ways: [bool; 2], last: Duration) {
        if self.now() < micros(self.core.lock().unwrap().plan.length) {
            self.cut(process, node, ways);
            self.after(last, Action::Mend(vec![(process, node)]));
        }
    }

    fn part_regions(&self, last: Duration) -> bool {
        let mut core = self.core.lock().unwrap();
        let regions = core.plan.regions;
        let apart = core.dice.index(regions);
        let live = core.live();
        let side = |region: usize| region == apart;
        let across = |&process: &usize, node: usize| {
            side(core.processes[process].region) != side(core.servers[core.homes[node]].region)
        };
        let links: Vec<_> = live
            .iter()
            .flat_map(|process| (0..core.plan.nodes).filter(|&node| across(process, node)).map(|node| (*process, node)))
            .collect();
        drop(core);
        links.iter().for_each(|&(process, node)| self.cut(process, node, [true; 2]));
        self.after(last, Action::Mend(links));
        true
    }

    pub fn cut(&self, process: usize, node: usize, cut: [bool; 2]) {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        if cut != [false; 2] && core.syncs(now, process) {
            return;
        }
        core.processes[process].links[node].cut = cut;
        drop(core);
        let [there, back] = cut;
        self.record(What::Cut { process: process as u16, node: node as u8, there, back });
    }

    fn hang(&self, last: Duration) -> bool {
        let mut core = self.core.lock().unwrap();
        let node = core.some_server();
        if core.servers[node].down || core.disturbed_by(self.now()) {
            return false;
        }
        core.servers[node].hung = true;
        drop(core);
        self.record(What::Hung { node: node as u8, hung: true });
        self.after(last, Action::Unhang(node));
        true
    }

    pub fn unhang(&self, node: usize) {
        let now = self.now();
        self.record(What::Hung { node: node as u8, hung: false });
        self.core.lock().unwrap().unhang(now, node);
    }

    fn crash_one(&self, memory: Memory, last: Duration) -> bool {
        self.lose_one(memory, last, |node, memory, down| Action::Crash { node, memory, down })
    }

    /// A replica takes over. Its data is complete, empty or old.
    fn promote_some(&self, last: Duration) -> bool {
        let memory = self.core.lock().unwrap().dice.pick(&[Memory::Kept, Memory::Empty, Memory::Old]);
        self.lose_one(memory, last, |node, memory, down| Action::Promote { node, memory, down })
    }

    fn lose_one(&self, memory: Memory, last: Duration, lose: impl Fn(usize, Memory, Duration) -> Action) -> bool {
        let mut core = self.core.lock().unwrap();
        let node = core.some_server();
        let down = core.dice.log(Duration::from_millis(1), last.max(Duration::from_millis(2)));
        core.servers[node].save();
        let age = if memory == Memory::Old { 2 * last } else { Duration::ZERO };
        drop(core);
        self.after(age, lose(node, memory, down));
        true
    }

    /// All nodes restart empty, one after the other.
    fn roll(&self, last: Duration) -> bool {
        let nodes = self.core.lock().unwrap().plan.nodes as u32;
        for node in 0..nodes {
            let down = last / 8;
            self.after(last * node / 2, Action::Crash { node: node as usize, memory: Memory::Empty, down });
        }
        true
    }

    fn crash(self: &Arc<Self>, node: usize, memory: Memory, down: Duration, promotes: bool) {
        if !self.takes_its_turn(node, memory, down) {
            return;
        }
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        if core.servers[node].down || now >= micros(core.plan.length) {
            return;
        }
        match promotes {
            true => core.servers[node].fail_over(memory),
            false => core.servers[node].crash(memory),
        }
        core.backlog[node].clear();
        core.history.record(now, What::NodeDown { node: node as u8, memory });
        let epoch = core.servers[node].epoch;
        core.reset_connections(now, node);
        drop(core);
        self.after(down, Action::Restart { node, epoch });
    }

    /// Removes all data of a running server, as FLUSHALL does.
    pub fn flush(&self, node: usize) {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        if !core.servers[node].down && now < micros(core.plan.length) && core.plan.in_turn.is_none() {
            core.servers[node].flush();
            core.history.record(now, What::Forgot { node: node as u8, memory: Memory::Empty });
        }
    }

    pub fn restart(&self, node: usize, epoch: u32) {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        if core.servers[node].down && core.servers[node].epoch == epoch {
            core.servers[node].start(now);
            core.history.record(now, What::NodeUp { node: node as u8 });
        }
    }

    /// Steps a node's clock, if every process has read the clock since the last step. A process
    /// that has not read it cannot notice the step.
    pub fn step_clock(&self, node: usize) -> bool {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        let stepped_at = core.servers[node].stepped_at.unwrap_or(0);
        let Some(name) = core.homes.iter().position(|&home| home == node) else { return false };
        let knows = |&process: &usize| {
            if !core.processes[process].list.contains(&name) {
                return true;
            }
            let seen = core.processes[process].links[name].clock_seen(&core.connections);
            seen.is_some_and(|seen| seen > stepped_at)
        };
        if !core.live().iter().all(knows) {
            return false;
        }
        let ms = core.clock_step().as_millis() as i64;
        let by_ms = if core.dice.chance(0.7) { ms } else { -ms };
        core.servers[node].step_clock(now, by_ms);
        core.history.record(now, What::ClockStepped { node: node as u8, by_ms });
        true
    }

    fn step_wall(&self) -> bool {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        let Some(process) = core.some_process() else { return false };
        let before = core.processes[process].wall;
        let wall = core.wall_skew();
        core.processes[process].wall = wall;
        core.history.record(now, What::WallStepped { process: process as u16, by_ms: (wall - before) / 1_000 });
        true
    }

    fn heal(self: &Arc<Self>) {
        self.decide_sides();
        self.weather(Weather::default());
        let mut core = self.core.lock().unwrap();
        core.plan.tail = 0.0;
        if core.plan.hints != LOST {
            core.plan.hints = [(0, 0), (1, 1), (0, 2)];
        }
        core.head_dies = false;
        core.hold_back_no_more();
        let (live, nodes, names) = (core.live(), core.servers.len(), core.plan.nodes);
        let down: Vec<_> = (0..nodes).filter(|&node| core.servers[node].down).collect();
        let hung: Vec<_> = (0..nodes).filter(|&node| core.servers[node].hung).collect();
        let epochs: Vec<_> = core.servers.iter().map(|server| server.epoch).collect();
        drop(core);
        for &process in &live {
            (0..names).for_each(|node| self.cut(process, node, [false; 2]));
        }
        down.into_iter().for_each(|node| self.restart(node, epochs[node]));
        hung.into_iter().for_each(|node| self.unhang(node));
        live.into_iter().for_each(|process| self.resume(process));
        self.record(What::Healed);
    }
}

impl Core {
    /// The length of a fault, from a tenth of the ttl to four times the ttl, but at most 8 s.
    pub fn fault_length(&mut self) -> Duration {
        let ttl = self.plan.ttl;
        let length = self.dice.log(ttl / 10, 4 * ttl);
        length.min(Duration::from_secs(8))
    }

    pub fn live(&self) -> Vec<usize> {
        (0..self.processes.len()).filter(|&process| !self.processes[process].dead).collect()
    }

    pub fn some_process(&mut self) -> Option<usize> {
        let live = self.live();
        if live.is_empty() { None } else { Some(self.dice.pick(&live)) }
    }

    pub fn some_node(&mut self) -> usize {
        let nodes = self.plan.nodes;
        self.dice.index(nodes)
    }

    /// A server to which a node's name leads.
    pub fn some_server(&mut self) -> usize {
        let node = self.some_node();
        self.homes[node]
    }

    /// How far a node's clock is stepped: by more than any hold lasts, or just so far that the next
    /// reply must show the step. No client can notice a step that is smaller than the uncertainty
    /// of a round trip (docs/guarantees.md, "What is not promised").
    fn clock_step(&mut self) -> Duration {
        let most = self.plan.step();
        let least = 2 * self.plan.node_timeout + Duration::from_millis(200);
        if least < most && self.dice.chance(0.5) {
            return self.dice.log(least, most);
        }
        most + self.dice.around(most / 4)
    }

    /// How far a process's wall clock is ahead of true time, in microseconds.
    pub fn wall_skew(&mut self) -> i64 {
        let (behind, ahead) = (micros(self.plan.wall_behind), micros(self.plan.wall_skew));
        self.dice.between(0, behind + ahead + 1) as i64 - behind as i64
    }
}
