//! The pauses before unconfirmed releases are sent again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::schedule::{Event, Schedule};
use crate::host::Host;
use crate::protocol::PendingRelease;
use crate::rules::Backoff;

const PAUSES: Backoff = Backoff { min: Duration::from_millis(100), max: Duration::from_secs(2) };

/// The longest pause once a release has been tried for longer than the lock's ttl, such as for a
/// `Once`. Each pause is then half to all of the time since the first try, up to this limit. So a
/// node that comes back gets the release within about the time for which it was away.
const RARELY: Duration = Duration::from_secs(60);

/// Schedules another try of every release that comes through the channel. Ends when the channel has
/// no sender.
pub(super) async fn schedule<L: ?Sized>(
    pending: &mut mpsc::Receiver<Arc<dyn PendingRelease>>,
    host: &Arc<dyn Host>,
    schedule: &Schedule<L>,
) {
    while let Some(release) = pending.recv().await {
        schedule.add(host.now() + pause(&*release, host.random()), Event::Release(release));
    }
}

fn pause(release: &dyn PendingRelease, random: u64) -> Duration {
    if let Some(passed) = release.overtime() {
        let half = RARELY.min(passed) / 2;
        return half + Backoff { min: half, max: half }.pause(0, Duration::ZERO, random);
    }
    PAUSES.pause(release.tries(), Duration::ZERO, random).max(PAUSES.min / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of `tries` and `overtime`.
    #[derive(Debug)]
    struct Tried(u32, Option<Duration>);

    impl PendingRelease for Tried {
        fn again(self: Arc<Self>) {}

        fn tries(&self) -> u32 {
            self.0
        }

        fn overtime(&self) -> Option<Duration> {
            self.1
        }
    }

    #[test]
    fn retry_pause_is_up_to_a_minute_past_the_ttl_else_two_seconds() {
        let second = Duration::from_secs(1);
        for tries in [0, 7, u32::MAX] {
            for random in [0, 1 << 63, u64::MAX] {
                for (passed, longest) in [(2, 2), (40, 40), (90, 60), (86_400, 60)] {
                    let rarely = pause(&Tried(tries, Some(second * passed)), random);
                    assert!((second * longest / 2..=second * longest).contains(&rarely), "{rarely:?}");
                }
                let soon = pause(&Tried(tries, None), random);
                assert!((second / 20..=second * 2).contains(&soon), "{soon:?}");
            }
        }
    }
}
