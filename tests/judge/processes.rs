//! Which processes run: one that stands still believes nothing, and cannot be told anything in
//! time.

use super::history::{Micros, SECOND};

/// How much later than a process goes on its tasks have run.
const WAKE: Micros = 3_000;
/// How long a timer sleeps at most before it looks at the clock: a host that was suspended tells a
/// loss that much later.
const SLEEP: Micros = SECOND + WAKE;

#[derive(Debug, Default)]
struct Process {
    paused: bool,
    dead: bool,
    suspended: bool,
    /// From when on all its tasks run, if it is not paused.
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

    /// When its tasks have run since it stood still last, unless it does now.
    pub fn awake(&self, process: u16) -> Option<Micros> {
        let process = &self.0[process as usize];
        (!process.paused).then_some(process.awake)
    }

    /// For how long it has stood still in all.
    pub fn stood_still(&self, process: u16) -> Micros {
        self.0[process as usize].stood_still
    }

    /// By how much an answer may be late after pauses of that length: each suspension may make each
    /// of three timers late.
    pub const fn lateness(pauses: Micros) -> Micros {
        if pauses > 0 { pauses + 3 * SLEEP } else { 0 }
    }
}
