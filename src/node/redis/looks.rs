//! When a node whose clock was stepped is made to look at it.
//!
//! Fences may expire early then, and what was granted must be below the floor before: the node
//! looks at its clock when it is asked for its record. A clock that drifts far is stepped with many
//! replies, so it is asked once in a while only, and then for all steps so far.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use crate::node::reply::{Reply, Sink};
use crate::rules::Tick;

/// How often a node is asked at most.
const PAUSE: Duration = Duration::from_secs(2);

/// The steps that were seen of a clock, and those at which the node looked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looks {
    steps: u32,
    looked: u32,
    asked: Option<Tick>,
}

impl Looks {
    /// The clock was stepped.
    pub(super) const fn stepped(&mut self) {
        self.steps = self.steps.wrapping_add(1);
    }

    /// Which step the node should look at now, if any; it is asked for that.
    pub(super) fn due(&mut self, now: Tick) -> Option<u32> {
        let waited = self.asked.is_none_or(|asked| now >= asked + PAUSE);
        (waited && self.looked != self.steps).then(|| {
            self.asked = Some(now);
            self.steps
        })
    }

    /// The node told its record, for which it was asked after so many steps.
    pub(super) const fn looked(&mut self, steps: u32) {
        self.looked = steps;
    }

    /// So many steps were seen.
    pub(super) const fn steps(&self) -> u32 {
        self.steps
    }
}

/// Takes note that the node looked.
pub(super) struct Looking(pub(super) Arc<Shared>, pub(super) u32);

impl Sink for Looking {
    fn deliver(self: Arc<Self>, _: usize, reply: Reply) {
        if reply.is_ok() {
            self.0.state().looks.looked(self.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::new(Duration::from_secs(seconds))
    }

    #[test]
    fn a_step_that_came_too_soon_after_another_is_looked_at_later() {
        let mut looks = Looks::default();
        assert_eq!(looks.due(at(0)), None, "nothing was stepped");
        looks.stepped();
        assert_eq!((looks.due(at(1)), looks.due(at(1))), (Some(1), None));
        looks.stepped();
        looks.looked(1);
        assert_eq!((looks.due(at(2)), looks.due(at(3))), (None, Some(2)));
        looks.looked(2);
        assert_eq!(looks.due(at(60)), None);
    }

    #[test]
    fn a_look_that_failed_is_made_again() {
        let mut looks = Looks::default();
        looks.stepped();
        assert_eq!((looks.due(at(1)), looks.due(at(3))), (Some(1), Some(1)));
    }
}
