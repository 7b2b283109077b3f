//! A host whose clock and random numbers are the same in each run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorumlock::host::{Host, Task, TokioTime};
use quorumlock::rules::Tick;
use tokio::runtime::Handle;

/// The wall clock when a run begins.
const EPOCH: Duration = Duration::from_secs(1_764_000_000);

/// Tokio's clock, which is paused, and numbers that only look random.
#[derive(Debug)]
pub struct Still {
    time: TokioTime,
    state: AtomicU64,
}

impl Still {
    pub fn new() -> Self {
        Self { time: TokioTime::new(Handle::current()), state: AtomicU64::new(1) }
    }
}

impl Host for Still {
    fn now(&self) -> Tick {
        self.time.now()
    }

    fn wall(&self) -> Duration {
        EPOCH + self.now().since_origin()
    }

    /// SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
    fn random(&self) -> u64 {
        let mut mixed = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn spawn(&self, task: Task) {
        self.time.spawn(task);
    }
}
