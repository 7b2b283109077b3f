//! Holding a name alone, or with others.

use super::{DIGITS, Operation, push_number};

/// How a name is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// By one at a time.
    #[default]
    Exclusive,
    /// By any number of readers, and by no other.
    Shared,
}

impl Mode {
    /// That of an owner or its acquisition.
    #[must_use]
    pub fn of(owner: &str) -> Self {
        if Operation::is_shared(owner) { Self::Shared } else { Self::Exclusive }
    }

    /// The acquisition of a client with this number.
    pub(crate) fn acquisition(self, client: &str, number: u64) -> String {
        let slash = match self {
            Self::Exclusive => "/",
            Self::Shared => "/s",
        };
        let mut acquisition = String::with_capacity(client.len() + slash.len() + DIGITS);
        acquisition.push_str(client);
        acquisition.push_str(slash);
        push_number(&mut acquisition, number);
        acquisition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_tells_how_it_holds() {
        for mode in [Mode::Exclusive, Mode::Shared] {
            let acquisition = mode.acquisition("host.s1/s2/uuid", 12);
            assert_eq!([Mode::of(&acquisition), Mode::of(&format!("{acquisition}.3"))], [mode; 2]);
        }
        for owner in ["host/1/uuid/s", "host/1/uuid/s1x.0", "s1", "host/1/s1/2.0", ""] {
            assert_eq!(Mode::of(owner), Mode::Exclusive, "{owner}");
        }
    }
}
