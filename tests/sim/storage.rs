//! The storage that the locks protect. The storage checks fencing tokens for some names, and not
//! for others.

use std::time::Duration;

use crate::faults::Action;
use crate::judge::history::What;
use crate::world::{Event, World, micros};

/// A write on its way. It arrives even if its process has died.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    pub process: usize,
    pub name: u8,
    pub lease: u32,
    pub token: u64,
}

impl World {
    /// Sends a write, which arrives after a random delay.
    pub fn write(&self, write: Write) {
        let now = self.now();
        let mut core = self.core.lock().unwrap();
        let longest = core.plan.longest_delay;
        let late = core.dice.chance(0.05);
        let delay = core.dice.log(Duration::from_micros(50), if late { longest } else { Duration::from_millis(2) });
        core.schedule(now + micros(delay), Event::Act(Action::Write(write)));
    }

    pub fn store(&self, write: Write) {
        let now = self.now();
        let Write { process, name, lease, token } = write;
        let mut core = self.core.lock().unwrap();
        let checked = core.plan.checking[name as usize];
        // Lists with different names protect different storage.
        let team = core.processes[process].team;
        let highest = core.highest.entry((team, name)).or_default();
        let taken = !checked || token >= *highest;
        *highest = token.max(*highest);
        core.history.record(now, What::Wrote { process: process as u16, name, lease, token, taken, checked });
    }
}
