//! Fence sync: a node that forgot its fences gets a floor that replaces them. This file chooses the
//! ballot of this floor.

use super::{Known, KnownNodes};
use crate::rules::doubt::LATE;
use crate::rules::list::Record;
use crate::rules::tick::Tick;

impl KnownNodes {
    /// The ballot to which a node that forgot is synced now; `None` if it cannot be synced now.
    ///
    /// The node lost its fences, which keep tokens growing. But a quorum granted each token. So of
    /// any N - quorum + 1 other nodes that are synced, at least one has a `high` of at least the
    /// token. The client must ask these nodes after `settles_at`: from then on, no round can count
    /// a forgotten grant. If too few synced nodes have answered by [`LATE`] after the quarantine,
    /// the client counts all nodes that answered. With the node that forgot, they must be a quorum.
    pub(super) fn sync(&self, number: usize, now: Tick) -> Option<u64> {
        let pupil = self.nodes[number].answer()?;
        pupil.record.as_ref().filter(|record| !record.synced && record.is_of(&pupil.process))?;
        if !self.nodes[number].has(&self.list, now) {
            return None;
        }
        let is_later = |known: &Known| known.at > pupil.settles_at;
        let others: Vec<&Record> = self
            .fresh_records(now)
            .filter(|(node, _)| node.name != self.nodes[number].name && node.answer().is_some_and(is_later))
            .map(|(_, record)| record)
            .collect();
        let sure: Vec<&Record> = others.iter().copied().filter(|record| record.synced).collect();
        if sure.len() >= self.size.blocking() as usize {
            return highest(&sure);
        }
        let late = now > pupil.free_at + LATE && others.len() + 1 >= self.size.quorum() as usize;
        late.then(|| highest(&others).unwrap_or_default())
    }
}

fn highest(records: &[&Record]) -> Option<u64> {
    records.iter().map(|record| record.high).max()
}
