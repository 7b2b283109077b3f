//! What comes of several releases together.

use std::sync::Arc;

use crate::host::{Host, before};
use crate::protocol::{Cleanup, Returned};
use crate::rules::Tick;
use crate::rules::tally::Freed;

/// Releases that were sent.
#[derive(Debug)]
pub(crate) struct Freeing(Vec<Arc<Cleanup>>);

impl Freeing {
    pub(super) fn of(returned: &[Returned]) -> Self {
        Self(returned.iter().map(|returned| returned.cleanup.clone()).collect())
    }

    /// Their caller gets the error that no quorum has confirmed one of them.
    pub(crate) fn told(&self) {
        self.0.iter().for_each(|cleanup| cleanup.told());
    }

    /// What they came to by `until`: that of the worst.
    pub(crate) async fn freed(&self, host: &Arc<dyn Host>, until: Tick) -> Freed {
        let mut worst = Freed::Held;
        for cleanup in &self.0 {
            match before(host, until, cleanup.freed()).await {
                Some(Freed::Held) => {}
                Some(Freed::Gone) => worst = Freed::Gone,
                Some(Freed::Unknown) | None => return Freed::Unknown,
            }
        }
        worst
    }
}
