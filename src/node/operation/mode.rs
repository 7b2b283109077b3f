//! Whether an owner holds a name alone or with others.

use super::{DIGITS, Operation, push_number};

/// How an owner holds a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Alone.
    #[default]
    Exclusive,
    /// Together with other readers.
    Shared,
}

impl Mode {
    /// The mode of an owner, which the owner's name shows.
    #[must_use]
    pub fn of(owner: &str) -> Self {
        if Operation::is_shared(owner) { Self::Shared } else { Self::Exclusive }
    }

    /// The name of a client's owner with this number and mode.
    pub(crate) fn owner(self, client: &str, number: u64) -> String {
        let slash = match self {
            Self::Exclusive => "/",
            Self::Shared => "/s",
        };
        let mut owner = String::with_capacity(client.len() + slash.len() + DIGITS);
        owner.push_str(client);
        owner.push_str(slash);
        push_number(&mut owner, number);
        owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_tells_how_it_holds() {
        for mode in [Mode::Exclusive, Mode::Shared] {
            assert_eq!(Mode::of(&mode.owner("host.s1/s2/uuid", 12)), mode);
        }
        for owner in ["host/1/uuid/s", "host/1/uuid/s1x", "s1", "host/1/s1/2", ""] {
            assert_eq!(Mode::of(owner), Mode::Exclusive, "{owner}");
        }
    }
}
