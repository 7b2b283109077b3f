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

/// The same where nodes may hold it for far longer than has passed: half to all of it.
const RARELY: Duration = Duration::from_secs(60);

/// Schedules another try of every release that arrives. Ends when nobody can send one any more.
pub(super) async fn schedule<L: ?Sized>(
    leftovers: &mut mpsc::Receiver<Arc<dyn Leftover>>,
    host: &Arc<dyn Host>,
    schedule: &Schedule<L>,
) {
    while let Some(release) = leftovers.recv().await {
        schedule.add(host.now() + pause(&*release, host.random()), Event::Release(release));
    }
}

fn pause(release: &dyn Leftover, random: u64) -> Duration {
    if release.has_time() {
        let half = RARELY / 2;
        return half + Backoff { min: half, max: half }.pause(0, Duration::ZERO, random);
    }
    PAUSES.pause(release.tries(), Duration::ZERO, random).max(PAUSES.min / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A release that was tried so often, and whether nodes may hold what it is for far longer.
    #[derive(Debug)]
    struct Tried(u32, bool);

    impl Leftover for Tried {
        fn again(self: Arc<Self>) {}

        fn tries(&self) -> u32 {
            self.0
        }

        fn has_time(&self) -> bool {
            self.1
        }
    }

    #[test]
    fn what_has_time_is_tried_twice_a_minute_at_most_and_all_else_within_two_seconds() {
        let second = Duration::from_secs(1);
        for tries in [0, 7, u32::MAX] {
            for random in [0, 1 << 63, u64::MAX] {
                let rarely = pause(&Tried(tries, true), random);
                assert!((second * 30..=second * 60).contains(&rarely), "{rarely:?}");
                let soon = pause(&Tried(tries, false), random);
                assert!((second / 20..=second * 2).contains(&soon), "{soon:?}");
            }
        }
    }
}
