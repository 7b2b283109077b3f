//! The kind of owner for which an acquisition claims names.

use super::voters::Voters;
use crate::node::{Mode, Name, Predecessor};

#[derive(Clone, Copy, Debug)]
pub(crate) enum ClaimKind<'a> {
    /// A new owner that claims the names as a writer or as a reader.
    Next(Mode),
    /// A new owner that claims a semaphore's gate.
    Gate,
    /// A new owner that claims permits of the semaphore with this gate. A node refuses this claim
    /// if an owner holds the gate or waits for it.
    Permits(&'a Name),
    /// A new owner that takes over this lock: as a reader (a downgrade), or as a writer (a ticket).
    Follows(Mode, &'a Predecessor),
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
            Self::Next(_) | Self::Follows(..) => {
                format!("{name:?} is used as a semaphore; acquire a permit of it, or use another name")
            }
        }
    }

    /// The owner's id and number.
    pub(super) fn owner(self, voters: &Voters) -> (String, u64) {
        voters.owner(match self {
            Self::Next(mode) | Self::Follows(mode, _) => mode,
            Self::Gate | Self::Permits(_) => Mode::Exclusive,
        })
    }

    /// The lock that is taken over.
    pub(super) const fn follows(self) -> Option<&'a Predecessor> {
        if let Self::Follows(_, lock) = self { Some(lock) } else { None }
    }
}
