//! A node's report on one name.

use std::sync::Arc;
use std::time::Duration;

use super::operation::Kind;

/// The note that the holder of a name has set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Description {
    /// A lock's note ([`describe`](crate::QuorumLock::describe)), or the value that a leader
    /// proclaimed.
    pub says: Arc<str>,
    /// For how long the holder has had the name.
    pub since: Duration,
    /// The fencing token of the hold.
    pub token: u64,
    /// How many notes the holder had set with the same token before this one.
    pub number: u32,
}

/// A node's report on one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Inspection {
    /// The owner that holds the name; `None` if the name is free. If readers hold the name, this is
    /// one of the readers (`{client}/s{number}`).
    pub holder: Option<String>,
    /// The kind of the hold.
    pub kind: Kind,
    /// The hold count: the number of guards of the holder's lock. If readers hold the name, the
    /// number of readers. 0 if the name is free.
    pub count: u32,
    /// The ballot of the hold. 0 if the name is free.
    pub ballot: u64,
    /// Locks with tokens up to this number are over: they were released or revoked.
    pub over: u64,
    /// How much longer the hold lasts, by the node's clock. If readers hold the name, the time
    /// until the last reader's hold ends. `None` if the name is free or the hold never ends.
    pub remaining: Option<Duration>,
    /// The highest of the name's fence, the readers' fence and the node's floor. A ballot above
    /// this number is high enough.
    pub fence: u64,
    /// How many waiters are in the queue.
    pub waiting: u32,
    /// The holder's note, if there is one.
    pub description: Option<Description>,
}

impl Inspection {
    /// The report on a free name.
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

    /// The report on a name that `holder` holds.
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

    /// Sets the kind of the hold.
    #[must_use]
    pub const fn with_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the ballot of the hold, and [`over`](Self::over).
    #[must_use]
    pub const fn with_ballots(mut self, ballot: u64, over: u64) -> Self {
        (self.ballot, self.over) = (ballot, over);
        self
    }

    /// Whether the name's hold was revoked, and has not ended yet.
    #[must_use]
    pub const fn is_revoked(&self) -> bool {
        self.holder.is_some() && self.over > 0 && self.ballot <= self.over
    }

    /// Sets the holder's note.
    #[must_use]
    pub fn with_description(mut self, description: Description) -> Self {
        self.description = Some(description);
        self
    }

    /// Sets the number of waiters.
    #[must_use]
    pub const fn with_line(mut self, waiting: u32) -> Self {
        self.waiting = waiting;
        self
    }
}
