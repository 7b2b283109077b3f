//! As whom an acquisition asks.

use super::grant::Grant;
use super::voters::Voters;
use crate::node::{Mode, Name, Seat};

/// As whom an acquisition asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who<'a> {
    /// As nobody that has asked before.
    Next(Mode),
    /// As nobody that has asked before, for a semaphore's gate, permits of it, or both.
    Seated(Seat),
    /// As the reader that this writer becomes.
    Follows(&'a Grant),
}

impl Who<'_> {
    /// What a claim tells as its hold count.
    pub(super) const fn count(self) -> u32 {
        match self {
            Self::Seated(seat) => seat.count(),
            Self::Next(_) | Self::Follows(_) => 1,
        }
    }

    /// What is wrong where nodes say that `name` is the gate of a semaphore with so many permits, or
    /// with 0 that it is held as a lock.
    pub(crate) fn misuse(self, name: &Name, permits: u32) -> String {
        match self {
            Self::Seated(_) if permits == 0 => {
                format!("{name:?} is held as a lock; use another name for the semaphore, or for the lock")
            }
            Self::Seated(Seat::Gate(fewer)) if fewer < permits => format!(
                "the semaphore {name:?} has {permits} permits for other clients and {fewer} here; give it at least \
                 {permits} (their number may grow, and shrinks once nobody has used it for two minutes)"
            ),
            _ => format!(
                "{name:?} is used as a semaphore of {permits} permits; acquire a permit of it, or use another name"
            ),
        }
    }

    /// The owner, and its number.
    pub(super) fn owner(self, voters: &Voters) -> (String, u64) {
        let follows = |grant: &Grant| {
            let (client, number) = grant.owner().rsplit_once('/')?;
            let number = number.parse().ok()?;
            Some((Mode::Shared.owner(client, number), number))
        };
        match self {
            Self::Next(mode) => voters.owner(mode),
            Self::Seated(_) => voters.owner(Mode::Exclusive),
            // It always is one: this client made its owner.
            Self::Follows(grant) => follows(grant).unwrap_or_else(|| voters.owner(Mode::Shared)),
        }
    }

    /// The token of the writer that it was; 0 if it was none.
    pub(super) const fn follows(self) -> u64 {
        match self {
            Self::Follows(grant) => grant.token(),
            Self::Next(_) | Self::Seated(_) => 0,
        }
    }
}
