//! What a claim, or a renewal, is of a semaphore.

/// It is told in place of the hold count, which whoever has a permit has no use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Seat {
    /// The first of its names is the gate of a semaphore with so many permits, and the others are
    /// some of these.
    Gate(u32),
    /// All its names are permits of a semaphore with so many.
    Permit(u32),
}

const GATE: u32 = 1 << 31;
const PERMIT: u32 = 1 << 30;
/// No hold count is above it.
pub(super) const MOST_HOLDS: u32 = PERMIT - 1;

impl Seat {
    /// In place of a hold count.
    #[must_use]
    pub const fn count(self) -> u32 {
        match self {
            Self::Gate(permits) => GATE | permits & MOST_HOLDS,
            Self::Permit(permits) => PERMIT | permits & MOST_HOLDS,
        }
    }

    /// What is told in place of a hold count; `None` where it is one.
    #[must_use]
    pub const fn of(count: u32) -> Option<Self> {
        match count & MOST_HOLDS {
            permits if count >= GATE => Some(Self::Gate(permits)),
            permits if count >= PERMIT => Some(Self::Permit(permits)),
            _ => None,
        }
    }

    /// How many permits the semaphore has.
    #[must_use]
    pub const fn permits(self) -> u32 {
        match self {
            Self::Gate(permits) | Self::Permit(permits) => permits,
        }
    }

    /// What is told of the permits alone.
    #[must_use]
    pub const fn without_gate(self) -> Self {
        Self::Permit(self.permits())
    }

    /// How often something is held with that.
    #[must_use]
    pub const fn holds(count: u32) -> u32 {
        if count > MOST_HOLDS { 1 } else { count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_told_in_place_of_a_hold_count_and_never_taken_for_one() {
        for seat in [Seat::Gate(1), Seat::Permit(1), Seat::Gate(1_000), Seat::Permit(1_000)] {
            assert_eq!(Seat::of(seat.count()), Some(seat));
            assert_eq!(Seat::holds(seat.count()), 1);
        }
        for count in [0, 1, 7, MOST_HOLDS] {
            assert_eq!((Seat::of(count), Seat::holds(count)), (None, count));
        }
        assert_eq!(Seat::Gate(3).without_gate(), Seat::Permit(3));
    }
}
