//! Counts how the nodes answered claims. The counts come from the library's metrics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::counters::{Counters, label};

/// How often a node granted claims, refused them, or did not vote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Votes {
    pub(super) granted: u64,
    /// Refused, for example because another owner held the lock or was next in the queue, or
    /// because the ballot was too low.
    pub(super) refused: u64,
    /// No vote, for example because the node was down or in quarantine, or its reply was late.
    pub(super) missing: u64,
}

pub(super) type Tally = BTreeMap<String, Votes>;

/// Returns the votes that were counted since the process started.
pub(super) fn tally(counters: &Counters) -> Tally {
    let mut tally = Tally::new();
    counters.each(|key, count| {
        let claims = label(key, "operation") == Some("claim");
        let (Some(node), Some(outcome), true) = (label(key, "node"), label(key, "outcome"), claims) else { return };
        let votes = tally.entry(node.to_owned()).or_default();
        match outcome {
            "ok" => votes.granted += count,
            "refused" => votes.refused += count,
            _ => votes.missing += count,
        }
    });
    tally
}

/// How many locks nodes have handed over to the next waiter. A hand-over is no reply to a claim, so
/// `Votes` does not count it.
pub(super) fn handovers(counters: &Counters) -> u64 {
    let mut all = 0;
    counters.each(|key, count| all += if key.name() == "quorumlock_handovers_total" { count } else { 0 });
    all
}

impl Votes {
    pub(super) fn add(&mut self, other: Self) {
        self.granted += other.granted;
        self.refused += other.refused;
        self.missing += other.missing;
    }
}
