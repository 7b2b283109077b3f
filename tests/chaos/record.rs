//! Puts the events of the workers and of the storage into one history, which the judge of the
//! simulation reads.

use std::collections::HashMap;

use crate::judge::history::{History, What};
use crate::told::Event;

/// A task of a process.
pub type Who = (u32, usize);

/// A write that reached the storage: its time in nanoseconds, and whether the storage accepted it.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    pub at: u64,
    pub name: usize,
    pub token: u64,
    pub taken: bool,
}

/// How often each kind of event happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub released: u64,
    pub expired: u64,
    pub refused: u64,
    pub missed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    number: u32,
    process: u16,
    name: u8,
}

#[derive(Debug, Default)]
pub struct Record {
    history: History,
    /// The number of each process in the history, by its pid.
    processes: HashMap<u32, u16>,
    open: HashMap<Who, Lease>,
    /// The lease that may write, by name and token.
    writers: HashMap<(usize, u64), Lease>,
    leases: u32,
    /// When each process last acquired a lock.
    latest: HashMap<u32, u64>,
    pub counts: Counts,
}

impl Record {
    /// Adds a new process. In the history, all processes start at time 0: the first event of a
    /// process may be older than this call.
    pub fn started(&mut self, process: u32) {
        let number = self.processes.len() as u16;
        self.processes.insert(process, number);
        self.note(0, What::Started { process: number });
    }

    pub fn died(&mut self, process: u32, at: u64) {
        self.note(at, What::Killed { process: self.processes[&process] });
    }

    /// Records an event that a task reported.
    pub fn told(&mut self, who: Who, event: &Event) {
        match *event {
            Event::Believed { name, token, at, deadline } => self.believed(who, (name, token), at, deadline),
            Event::Still { at, deadline } => self.of_lease(who, at, |Lease { number, process, name }| What::Sample {
                process,
                name,
                lease: number,
                held: true,
                until: deadline / 1_000,
            }),
            Event::Told { expired, at } => {
                *if expired { &mut self.counts.expired } else { &mut self.counts.refused } += 1;
                self.of_lease(who, at, |Lease { number: lease, process, name }| What::LostTold {
                    process,
                    name,
                    lease,
                    expired,
                });
            }
            Event::Released { at } => {
                self.counts.released += 1;
                self.of_lease(who, at, |Lease { number: lease, process, name }| What::Released {
                    process,
                    name,
                    lease,
                });
            }
            Event::Missed => self.counts.missed += 1,
            Event::Stopping | Event::Uses { .. } => {}
        }
    }

    /// Whether a process has acquired a lock since `since`.
    pub fn busy(&self, process: u32, since: u64) -> bool {
        self.latest.get(&process).is_some_and(|&at| at >= since)
    }

    /// The whole history, with the writes that reached the storage, in the order of the times.
    pub fn history(mut self, writes: &[Write]) -> History {
        for &Write { at, name, token, taken } in writes {
            let Lease { number: lease, process, name } = self.writers[&(name, token)];
            self.note(at, What::Wrote { process, name, lease, token, taken, checked: true });
        }
        // The sort is stable, so the events of one task keep their order.
        self.history.events.sort_by_key(|event| event.at);
        self.history
    }

    fn believed(&mut self, who: Who, (name, token): (usize, u64), at: u64, deadline: u64) {
        let lease = Lease { number: self.leases, process: self.processes[&who.0], name: name as u8 };
        self.leases += 1;
        self.open.insert(who, lease);
        self.writers.insert((name, token), lease);
        self.latest.insert(who.0, at);
        let Lease { number, process, name } = lease;
        let (until, shared) = (deadline / 1_000, false);
        self.note(at, What::Acquired { process, ask: number, name, lease: number, token, until, shared, owner: None });
    }

    fn of_lease(&mut self, who: Who, at: u64, what: impl FnOnce(Lease) -> What) {
        let lease = self.open[&who];
        self.note(at, what(lease));
    }

    fn note(&mut self, at: u64, what: What) {
        self.history.record(at / 1_000, what);
    }
}
