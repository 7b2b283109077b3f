//! The holder's note. Each renewal carries the note, so that nodes without the note store it.

use std::sync::Arc;

use crate::node::Note;
use crate::rules::Tick;

/// The holder's present note.
#[derive(Debug)]
pub(super) struct HolderNote {
    says: Arc<str>,
    /// How many notes the holder had before this one.
    number: u32,
    /// When the holder got the names.
    since: Tick,
}

impl HolderNote {
    pub(super) const fn new(says: Arc<str>, since: Tick) -> Self {
        Self { says, number: 0, since }
    }

    /// Replaces the note.
    pub(super) fn change(&mut self, says: Arc<str>) {
        (self.says, self.number) = (says, self.number.saturating_add(1));
    }

    /// The note for a renewal that is sent at `now`.
    pub(super) fn note(&self, now: Tick) -> Note {
        Note { number: self.number, age: now.since(self.since), says: self.says.clone() }
    }
}
