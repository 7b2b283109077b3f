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
    /// to look again. Nobody sees a note of an owner that may have none. One call publishes so many
    /// messages at most, and an operation is a call here.
    pub(super) fn tell_watchers(&mut self, name: &Name, owner: &str) {
        if !Operation::may_have_note(owner) {
            return;
        }
        let (hears, most) = (self.hears, Watch::MOST_TOLD - self.published);
        let (told, published) = self.entry(name).watchers.told(most, hears);
        self.published += published;
        self.store.hints.extend(told.iter().map(|client| Hint::changed(client, name.clone())));
    }
}
