//! The kind of a hold.

/// The kind of a hold, which nodes store with the hold. If a name is held as a gate, nodes refuse
/// claims of any other kind. If a name is held as another kind, nodes refuse claims of kind `Gate`.
/// A release removes the holder's note unless the kind is `Lock`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A plain lock.
    #[default]
    Lock,
    /// A lock that may have a note.
    Noted,
    /// A hold for a period in which a task runs only once. This hold may have a note.
    Once,
    /// The gate of a semaphore.
    Gate,
}

impl Kind {
    /// The number that nodes store.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Lock => 0,
            Self::Noted => 1,
            Self::Once => 2,
            Self::Gate => 3,
        }
    }

    /// The kind with this number; `Lock` for an unknown number.
    #[must_use]
    pub const fn of(code: u64) -> Self {
        match code {
            1 => Self::Noted,
            2 => Self::Once,
            3 => Self::Gate,
            _ => Self::Lock,
        }
    }

    /// Whether the holder may have a note.
    #[must_use]
    pub const fn may_have_note(self) -> bool {
        !matches!(self, Self::Lock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_is_known_by_its_number() {
        for kind in [Kind::Lock, Kind::Noted, Kind::Once, Kind::Gate] {
            assert_eq!(Kind::of(kind.code().into()), kind);
        }
        assert_eq!(Kind::of(99), Kind::Lock);
    }
}
