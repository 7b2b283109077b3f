//! Checks that callers get their answers in time, and that they get the lock once all faults have
//! ended. If clients have different lists, the callers of one list must get the lock.

use std::collections::BTreeMap;

use super::history::{Micros, SECOND};
use super::processes::Processes;
use super::rule::{Rule, Verdict};

/// The longest time from the end of the faults until one list is in force.
const SETTLES: Micros = 10 * SECOND;

#[derive(Debug)]
struct Ask {
    process: u16,
    by: Micros,
    stood_still: Micros,
    must: bool,
}

/// The calls that wait for an answer.
#[derive(Debug, Default)]
pub struct Asks {
    open: BTreeMap<u32, Ask>,
    /// The list of each process.
    camps: Vec<u8>,
    /// When all faults had ended.
    healed: Option<Micros>,
    /// For each list, when one of its clients last got a lock that it had to get.
    won: BTreeMap<u8, Micros>,
    /// The failed calls that had to get the lock, but were kept out by another list: the event and
    /// the process of each.
    kept_out: Vec<(usize, u16)>,
}

impl Asks {
    pub fn new(camps: Vec<u8>) -> Self {
        Self { camps, ..Self::default() }
    }

    pub fn asked(&mut self, process: u16, ask: u32, by: Micros, must: bool, processes: &Processes) {
        let stood_still = processes.stood_still(process);
        self.open.insert(ask, Ask { process, by, stood_still, must });
    }

    pub fn acquired(&mut self, now: Micros, ask: u32, processes: &Processes, verdict: &mut Verdict) {
        let must = self.open.get(&ask).filter(|ask| ask.must);
        let camp = must.and_then(|ask| self.camps.get(usize::from(ask.process)));
        self.won.extend(camp.map(|&camp| (camp, now)));
        self.answered(now, ask, processes, verdict);
    }

    pub fn answered(&mut self, now: Micros, ask: u32, processes: &Processes, verdict: &mut Verdict) {
        let Some(ask) = self.open.remove(&ask) else { return };
        let pauses = processes.stood_still(ask.process) - ask.stood_still;
        if now > ask.by + Processes::lateness(pauses) {
            verdict.broken(Rule::NoAnswer, format!("the answer came {} us late", now - ask.by - pauses));
        }
    }

    /// A call failed. If another list has `kept_out` the caller, the end of the history decides
    /// whether this was right.
    pub fn failed(&mut self, now: Micros, ask: u32, kept_out: bool, processes: &Processes, verdict: &mut Verdict) {
        match self.open.get(&ask).filter(|ask| ask.must) {
            Some(ask) if kept_out => self.kept_out.push((verdict.at, ask.process)),
            Some(_) => verdict.broken(Rule::Starved, "all faults have ended, and it did not get the lock"),
            None => {}
        }
        self.answered(now, ask, processes, verdict);
    }

    /// Whether a caller of that process waits for an answer.
    pub fn waits(&self, process: u16) -> bool {
        self.open.values().any(|ask| ask.process == process)
    }

    pub fn cancelled(&mut self, ask: u32) {
        self.open.remove(&ask);
    }

    pub fn killed(&mut self, process: u16) {
        self.open.retain(|_, ask| ask.process != process);
    }

    pub fn healed(&mut self, now: Micros) {
        self.healed = Some(now);
    }

    /// At the end: checks that another list was really in force for each caller that was kept out.
    /// Clients of another list must have got the lock, and clients of the caller's own list must
    /// not.
    pub fn kept_out(&self, verdict: &mut Verdict) {
        let settled = self.healed.map_or(0, |healed| healed + SETTLES);
        for &(event, process) in &self.kept_out {
            let camp = self.camps.get(usize::from(process)).copied().unwrap_or_default();
            if self.won.is_empty() {
                verdict.broken_at(event, Rule::Starved, "it was kept out, and nobody got the lock");
            } else if self.won.get(&camp).is_some_and(|&won| won > settled) {
                verdict.broken_at(event, Rule::Starved, "it was kept out, and others like it were not");
            }
        }
    }
}
