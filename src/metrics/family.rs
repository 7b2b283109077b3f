//! Metrics that have the same name, and differ in the value of one label.

use metrics::Counter;

/// The metrics, by the value of the label. All are registered before the first event, because
/// Prometheus' `increase()` does not count the first event of a new counter.
#[derive(Debug)]
pub(super) struct Family<L, M>(Box<[(L, M)]>);

impl<L: Copy + PartialEq, M> Family<L, M> {
    pub(super) fn new(values: impl IntoIterator<Item = L>, register: impl Fn(L) -> M) -> Self {
        Self(values.into_iter().map(|value| (value, register(value))).collect())
    }

    fn get(&self, value: L) -> Option<&M> {
        self.0.iter().find(|(known, _)| *known == value).map(|(_, metric)| metric)
    }
}

impl<L: Copy + PartialEq> Family<L, Counter> {
    pub(super) fn count(&self, value: L) {
        if let Some(counter) = self.get(value) {
            counter.increment(1);
        }
    }
}

/// The values of a label.
macro_rules! labels {
    ($(#[$what:meta])* $name:ident { $($value:ident = $text:literal),* }) => {
        $(#[$what])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($value),* }

        impl $name {
            pub(super) const ALL: &'static [Self] = &[$(Self::$value),*];

            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $text),* }
            }
        }
    };
}

labels! {
    /// How an acquisition ended.
    Ended {
        Acquired = "acquired", Contended = "contended", Timeout = "timeout", Unavailable = "unavailable",
        Cancelled = "cancelled", Error = "error"
    }
}

labels! {
    /// How one ask of a round ended.
    RoundEnded { Won = "won", Failed = "failed", Stale = "stale", Timeout = "timeout" }
}

labels! {
    /// How a renewal ended.
    RenewalEnded { Extended = "extended", Lost = "lost", Unclear = "unclear" }
}
