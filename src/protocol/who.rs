//! As whom an acquisition asks.

use super::grant::Grant;
use super::voters::Voters;
use crate::node::{Mode, Operation};

/// As whom an acquisition asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who<'a> {
    /// As nobody that has asked before.
    Next(Mode),
    /// As the reader that this writer becomes.
    Follows(&'a Grant),
}

impl Who<'_> {
    /// How it is to hold the names.
    pub(super) const fn mode(self) -> Mode {
        match self {
            Self::Next(mode) => mode,
            Self::Follows(_) => Mode::Shared,
        }
    }

    /// What identifies it: the client and a number.
    pub(super) fn acquisition(self, voters: &Voters) -> (String, u64) {
        let follows = |grant: &Grant| {
            let (client, number) = Operation::acquisition(grant.owner()).rsplit_once('/')?;
            let number = number.parse().ok()?;
            Some((Mode::Shared.acquisition(client, number), number))
        };
        match self {
            Self::Next(mode) => voters.acquisition(mode),
            // It always is one: this client made its owner.
            Self::Follows(grant) => follows(grant).unwrap_or_else(|| voters.acquisition(Mode::Shared)),
        }
    }
}
