//! The permits of a semaphore. Each permit is a name of its own: the semaphore's name, with a
//! number. Nodes do not know how many permits a semaphore has.

use futures::stream::{StreamExt, TryStreamExt, iter};
use quorumlock::{Error, Inspected, MAX_PERMITS, Quorum};
use serde_json::{Value, json};

use super::holders::{held_by, left, named, shown};
use crate::output::milliseconds;

/// How many permits are inspected at a time, and how many held permits get a line each.
const TOLD: usize = 16;

/// The permits that any node reports as held, with their names.
#[derive(Default)]
pub(crate) struct Permits(pub(crate) Vec<(String, Inspected)>);

impl Permits {
    /// Inspects the first [`TOLD`] permits that a semaphore of this name would have. If one of them
    /// is held, inspects the next [`TOLD`], and so on. A name that is held as a lock has no
    /// permits.
    pub(crate) async fn look(quorum: &Quorum, name: &str, gate: &Inspected) -> Result<Self, Error> {
        let mut all = Self::default();
        if !named(gate).is_empty() && !gate.is_gate() {
            return Ok(all);
        }
        for first in (0..MAX_PERMITS).step_by(TOLD) {
            let numbers = first..(first + TOLD as u32).min(MAX_PERMITS);
            let asked = iter(numbers).map(|number| async move {
                let permit = format!("{name}/{number}");
                quorum.inspect(&permit).await.map(|seen| (permit, seen))
            });
            let mut held: Vec<_> = asked.buffered(TOLD).try_collect().await?;
            held.retain(|(_, seen)| !named(seen).is_empty());
            if held.is_empty() {
                break;
            }
            all.0.extend(held);
        }
        Ok(all)
    }

    /// A line for the semaphore, and one for each held permit, up to [`TOLD`] of them.
    pub(super) fn lines(&self, name: &str) -> Vec<String> {
        let (name, held) = (shown(name), self.0.len());
        if held == 0 {
            return Vec::new();
        }
        let are = if held == 1 { "permit is" } else { "permits are" };
        let first = format!("{held} {are} held of the semaphore {name}; each is a name of its own:");
        let each = self.0.iter().take(TOLD).map(|(permit, seen)| format!("{} is {}", shown(permit), held_by(seen)));
        let more =
            held.checked_sub(TOLD).filter(|more| *more > 0).map(|more| format!("and {more} more; --json has all"));
        [first].into_iter().chain(each).chain(more).collect()
    }

    pub(super) fn json(&self) -> Value {
        let permit = |(permit, seen): &(String, Inspected)| {
            json!({
                "name": permit, "holder": seen.holder(), "named": named(seen), "remaining_ms": left(seen).map(milliseconds),
            })
        };
        self.0.iter().map(permit).collect()
    }

    /// The holders of the held permits, up to [`TOLD`] of them, as a part of a sentence.
    pub(crate) fn told(&self) -> String {
        let each = self.0.iter().take(TOLD).map(|(permit, seen)| format!("{permit:?} is {}", held_by(seen)));
        each.collect::<Vec<_>>().join(", ")
    }
}
