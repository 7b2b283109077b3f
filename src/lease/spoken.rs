//! What the holder of a lock says of itself. Each renewal carries it: nodes that do not know it yet,
//! or have forgotten it, store it then.

use std::sync::Arc;

use crate::node::Note;
use crate::rules::Tick;

/// What was said last.
#[derive(Debug)]
pub(super) struct Spoken {
    says: Arc<str>,
    /// How many others it said before.
    number: u32,
    /// Since when it holds the names.
    since: Tick,
}

impl Spoken {
    pub(super) const fn new(says: Arc<str>, since: Tick) -> Self {
        Self { says, number: 0, since }
    }

    /// It says something else from now on.
    pub(super) fn change(&mut self, says: Arc<str>) {
        (self.says, self.number) = (says, self.number.saturating_add(1));
    }

    /// What a renewal carries that is sent at `now`.
    pub(super) fn note(&self, now: Tick) -> Note {
        Note { number: self.number, age: now.since(self.since), says: self.says.clone() }
    }
}
