//! What a node says of one name.

use std::sync::Arc;
use std::time::Duration;

/// What the holder of a name says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Description {
    /// Its note ([`describe`](crate::QuorumLock::describe)), or the value that a leader proclaimed.
    pub says: Arc<str>,
    /// For how long it has held the name.
    pub since: Duration,
    /// The fencing token of its hold.
    pub token: u64,
    /// How many others it said before under this token.
    pub number: u32,
}

/// What a node says of one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Inspection {
    /// Who holds it; of readers one, whose acquisition is an `s` and a number.
    pub holder: Option<String>,
    /// The holder's hold count; of readers how many there are; 0 where nobody holds it.
    pub count: u32,
    /// Whether it was taken away from the holder, who has not let go yet.
    pub revoked: bool,
    /// For how long the holder has it still, by the node's clock. `None` where nobody holds it or
    /// the hold never ends.
    pub remaining: Option<Duration>,
    /// The highest ballot granted or told.
    pub fence: u64,
    /// How many wait in line, without whoever has a turn.
    pub waiting: u32,
    /// Who may claim the free name first, and for how long still.
    pub turn: Option<(String, Duration)>,
    /// What the holder says of itself, if anything.
    pub description: Option<Description>,
    /// Where it is a semaphore's name, how many permits that has: whoever holds it is the next to
    /// take some.
    pub permits: Option<u32>,
}

impl Inspection {
    /// A name nobody holds.
    #[must_use]
    pub const fn free(fence: u64) -> Self {
        Self {
            holder: None,
            count: 0,
            revoked: false,
            remaining: None,
            fence,
            waiting: 0,
            turn: None,
            description: None,
            permits: None,
        }
    }

    /// A name that `holder` holds.
    #[must_use]
    pub const fn held(holder: String, count: u32, remaining: Option<Duration>, fence: u64) -> Self {
        Self {
            holder: Some(holder),
            count,
            revoked: false,
            remaining,
            fence,
            waiting: 0,
            turn: None,
            description: None,
            permits: None,
        }
    }

    /// The same, `revoked` or not.
    #[must_use]
    pub const fn with_revoked(mut self, revoked: bool) -> Self {
        self.revoked = revoked;
        self
    }

    /// The same with what the holder says of itself.
    #[must_use]
    pub fn with_description(mut self, description: Description) -> Self {
        self.description = Some(description);
        self
    }

    /// The same of a semaphore with so many permits, if of any: whoever holds that does so once.
    #[must_use]
    pub const fn with_permits(mut self, permits: Option<u32>) -> Self {
        self.permits = permits;
        if permits.is_some() && self.count > 1 {
            self.count = 1;
        }
        self
    }

    /// The same with a line.
    #[must_use]
    pub fn with_line(mut self, waiting: u32, turn: Option<(String, Duration)>) -> Self {
        self.waiting = waiting;
        self.turn = turn;
        self
    }
}
