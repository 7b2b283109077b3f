//! Processes that stand still, continue, die, and start again.

use std::sync::Arc;
use std::time::Duration;

use crate::faults::Action;
use crate::judge::history::{Micros, SECOND, What};
use crate::process;
use crate::world::{Event, Process, World, micros};

impl World {
    pub fn pause_one(&self, last: Duration, suspended: bool) -> bool {
        let process = self.core.lock().unwrap().some_process();
        process.is_some_and(|process| self.pause(process, last, suspended))
    }

    pub fn pause(&self, process: usize, last: Duration, suspended: bool) -> bool {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        if core.processes[process].paused_at.is_some() || core.syncs(now, process) {
            return false;
        }
        core.processes[process].paused_at = Some(now);
        core.processes[process].suspended = suspended;
        core.history.record(now, What::Paused { process: process as u16, suspended });
        drop(core);
        self.exec.pause(process);
        self.after(last, Action::Resume(process));
        true
    }

    pub fn resume(self: &Arc<Self>, process: usize) {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        let Some(since) = core.processes[process].paused_at.take() else { return };
        if core.processes[process].dead {
            return;
        }
        core.history.record(now, What::Resumed { process: process as u16 });
        let suspended = core.processes[process].suspended;
        let tasks_first = core.dice.chance(0.5);
        drop(core);
        // Sample the leases first: code may check them when the process continues.
        self.leases.sample(self, |watch| watch.process == process);
        // The library's timers check the clock at least once a second.
        let late = Duration::from_micros(now - since).min(Duration::from_secs(1));
        let (parked, asleep) = self.exec.resume(process, suspended);
        for task in asleep {
            let at = now + micros(late);
            self.core.lock().unwrap().schedule(at, Event::WakeLate(task));
        }
        // The order in which a task meets a timer and an answer is not defined: draw it.
        if tasks_first {
            self.exec.make_ready(parked);
            self.exec.run_ready();
            self.unload(process);
        } else {
            self.unload(process);
            self.exec.run_ready();
            self.exec.make_ready(parked);
        }
    }

    pub fn kill_one(self: &Arc<Self>) -> bool {
        let Some(process) = self.core.lock().unwrap().some_process() else { return false };
        self.kill(process);
        true
    }

    /// The process was just handed a lock. It dies or stands still at this moment.
    pub fn fell(self: &Arc<Self>, process: usize) {
        let mut core = self.core.lock().unwrap();
        if core.processes[process].dead || self.now() >= micros(core.plan.length) {
            return;
        }
        let last = core.fault_length();
        let killed = core.dice.chance(0.5);
        drop(core);
        if killed {
            self.kill(process);
        } else {
            self.pause(process, last, false);
        }
    }

    pub fn kill(self: &Arc<Self>, process: usize) {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        if core.syncs(now, process) {
            return;
        }
        core.processes[process].dead = true;
        core.processes[process].inbox.clear();
        core.history.record(now, What::Killed { process: process as u16 });
        let Process { region, clients, deployment, .. } = core.processes[process];
        let pause = core.dice.log(Duration::from_millis(10), Duration::from_secs(1));
        drop(core);
        self.exec.kill(process);
        self.leases.forget(process);
        self.sessions.forget(process);
        process::bury(self, process);
        // In a scene, no process replaces a dead one.
        if clients > 0 {
            self.after(pause, Action::Begin { region, clients, deployment });
        }
    }

    /// Starts a process, which has seen no node before. The process cannot notice that a clock was
    /// stepped before it connected (docs/guarantees.md, "What is not promised", 3). So the process
    /// starts only when the effects of the last step are over.
    pub fn begin_process(self: &Arc<Self>, region: usize, clients: usize, deployment: usize) {
        if self.comes_too_late(deployment, clients) {
            return;
        }
        let now = self.now();
        let core = self.core.lock().unwrap();
        let over = |stepped: Micros| stepped + micros(core.plan.max_ttl.mul_f64(1.05)) + SECOND;
        let safe = core.servers.iter().filter_map(|server| server.stepped_at).map(over).max().unwrap_or(0);
        drop(core);
        if now < safe {
            return self.after(Duration::from_micros(safe - now), Action::Begin { region, clients, deployment });
        }
        process::start(self, region, clients, deployment);
    }
}
