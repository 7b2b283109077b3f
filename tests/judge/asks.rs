//! Callers get their answers in time, and after the faults they get the lock.

use std::collections::BTreeMap;

use super::history::Micros;
use super::processes::Processes;
use super::rule::{Rule, Verdict};

#[derive(Debug)]
struct Ask {
    process: u16,
    by: Micros,
    stood_still: Micros,
    must: bool,
}

/// Who waits for an answer.
#[derive(Debug, Default)]
pub struct Asks(BTreeMap<u32, Ask>);

impl Asks {
    pub fn asked(&mut self, process: u16, ask: u32, by: Micros, must: bool, processes: &Processes) {
        let stood_still = processes.stood_still(process);
        self.0.insert(ask, Ask { process, by, stood_still, must });
    }

    pub fn answered(&mut self, now: Micros, ask: u32, processes: &Processes, verdict: &mut Verdict) {
        let Some(ask) = self.0.remove(&ask) else { return };
        let pauses = processes.stood_still(ask.process) - ask.stood_still;
        if now > ask.by + Processes::lateness(pauses) {
            verdict.broken(Rule::NoAnswer, format!("the answer came {} us late", now - ask.by - pauses));
        }
    }

    pub fn failed(&mut self, now: Micros, ask: u32, processes: &Processes, verdict: &mut Verdict) {
        if self.0.get(&ask).is_some_and(|ask| ask.must) {
            verdict.broken(Rule::Starved, "all faults have ended, and it did not get the lock");
        }
        self.answered(now, ask, processes, verdict);
    }

    pub fn cancelled(&mut self, ask: u32) {
        self.0.remove(&ask);
    }

    pub fn killed(&mut self, process: u16) {
        self.0.retain(|_, ask| ask.process != process);
    }
}
