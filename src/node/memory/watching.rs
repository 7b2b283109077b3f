//! Looking at a name and being told when that is worth doing again.

use super::millis;
use super::work::Work;
use crate::node::hint::Hint;
use crate::node::operation::{Name, Operation, Watch};
use crate::node::reply::Outcome;

impl Work<'_> {
    pub(super) fn watch(&mut self, watch: &Watch) -> Outcome {
        let until = self.now + millis(watch.lasts.min(Watch::LONGEST));
        let mut registered = true;
        for name in watch.names.iter() {
            registered &= self.entry(name).watchers.add(&watch.client, until);
        }
        Outcome::Watched { entries: watch.names.iter().map(|name| self.look(name)).collect(), registered }
    }

    /// What `owner` says of itself was stored, or went with its hold: whoever watches the name is
    /// to look again. Nobody sees a note of an owner that may have none.
    pub(super) fn tell_watchers(&mut self, name: &Name, owner: &str) {
        if !Operation::may_have_note(owner) {
            return;
        }
        let hears = self.hears;
        let told = self.entry(name).watchers.told(hears);
        self.store.hints.extend(told.iter().map(|client| Hint::changed(client, name.clone())));
    }
}
