//! The permits of a semaphore, which are names of their own behind that of its gate.

use futures::stream::{StreamExt, TryStreamExt, iter};
use quorumlock::{Error, Inspected, Quorum};
use serde_json::{Value, json};

use super::holders::{held_by, left, named, shown};
use crate::output::milliseconds;

/// How many names are asked about at a time.
const AT_A_TIME: usize = 64;
/// How many permits are told on lines of their own.
const TOLD: usize = 16;

/// What nodes say of a semaphore's permits.
pub(crate) struct Permits {
    /// How many it has.
    pub(crate) count: u32,
    /// Those that any node says are held, with their names.
    pub(crate) held: Vec<(String, Inspected)>,
}

impl Permits {
    /// Asks about each permit, where nodes say that the name is that of a semaphore.
    pub(crate) async fn look(quorum: &Quorum, name: &str, gate: &Inspected) -> Result<Option<Self>, Error> {
        let Some(count) = gate.permits() else { return Ok(None) };
        let asked = iter(0..count).map(|number| async move {
            let permit = format!("{name}/{number}");
            quorum.inspect(&permit).await.map(|seen| (permit, seen))
        });
        let mut held: Vec<_> = asked.buffered(AT_A_TIME).try_collect().await?;
        held.retain(|(_, seen)| !named(seen).is_empty());
        Ok(Some(Self { count, held }))
    }

    /// A line for the semaphore, and one for each permit that is held, but for very many.
    pub(super) fn lines(&self, name: &str) -> Vec<String> {
        let (name, last, held) = (shown(name), self.count.saturating_sub(1), self.held.len());
        let of =
            format!("a semaphore of {} permits, which are names of their own: {name}/0 to {name}/{last}", self.count);
        let first = format!("it is the gate of {of}; {held} {} held", if held == 1 { "is" } else { "are" });
        let each = self.held.iter().take(TOLD).map(|(permit, seen)| format!("{} is {}", shown(permit), held_by(seen)));
        let more =
            held.checked_sub(TOLD).filter(|more| *more > 0).map(|more| format!("and {more} more; --json has all"));
        [first].into_iter().chain(each).chain(more).collect()
    }

    /// The same for programs.
    pub(super) fn json(&self) -> Value {
        let permit = |(permit, seen): &(String, Inspected)| {
            json!({
                "name": permit, "holder": seen.holder(), "named": named(seen), "remaining_ms": left(seen).map(milliseconds),
            })
        };
        self.held.iter().map(permit).collect()
    }

    /// Who holds which, as a part of a sentence.
    pub(crate) fn told(&self) -> String {
        let each = self.held.iter().take(TOLD).map(|(permit, seen)| format!("{permit:?} is {}", held_by(seen)));
        each.collect::<Vec<_>>().join(", ")
    }
}
