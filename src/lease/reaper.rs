//! Tries releases again on nodes that did not confirm them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::schedule::{Event, Schedule};
use crate::host::Host;
use crate::protocol::Leftover;
use crate::rules::Backoff;

/// Pauses between tries.
const PAUSES: Backoff = Backoff { min: Duration::from_millis(100), max: Duration::from_secs(2) };

/// Schedules another try of every release that arrives. Ends when nobody can send one any more.
pub(super) async fn schedule<L: ?Sized>(
    leftovers: &mut mpsc::Receiver<Arc<dyn Leftover>>,
    host: &Arc<dyn Host>,
    schedule: &Schedule<L>,
) {
    while let Some(release) = leftovers.recv().await {
        let pause = PAUSES.pause(release.tries(), Duration::ZERO, host.random()).max(PAUSES.min / 2);
        schedule.add(host.now() + pause, Event::Release(release));
    }
}
