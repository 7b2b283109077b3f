//! A caller that waits in the nodes' queues.

use std::sync::Arc;

use super::voters::Voters;

/// Counts the caller in the metrics, as long as this lives.
#[derive(Debug)]
pub(super) struct QueueEntry(Arc<Voters>);

impl QueueEntry {
    pub(super) fn new(voters: &Arc<Voters>) -> Arc<Self> {
        voters.meters.in_line(true);
        Arc::new(Self(voters.clone()))
    }
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        self.0.meters.in_line(false);
    }
}
