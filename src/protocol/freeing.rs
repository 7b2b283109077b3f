//! The common result of several releases.

use std::sync::Arc;

use super::release::Cleanup;
use crate::host::{Host, before};
use crate::rules::Tick;
use crate::rules::tally::Freed;

/// Releases that were sent: almost always one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Freeing {
    first: Option<Arc<Cleanup>>,
    others: Vec<Arc<Cleanup>>,
}

impl Freeing {
    /// Their caller gets the error that no quorum confirmed one of them: see [`Cleanup::told`].
    pub(crate) fn told(&self) {
        self.all().for_each(|cleanup| cleanup.told());
    }

    /// The worst result of them by `until`.
    pub(crate) async fn freed(&self, host: &Arc<dyn Host>, until: Tick) -> Freed {
        let mut worst = Freed::Held;
        for cleanup in self.all() {
            match before(host, until, cleanup.freed()).await {
                Some(Freed::Held) => {}
                Some(Freed::Gone) => worst = Freed::Gone,
                Some(Freed::Unknown) | None => return Freed::Unknown,
            }
        }
        worst
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Cleanup>> {
        self.first.iter().chain(&self.others)
    }
}

impl Extend<Arc<Cleanup>> for Freeing {
    fn extend<I: IntoIterator<Item = Arc<Cleanup>>>(&mut self, cleanups: I) {
        let mut cleanups = cleanups.into_iter();
        if self.first.is_none() {
            self.first = cleanups.next();
        }
        self.others.extend(cleanups);
    }
}

impl FromIterator<Arc<Cleanup>> for Freeing {
    fn from_iter<I: IntoIterator<Item = Arc<Cleanup>>>(cleanups: I) -> Self {
        let mut all = Self::default();
        all.extend(cleanups);
        all
    }
}
