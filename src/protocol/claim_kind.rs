//! The kind of owner for which an acquisition claims names.

use super::grant::Grant;
use super::voters::Voters;
use crate::node::{Mode, Name};

#[derive(Clone, Copy, Debug)]
pub(crate) enum ClaimKind<'a> {
    /// A new owner that claims the names as a writer or as a reader.
    Next(Mode),
    /// A new owner that claims a semaphore's gate.
    Gate,
    /// A new owner that claims permits of the semaphore with this gate. A node refuses this claim
    /// if an owner holds the gate or waits for it.
    Permits(&'a Name),
    /// The reader that this writer becomes (a downgrade).
    Follows(&'a Grant),
}

impl<'a> ClaimKind<'a> {
    /// The gate that nodes check before they grant permits.
    pub(super) const fn looks_at(self) -> Option<&'a Name> {
        if let Self::Permits(gate) = self { Some(gate) } else { None }
    }

    /// The error text for the reply `misused`: `name` is held as a lock and this claim is for a
    /// semaphore, or the other way round.
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

    /// The owner's id and number.
    pub(super) fn owner(self, voters: &Voters) -> (String, u64) {
        let follows = |grant: &Grant| {
            let (client, number) = grant.owner().rsplit_once('/')?;
            let number = number.parse().ok()?;
            Some((Mode::Shared.owner(client, number), number))
        };
        match self {
            Self::Next(mode) => voters.owner(mode),
            Self::Gate | Self::Permits(_) => voters.owner(Mode::Exclusive),
            // This client made the writer's id, so the parsing cannot fail.
            Self::Follows(grant) => follows(grant).unwrap_or_else(|| voters.owner(Mode::Shared)),
        }
    }

    /// The token of the writer that becomes a reader; 0 for other claims.
    pub(super) const fn follows(self) -> u64 {
        match self {
            Self::Follows(grant) => grant.token(),
            Self::Next(_) | Self::Gate | Self::Permits(_) => 0,
        }
    }
}
