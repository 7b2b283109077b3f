//! A moment on one process's own clock.

use std::ops::Add;
use std::time::Duration;

/// A moment on the monotonic clock of one process: the time since an origin that means nothing
/// elsewhere.
///
/// Unlike `std::time::Instant` it can be made by hand, so rules and simulations need no clock. All
/// arithmetic saturates: a deadline that lies beyond the end of time is the end of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(Duration);

impl Tick {
    /// The end of time: a deadline that never comes.
    pub const NEVER: Self = Self(Duration::MAX);

    /// The moment `since` after the clock's origin.
    #[must_use]
    pub const fn new(since: Duration) -> Self {
        Self(since)
    }

    /// The time since the clock's origin.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// This moment moved back by `by`; the clock's origin at the earliest.
    #[must_use]
    pub const fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by))
    }
}

impl Add<Duration> for Tick {
    type Output = Self;

    fn add(self, after: Duration) -> Self {
        Self(self.0.saturating_add(after))
    }
}
