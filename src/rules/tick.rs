//! A moment on one process's own clock.

use std::num::NonZeroU64;
use std::ops::Add;
use std::time::Duration;

/// A moment on the monotonic clock of one process: the time since an arbitrary origin.
///
/// Unlike a `std::time::Instant`, a tick can be made from a number, so rules and simulations need
/// no clock. All arithmetic saturates at the origin and at the end of time, 584 years after the
/// origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(
    /// Nanoseconds; the origin is 1, not 0. So an `Option<Tick>` takes no more memory than a
    /// `Tick`.
    NonZeroU64,
);

impl Tick {
    const ORIGIN: Self = Self(NonZeroU64::MIN);

    /// The end of time: a deadline that never comes.
    pub const NEVER: Self = Self(NonZeroU64::MAX);

    /// The moment that is `elapsed` after the clock's origin.
    #[must_use]
    pub const fn new(elapsed: Duration) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos(elapsed)))
    }

    /// The time since the clock's origin.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        self.since(Self::ORIGIN)
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }

    /// The moment that is `by` before this moment; the clock's origin at the earliest.
    #[must_use]
    pub const fn minus(self, by: Duration) -> Self {
        match NonZeroU64::new(self.0.get().saturating_sub(nanos(by))) {
            Some(nanos) => Self(nanos),
            None => Self::ORIGIN,
        }
    }
}

impl Default for Tick {
    fn default() -> Self {
        Self::ORIGIN
    }
}

/// The nanoseconds of a duration, or the largest number if they do not fit.
const fn nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos() as u64)
}

impl Add<Duration> for Tick {
    type Output = Self;

    fn add(self, after: Duration) -> Self {
        Self(self.0.saturating_add(nanos(after)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_beyond_the_largest_is_the_largest() {
        let late = Tick::new(Duration::from_secs(500 * 365 * 86_400));
        assert_eq!([Tick::new(Duration::MAX), late + Duration::MAX, late + late.since_origin()], [Tick::NEVER; 3]);
        assert_eq!(late.minus(Duration::MAX), Tick::default());
        assert_eq!(Tick::default().since(late), Duration::ZERO);
    }

    #[test]
    fn tick_keeps_nanoseconds() {
        let (at, while_) = (Tick::new(Duration::new(5, 1)), Duration::new(3, 999_999_999));
        assert_eq!((at + while_).since_origin(), Duration::new(9, 0));
        assert_eq!((at + while_).since(at), while_);
        assert_eq!((at + while_).minus(while_), at);
    }
}
