//! As whom an acquisition asks.

use super::grant::Grant;
use super::voters::Voters;
use crate::node::{Mode, Name};

/// As whom an acquisition asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who<'a> {
    /// As nobody that has asked before.
    Next(Mode),
    /// As nobody that has asked before, for a semaphore's gate.
    Gate,
    /// As nobody that has asked before, for permits of the semaphore with this gate: only where nobody
    /// holds that, nor waits for it.
    Permits(&'a Name),
    /// As the reader that this writer becomes.
    Follows(&'a Grant),
}

impl<'a> Who<'a> {
    /// The gate that nodes look at before they grant.
    pub(super) const fn looks_at(self) -> Option<&'a Name> {
        if let Self::Permits(gate) = self { Some(gate) } else { None }
    }

    /// What is wrong where nodes say that `name` is held as a lock, or as the gate of a semaphore.
    pub(crate) fn misuse(self, name: &Name) -> String {
        match self {
            Self::Gate | Self::Permits(_) => {
                format!("{name:?} is held as a lock; use another name for the semaphore, or for the lock")
            }
            Self::Next(_) | Self::Follows(_) => {
                format!("{name:?} is used as a semaphore; acquire a permit of it, or use another name")
            }
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
            Self::Gate | Self::Permits(_) => voters.owner(Mode::Exclusive),
            // It always is one: this client made its owner.
            Self::Follows(grant) => follows(grant).unwrap_or_else(|| voters.owner(Mode::Shared)),
        }
    }

    /// The token of the writer that it was; 0 if it was none.
    pub(super) const fn follows(self) -> u64 {
        match self {
            Self::Follows(grant) => grant.token(),
            Self::Next(_) | Self::Gate | Self::Permits(_) => 0,
        }
    }
}
