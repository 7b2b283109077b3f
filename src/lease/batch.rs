//! Renewals that were sent at the same moment and are under way.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};

use crate::error::NodeReport;
use crate::host::{Host, before};
use crate::protocol::Renewing;
use crate::rules::session_state::Sent;
use crate::rules::{Renewal, Tick};

/// The renewals of several grants, which were sent at one moment.
pub(super) struct Batch {
    pub(super) renewals: Vec<(Sent, Renewing)>,
    /// The time until which to wait for replies.
    pub(super) until: Tick,
}

/// When to send renewals again: after a pause that begins at `from`. Renewals of a batch share the
/// random number, so their pauses are usually equal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    pub(super) from: Tick,
    pub(super) random: u64,
}

impl Batch {
    /// Passes the result of each renewal to `note` as soon as it is known. Unclear results are
    /// passed together at the end, so that these renewals are sent again at the same moment.
    /// Returns the nodes' replies to the first unclear renewal; empty if none is unclear.
    pub(super) async fn heard(
        &self,
        host: &Arc<dyn Host>,
        mut note: impl FnMut(Sent, &Renewing, Renewal, Again),
    ) -> Vec<NodeReport> {
        let mut open: BTreeSet<usize> = (0..self.renewals.len()).collect();
        let random = host.random();
        let again = || Again { from: host.now(), random };
        let heard = async {
            let decided = |at: usize| self.renewals[at].1.decided().map(move |renewal| (at, renewal));
            let mut waits: FuturesUnordered<_> = (0..self.renewals.len()).map(decided).collect();
            while let Some((at, renewal)) = waits.next().await {
                if renewal != Renewal::Unclear {
                    open.remove(&at);
                    note(self.renewals[at].0, &self.renewals[at].1, renewal, again());
                }
            }
        };
        let _ = before(host, self.until, heard).await;
        let (again, failed) = (again(), open.first().map(|&at| self.renewals[at].1.reports()));
        for at in open {
            note(self.renewals[at].0, &self.renewals[at].1, Renewal::Unclear, again);
        }
        failed.unwrap_or_default()
    }
}
