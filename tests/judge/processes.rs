//! Which processes run. A process that stands still believes nothing, and cannot learn of a loss in
//! time.

use super::history::{Micros, SECOND};

/// How long it takes from the end of a pause until all tasks of the process have run.
const WAKE: Micros = 3_000;
/// How long a timer sleeps at most before it checks the clock. If the process's machine was
/// suspended, the process may report a loss this much later.
const SLEEP: Micros = SECOND + WAKE;

#[derive(Debug, Default)]
struct Process {
    paused: bool,
    dead: bool,
    suspended: bool,
    /// When all its tasks have run after its last pause.
    awake: Micros,
    stood_still: Micros,
    paused_at: Micros,
}

#[derive(Debug, Default)]
pub struct Processes(Vec<Process>);

impl Processes {
    pub fn started(&mut self) {
        self.0.push(Process::default());
    }

    pub fn paused(&mut self, now: Micros, process: u16, suspended: bool) {
        let process = &mut self.0[process as usize];
        process.paused = true;
        process.suspended = suspended;
        process.paused_at = now;
    }

    pub fn resumed(&mut self, now: Micros, process: u16) {
        let process = &mut self.0[process as usize];
        process.paused = false;
        process.awake = process.awake.max(now + if process.suspended { SLEEP } else { WAKE });
        process.stood_still += now - process.paused_at;
    }

    pub fn killed(&mut self, process: u16) {
        self.0[process as usize].dead = true;
    }

    pub fn is_dead(&self, process: u16) -> bool {
        self.0[process as usize].dead
    }

    /// When all its tasks have run after its last pause; `None` if the process stands still now.
    pub fn awake(&self, process: u16) -> Option<Micros> {
        let process = &self.0[process as usize];
        (!process.paused).then_some(process.awake)
    }

    /// How long the process has stood still in total.
    pub fn stood_still(&self, process: u16) -> Micros {
        self.0[process as usize].stood_still
    }

    /// How late an answer may be after pauses of this length. Three timers may add to the delay,
    /// since a suspension makes timers late.
    pub const fn lateness(pauses: Micros) -> Micros {
        if pauses > 0 { pauses + 3 * SLEEP } else { 0 }
    }
}
