//! Faults that wait for their moment.

use crate::cue::Cue;
use crate::judge::history::{Micros, What};
use crate::world::Core;

impl Core {
    pub fn directed(&mut self, _now: Micros, _what: What) -> Vec<Cue> {
        Vec::new()
    }
}
