//! What a node says of one name.

use std::sync::Arc;
use std::time::Duration;

use super::operation::Kind;

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
    /// Who holds it; of readers one, whose number is behind an `s`.
    pub holder: Option<String>,
    /// What the hold is.
    pub kind: Kind,
    /// The holder's hold count; of readers how many there are; 0 where nobody holds it.
    pub count: u32,
    /// With which ballot it was granted; 0 where nobody holds it.
    pub ballot: u64,
    /// Locks with tokens up to this one are over.
    pub over: u64,
    /// For how long the holder has it still, by the node's clock. `None` where nobody holds it or
    /// the hold never ends.
    pub remaining: Option<Duration>,
    /// The highest ballot granted or told.
    pub fence: u64,
    /// How many wait in line.
    pub waiting: u32,
    /// What the holder says of itself, if anything.
    pub description: Option<Description>,
}

impl Inspection {
    /// A name nobody holds.
    #[must_use]
    pub const fn free(fence: u64) -> Self {
        Self {
            holder: None,
            kind: Kind::Lock,
            count: 0,
            ballot: 0,
            over: 0,
            remaining: None,
            fence,
            waiting: 0,
            description: None,
        }
    }

    /// A name that `holder` holds.
    #[must_use]
    pub const fn held(holder: String, count: u32, remaining: Option<Duration>, fence: u64) -> Self {
        Self {
            holder: Some(holder),
            kind: Kind::Lock,
            count,
            ballot: 0,
            over: 0,
            remaining,
            fence,
            waiting: 0,
            description: None,
        }
    }

    /// The same of this kind.
    #[must_use]
    pub const fn with_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// The same, granted with this ballot, where locks with tokens up to `over` are over.
    #[must_use]
    pub const fn with_ballots(mut self, ballot: u64, over: u64) -> Self {
        (self.ballot, self.over) = (ballot, over);
        self
    }

    /// Whether it was taken away from the holder, who has not let go yet.
    #[must_use]
    pub const fn is_revoked(&self) -> bool {
        self.holder.is_some() && self.over > 0 && self.ballot <= self.over
    }

    /// The same with what the holder says of itself.
    #[must_use]
    pub fn with_description(mut self, description: Description) -> Self {
        self.description = Some(description);
        self
    }

    /// The same with a line.
    #[must_use]
    pub const fn with_line(mut self, waiting: u32) -> Self {
        self.waiting = waiting;
        self
    }
}
