//! The ends of quarantines, as they are shown to people.

use std::time::Duration;

use super::voters::Voters;
use crate::node::{NodeState, NodeStatus};
use crate::rules::doubt::{Doubt, LATEST_SYNC};
use crate::rules::known_nodes::Known;

impl Voters {
    /// The status of each node. A node votes no later than after the `left` of its quarantine, if
    /// clients send hellos, a quorum of nodes answers, and nothing else happens.
    pub(crate) fn statuses(&self) -> Vec<NodeStatus> {
        let mut statuses: Vec<_> = self.nodes.iter().map(|node| node.status()).collect();
        let known: Vec<_> = self.nodes.iter().map(|node| node.known()).collect();
        let extra = extra(&known, self.size.blocking() as usize);
        for (status, extra) in statuses.iter_mut().zip(extra) {
            match &mut status.state {
                // This time already includes the wait for a sync.
                NodeState::Quarantined { doubt: Doubt::Unsynced, .. } => {}
                NodeState::Quarantined { left, .. } => *left += extra,
                _ => {}
            }
        }
        statuses
    }
}

/// How much later than at the end of its quarantine each node may vote. A node that forgot must
/// first be synced. If `enough` other nodes are synced, this happens during the quarantine.
fn extra(known: &[Option<Known>], enough: usize) -> Vec<Duration> {
    let is_synced =
        |known: &Known| known.record.as_ref().is_some_and(|record| record.synced && record.is_of(&known.process));
    let synced = known.iter().flatten().filter(|known| is_synced(known)).count();
    let waits = |known: &Known| !is_synced(known) && synced < enough;
    let extra = |known: &Option<Known>| if known.as_ref().is_some_and(waits) { LATEST_SYNC } else { Duration::ZERO };
    known.iter().map(extra).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::list::Record;

    const NONE: Duration = Duration::ZERO;

    fn known(synced: bool, made_by: &str) -> Option<Known> {
        let record = Record {
            id: "id".into(),
            process: made_by.into(),
            age: NONE,
            high: 1,
            floor: 0,
            synced,
            word: None,
            in_force: None,
            seen: Vec::new(),
        };
        Some(Known { process: "now/1".into(), record: Some(record), ..Known::default() })
    }

    #[test]
    fn quarantine_ends_later_if_too_few_other_nodes_are_synced() {
        let (synced, forgot, restarted) = (known(true, "now/1"), known(false, "now/1"), known(true, "before/1"));
        let all = |nodes: [&Option<Known>; 3]| extra(&nodes.map(Clone::clone), 2);
        assert_eq!(all([&synced, &synced, &forgot]), [NONE; 3]);
        assert_eq!(all([&synced, &forgot, &restarted]), [NONE, LATEST_SYNC, LATEST_SYNC]);
        assert_eq!(all([&forgot, &forgot, &None]), [LATEST_SYNC, LATEST_SYNC, NONE]);
    }
}
