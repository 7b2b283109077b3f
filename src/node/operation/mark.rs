//! What an owner tells of itself by zeros in front of the number of its round.

use super::split_number;

/// What a holder is, beside a lock. Nodes look for a note where there is any zero; all else is for
/// clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mark {
    /// Nothing else.
    #[default]
    Plain,
    /// It may have a note.
    Note,
    /// It is held for a period in which something is done once. It may have a note too.
    Once,
}

impl Mark {
    /// The zeros.
    pub(super) const fn zeros(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Note => "0",
            Self::Once => "00",
        }
    }

    /// Of the owner of a round. A first round with a note is `00`, and no number begins with a
    /// zero: so two zeros are a mark only with a digit behind them.
    #[must_use]
    pub fn of(owner: &str) -> Self {
        match split_number(owner) {
            (acquisition, _) if !acquisition.ends_with('.') => Self::Plain,
            (_, round) if round.len() > 2 && round.starts_with("00") => Self::Once,
            (_, round) if round.len() > 1 && round.starts_with('0') => Self::Note,
            _ => Self::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Operation;

    #[test]
    fn an_owner_tells_what_it_is_and_its_acquisition_all_the_same() {
        for round in [0, 1, 10, 100, 123] {
            for mark in [Mark::Plain, Mark::Note, Mark::Once] {
                let owner = Operation::round_owner("host.00/1/uuid/7", round, mark);
                assert_eq!((Mark::of(&owner), Operation::acquisition(&owner)), (mark, "host.00/1/uuid/7"), "{owner}");
                assert_eq!(Operation::may_have_note(&owner), mark != Mark::Plain);
            }
        }
        for other in ["", "owner", "host.000/1/uuid/7", "owner.", "owner.000x", "owner.0x"] {
            assert_eq!(Mark::of(other), Mark::Plain, "{other}");
        }
    }
}
